/**
 * The realtime channel: one WebSocket at a time, opened again whenever it is lost.
 */

/** @typedef {import('./protocol-log.js').ProtocolLog} ProtocolLog */
/** @typedef {{ mailbox: string, uidvalidity: string, token: string }} Tip where a mailbox stands */

/**
 * @typedef {object} Hello
 * @property {'hello'} type
 * @property {string} user
 * @property {Tip[]} mailboxes every mailbox of the account
 */

/**
 * - `connecting`: the first attempt
 * - `live`: the server said hello
 * - `reconnecting`: the connection is lost; the next attempt comes by itself
 * - `stopped`: nothing is attempted
 *
 * @typedef {'connecting' | 'live' | 'reconnecting' | 'stopped'} ChannelState
 */

/**
 * @typedef {object} ChannelOptions
 * @property {string} origin where the API is, such as `https://mail.example`
 * @property {() => string} token the one that is good now
 * @property {ProtocolLog} log
 * @property {(hello: Hello) => void} onHello
 * @property {(tip: Tip) => void} onChange
 * @property {() => void} onListChange mailboxes were made, renamed or deleted
 * @property {(state: ChannelState, retryInMs: number) => void} onState
 * @property {(why: 'expired' | 'inactive') => void} onRefused the server wants no more of this token
 * @property {() => Promise<void>} onUnopened the connection could not be opened; a browser does not
 *   say why, so this asks over HTTP. The next attempt waits for it.
 * @property {number} [firstDelayMs]
 * @property {number} [maxDelayMs]
 */

/** Close codes of the server: the token is expired, the account is suspended or deleted. */
const EXPIRED = 4401;
const INACTIVE = 4403;

/** A connection without a hello by then is given up. */
const HELLO_MS = 15_000;

export class LiveChannel {
  #options;
  /** @type {WebSocket | undefined} */
  #socket;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #attempts = 0;
  /** @type {ChannelState} */
  state = 'stopped';

  /** @param {ChannelOptions} options */
  constructor(options) {
    this.#options = options;
  }

  start() {
    this.stop();
    this.#attempts = 0;
    this.#connect('connecting');
  }

  stop() {
    this.#drop();
    this.#become('stopped');
  }

  /** Starts again at once: the network came back, or something else may have changed. */
  reconnect() {
    if (this.state === 'stopped') return;
    this.#attempts = 0;
    this.#drop();
    this.#connect('reconnecting');
  }

  /** What hello asked for has been done: from here on delays begin small again. */
  settle() {
    this.#attempts = 0;
  }

  /** Connects again after a pause, because a call after hello failed. */
  retry() {
    if (this.state === 'stopped') return;
    this.#drop();
    this.#comeBack();
  }

  // #region connect
  /** @param {ChannelState} state */
  #connect(state) {
    const { origin, token, log } = this.#options;
    this.#become(state);
    const url = `${origin.replace(/^http/, 'ws')}/ws`;
    // A browser cannot set the Authorization header here: the token is sent as a subprotocol, never in the URL, which
    // ends up in logs. The server selects `postroom`.
    const protocols = ['postroom', `bearer.${token()}`];
    const socket = new WebSocket(url, protocols);
    this.#socket = socket;
    log.socket('up', 'GET /ws', `GET /ws\nsec-websocket-protocol: ${protocols.join(', ')}`);
    this.#timer = setTimeout(() => this.#lost(socket, 0), HELLO_MS);
    socket.onmessage = ({ data }) => this.#heard(String(data));
    socket.onclose = ({ code, reason }) => {
      log.socket('note', `closed ${code}`, reason);
      this.#lost(socket, code);
    };
  }
  // #endregion connect

  /** @param {string} text */
  #heard(text) {
    const message = JSON.parse(text);
    this.#options.log.socket('down', message.type, text);
    if (message.type === 'hello') {
      clearTimeout(this.#timer);
      this.#become('live');
      this.#options.onHello(message);
    } else if (message.type === 'mailbox_changed') {
      this.#options.onChange(message);
    } else if (message.type === 'mailboxes_changed') {
      this.#options.onListChange();
    }
  }

  // #region lost
  /**
   * @param {WebSocket} socket
   * @param {number} code
   */
  async #lost(socket, code) {
    if (socket !== this.#socket) return;
    const wasLive = this.state === 'live';
    this.#drop();
    if (code === EXPIRED || code === INACTIVE) {
      this.#become('stopped');
      this.#options.onRefused(code === EXPIRED ? 'expired' : 'inactive');
      return;
    }
    this.#become('reconnecting');
    if (!wasLive) await this.#options.onUnopened();
    // It may have been stopped or started again meanwhile.
    if (this.state === 'reconnecting' && !this.#socket) this.#comeBack();
  }

  #comeBack() {
    const delay = this.#nextDelay();
    this.#become('reconnecting', delay);
    this.#timer = setTimeout(() => this.#connect('reconnecting'), delay);
  }

  /** Twice as long each time, up to a limit; random, so that a thousand clients do not return at once. */
  #nextDelay() {
    const { firstDelayMs = 500, maxDelayMs = 30_000 } = this.#options;
    const most = Math.min(maxDelayMs, firstDelayMs * 2 ** this.#attempts);
    this.#attempts++;
    return most * (0.5 + Math.random() / 2);
  }
  // #endregion lost

  #drop() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = undefined;
    if (!socket) return;
    socket.onmessage = null;
    socket.onclose = null;
    socket.close();
  }

  /**
   * @param {ChannelState} state
   * @param {number} [retryInMs]
   */
  #become(state, retryInMs = 0) {
    this.state = state;
    this.#options.onState(state, retryInMs);
  }
}
