/**
 * What is on the screen: the list, and the message that is open or is written. The address bar says which;
 * `refresh` shows them again after a change of the cache.
 */
import { placeUrl, readPlace } from './address-bar.js';
import { newDraft, reopen } from './draft.js';
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
 * @property {() => import('./composer.js').Composer} composer
 */

export class Screen {
  #options;
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
    this.#options = options;
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

  /** The message that has the focus in the list, else the one that is open. */
  get chosen() {
    return this.list.focused ?? this.#messagePane.opened;
  }

  get list() {
    return this.#listPane.list;
  }

  /** Shows what the address bar says. */
  async goToPlace() {
    const wasWriting = this.#place.isWriting;
    this.#place = readPlace();
    const { mailbox, uid, query, isWriting } = this.#place;
    const composer = this.#options.composer();
    if (!isWriting && composer.isOpen && !(await composer.close())) {
      // What was written could not be saved: it stays on the screen.
      location.hash = placeUrl({ ...this.#place, isWriting: true });
      return;
    }
    if (query === undefined) this.#home = mailbox;
    const before = this.#messagePane.opened;
    document.body.dataset.pane = isWriting ? 'compose' : uid === undefined ? 'list' : 'message';
    this.list.markOpen(uid === undefined ? '' : `${mailbox}/${uid}`);
    if (!isWriting) this.#messagePane.clear();
    const focused = document.activeElement;
    await this.#listPane.goTo(this.#place);
    if (isWriting) await this.#goOnWriting();
    else if (uid !== undefined) await this.#openMessage();
    else if (before || wasWriting) {
      // Whoever has moved the focus while the list was read keeps it.
      if (document.activeElement === focused || !focused?.isConnected) {
        this.list.focus(this.#returnTo || (before ? keyOf(before) : ''));
      }
      this.#returnTo = '';
    }
  }

  /** After a reload, or by the row of a draft: the form is opened with what was kept. */
  async #goOnWriting() {
    const { cache } = this.#options;
    const composer = this.#options.composer();
    const { mailbox, uid } = this.#place;
    if (composer.isOpen || !this.#inbox) return;
    const { account } = this.#inbox;
    const read = uid === undefined ? undefined : await cache.read(account, mailbox, uid);
    if (!read?.message.flags.includes('\\Draft')) {
      await composer.open('New message', newDraft());
      return;
    }
    const entry = { mailbox, message: read.message };
    const draft = reopen(entry, await this.read(entry));
    const inReplyTo = draft.answeredId && (await cache.find(account, draft.answeredId));
    await composer.open('Draft', { ...draft, ...(inReplyTo && { inReplyTo }) });
  }

  /** The form is open. */
  showWriting() {
    document.body.dataset.pane = 'compose';
    if (!this.#place.isWriting) location.hash = placeUrl({ ...this.#place, isWriting: true });
  }

  /**
   * What is written was saved: a reload goes on with it.
   *
   * @param {import('./draft.js').MessagePlace} kept
   */
  markKept(kept) {
    const { isWriting, query } = this.#place;
    if (!isWriting) return;
    history.replaceState(null, '', placeUrl({ ...kept, isWriting, ...(query && { query }) }));
    this.list.markOpen(`${kept.mailbox}/${kept.uid}`);
  }

  /** The form is closed: what was there before is shown again. */
  endWriting() {
    if (!this.#place.isWriting) return;
    const isDrafts = this.#inbox?.useOf(this.#place.mailbox) === '\\Drafts';
    location.hash = placeUrl({
      ...this.#place,
      isWriting: false,
      ...(isDrafts && { uid: undefined }),
    });
  }

  /**
   * @param {Entry} entry
   * @returns {Promise<import('./message-parts.js').Body>} its text
   */
  read(entry) {
    return this.#messagePane.read(this.#inbox?.account ?? '', entry);
  }

  /** @param {string} query nothing goes back to the mailbox */
  search(query) {
    location.hash = placeUrl({ mailbox: this.#home, ...(query !== '' && { query }) });
  }

  /** Goes back: from the message to the list, from what was found to the mailbox. */
  leave() {
    if (this.#place.isWriting) void this.#options.composer().close();
    else if (this.#place.uid !== undefined) {
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
    if (this.#place.isWriting) return;
    this.#returnTo = next;
    this.leave();
  }

  /** Shows everything again as the cache has it. */
  async refresh() {
    await this.#listPane.refresh();
    if (!this.#inbox) return;
    if (this.#messagePane.opened) await this.#messagePane.refresh(this.#inbox.account);
    else if (this.#place.uid !== undefined && !this.#place.isWriting) await this.#openMessage();
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
