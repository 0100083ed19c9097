/**
 * What is on the screen: the list, and the message that is open. The address bar says which;
 * `refresh` shows them again after a change of the cache.
 */
import { placeUrl, readPlace } from './address-bar.js';
import { ListPane } from './list-pane.js';
import { keyOf } from './mailbox-view.js';
import { MessagePane } from './message-pane.js';

/** @typedef {import('./inbox.js').Inbox} Inbox */
/** @typedef {import('./mailbox-view.js').Entry} Entry */
/** @typedef {import('./sync-client.js').Message} Message */

/**
 * @typedef {object} ScreenOptions
 * @property {import('./session.js').Session} session
 * @property {import('./mail-cache.js').MailCache | import('./memory-cache.js').MemoryCache} cache
 * @property {(tool: string, entry: Entry) => void} onTool somebody wants something done to a message
 * @property {() => void} onSendTest
 */

export class Screen {
  #listPane;
  #messagePane;
  /** Whose mail is shown. @type {Inbox | undefined} */
  #inbox;
  #place = readPlace();
  /** The mailbox that a search goes back to. */
  #home = this.#place.mailbox;
  /** Row that gets the focus when the list is shown again. */
  #returnTo = '';

  /** @param {ScreenOptions} options */
  constructor(options) {
    this.#listPane = new ListPane({
      ...options,
      onStar: (entry) => options.onTool('star', entry),
      onSearch: (query) => this.search(query),
    });
    this.#messagePane = new MessagePane(options);
    addEventListener('hashchange', () => void this.goToPlace());
  }

  /**
   * @param {Inbox} inbox
   * @param {boolean} wantsFocus whether somebody has just signed in
   */
  open(inbox, wantsFocus) {
    this.#inbox = inbox;
    this.#listPane.open(inbox, wantsFocus);
    this.#messagePane.clear();
  }

  /** Leaves nothing of the mail on the page. */
  close() {
    this.#inbox = undefined;
    this.#listPane.close();
    this.#messagePane.clear();
  }

  /** Every mailbox is as the server said. */
  settle() {
    this.#listPane.settle();
    void this.refresh();
  }

  /** The message that is open, else the one that has the focus. */
  get chosen() {
    return this.#messagePane.opened ?? this.#listPane.list.focused;
  }

  get list() {
    return this.#listPane.list;
  }

  /** Shows what the address bar says. */
  async goToPlace() {
    this.#place = readPlace();
    const { mailbox, uid, query } = this.#place;
    if (query === undefined) this.#home = mailbox;
    const before = this.#messagePane.opened;
    document.body.dataset.pane = uid === undefined ? 'list' : 'message';
    this.list.markOpen(uid === undefined ? '' : `${mailbox}/${uid}`);
    this.#messagePane.clear();
    await this.#listPane.goTo(this.#place);
    if (uid !== undefined) await this.#openMessage();
    else if (before) {
      this.list.focus(this.#returnTo || keyOf(before));
      this.#returnTo = '';
    }
  }

  /** @param {string} query nothing goes back to the mailbox */
  search(query) {
    location.hash = placeUrl({ mailbox: this.#home, ...(query !== '' && { query }) });
  }

  /** Goes back: from the message to the list, from what was found to the mailbox. */
  leave() {
    if (this.#place.uid !== undefined) {
      location.hash = placeUrl({ ...this.#place, uid: undefined });
    } else if (this.#place.query !== undefined) {
      this.search('');
    }
  }

  /**
   * Goes back to the list if this message is open.
   *
   * @param {Entry} entry
   * @param {string} [next] key of the row that gets the focus; its own where left out
   */
  leaveMessage(entry, next = '') {
    const { mailbox, uid } = this.#place;
    if (uid !== entry.message.uid || mailbox !== entry.mailbox) return;
    this.#returnTo = next;
    this.leave();
  }

  /** Shows everything again as the cache has it. */
  async refresh() {
    await this.#listPane.refresh();
    if (!this.#inbox) return;
    if (this.#messagePane.opened) await this.#messagePane.refresh(this.#inbox.account);
    else if (this.#place.uid !== undefined) await this.#openMessage();
  }

  async #openMessage() {
    if (!this.#inbox) return;
    await this.#messagePane.open(this.#inbox.account, this.#place, this.#listPane.isSettled);
  }

  /**
   * @param {string} mailbox
   * @param {Message[]} messages that have just come
   */
  markFresh(mailbox, messages) {
    this.list.markFresh(mailbox, messages);
    void this.refresh();
  }
}
