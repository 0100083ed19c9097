/** The message that is open: fetched once, shown again when its flags change. */
import { placeUrl } from './address-bar.js';
import { byId } from './elements.js';
import { TOOLS } from './message-tools.js';
import { MessageView } from './message-view.js';
import { readBody, readHeaders, saveAttachment } from './read-message.js';
import { isUnread } from './sync-client.js';

/** @typedef {import('./mailbox-view.js').Entry} Entry */

export class MessagePane {
  #options;
  #view = new MessageView();
  /** The message that is open. @type {Entry | undefined} */
  opened;
  /** Aborts the fetch for a message that is no longer shown. */
  #reading = new AbortController();

  /** @param {Pick<import('./screen.js').ScreenOptions, 'session' | 'cache' | 'onTool'>} options */
  constructor(options) {
    this.#options = options;
  }

  clear() {
    this.opened = undefined;
    this.#reading.abort();
    this.#reading = new AbortController();
    this.#view.clear();
  }

  /**
   * The open message may have other flags now, or may have been removed.
   *
   * @param {string} account
   */
  async refresh(account) {
    const shown = this.opened;
    if (!shown) return;
    const read = await this.#options.cache.read(account, shown.mailbox, shown.message.uid);
    if (shown !== this.opened) return;
    if (read) {
      shown.message = read.message;
      this.#view.update(read.message);
    } else {
      this.opened = undefined;
      this.#view.showMissing('This message is not there any more.');
    }
  }

  /**
   * The content of a message: from the cache, or fetched and cached. It never changes under its UID.
   *
   * @param {string} account
   * @param {Entry} entry
   * @param {AbortSignal} [signal]
   */
  async read(account, { mailbox, message }, signal = this.#reading.signal) {
    const { session, cache } = this.#options;
    const { uid, bodyStructure } = message;
    const position = await cache.position(account, mailbox);
    const kept = await cache.read(account, mailbox, uid);
    if (kept?.body) return kept.body;
    const body = await readBody(session, mailbox, uid, bodyStructure, signal);
    if (position) await cache.keepBody(account, mailbox, position.uidvalidity, uid, body);
    return body;
  }

  /**
   * @param {string} account
   * @param {import('./address-bar.js').Place} place
   * @param {boolean} isSynced whether what the cache does not have is gone
   */
  async open(account, place, isSynced) {
    const { mailbox, uid = 0 } = place;
    const { session, cache, onTool } = this.#options;
    const { signal } = this.#reading;
    const read = await cache.read(account, mailbox, uid);
    if (signal.aborted || this.opened) return;
    if (!read) {
      this.#view.showMissing(
        isSynced ? 'This message is not there any more.' : 'This message is not here yet.',
      );
      return;
    }
    const { message } = read;
    const opened = { mailbox, message };
    this.opened = opened;
    this.#view.show(message, {
      back: placeUrl({ ...place, uid: undefined }),
      tools: TOOLS.map((tool) => ({ ...tool, run: () => onTool(tool.name, opened) })),
      body: () => this.read(account, opened, signal),
      headers: () => readHeaders(session, mailbox, uid, signal),
      save: (part) => saveAttachment(session, mailbox, uid, part),
    });
    if (matchMedia('(max-width: 44rem)').matches) byId('message-pane').focus();
    if (isUnread(message)) onTool('read', opened);
  }
}
