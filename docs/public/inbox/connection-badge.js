/** Shows the state of the connection, with a button to try again at once. */
import { byId } from './elements.js';

const STATES = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
  stopped: 'Not connected',
};

/** A background tab's timers run at least once a minute: a longer gap means that the machine slept. */
const SLEEP_MS = 150_000;

export class ConnectionBadge {
  #badge = byId('connection');
  #text = byId('connection-text');
  #retry = byId('retry', HTMLButtonElement);
  #say;

  /**
   * @param {(text: string) => void} say for readers of the screen who do not see it
   * @param {() => void} onWake the connection may have died without a word, or somebody wants it now
   */
  constructor(say, onWake) {
    this.#say = say;
    this.#retry.addEventListener('click', onWake);
    addEventListener('online', onWake);
    let awakeAt = Date.now();
    setInterval(() => {
      const slept = Date.now() - awakeAt > SLEEP_MS;
      awakeAt = Date.now();
      if (slept) onWake();
    }, 20_000);
  }

  /**
   * @param {import('./live-channel.js').ChannelState} state
   * @param {number} retryInMs
   */
  show(state, retryInMs) {
    const before = this.#badge.dataset.state;
    if (before !== state && before !== 'stopped') this.#say(STATES[state]);
    this.#badge.dataset.state = state;
    const isOffline = state === 'reconnecting' && !navigator.onLine;
    this.#text.textContent = isOffline ? 'Offline' : STATES[state];
    this.#badge.title = retryInMs > 0 ? `Next attempt in ${Math.ceil(retryInMs / 1000)} s` : '';
    const hadFocus = document.activeElement === this.#retry;
    this.#retry.hidden = state !== 'reconnecting';
    if (hadFocus && this.#retry.hidden) byId('list-pane').focus();
  }

  /** @param {number} seconds that the server asked us to wait */
  showWait(seconds) {
    this.#say(`The server asks us to wait ${seconds} seconds.`);
    this.#text.textContent = `Waiting ${seconds} s`;
  }
}
