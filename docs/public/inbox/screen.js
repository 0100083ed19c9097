/**
 * What is on the screen: the list, and the message that is open or being written. The address bar says which;
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
/** @typedef {import('./draft.js').MessagePlace} MessagePlace */

/**
 * @typedef {object} ScreenOptions
 * @property {import('./session.js').Session} session
 * @property {import('./mail-cache.js').MailCache | import('./memory-cache.js').MemoryCache} cache
 * @property {(tool: string, entry: Entry) => void} onTool somebody wants something done to a message
 * @property {() => void} onSendTest
 * @property {(detail: string) => void} onTrouble what somebody wanted to see cannot be shown
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

  /** Removes everything of the mail from the page. */
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
    const place = readPlace();
    this.#place = place;
    const { mailbox, uid, query, isWriting } = place;
    const composer = this.#options.composer();
    if (!isWriting && composer.isOpen && !(await composer.close())) {
      // The text could not be saved: it stays on the screen.
      location.hash = placeUrl({ ...this.#place, isWriting: true });
      return;
    }
    // The user has gone to another place meanwhile; the same below.
    if (place !== this.#place) return;
    if (query === undefined) this.#home = mailbox;
    const before = this.#messagePane.opened;
    document.body.dataset.pane = isWriting ? 'compose' : uid === undefined ? 'list' : 'message';
    this.list.markOpen(uid === undefined ? '' : `${mailbox}/${uid}`);
    if (!isWriting) this.#messagePane.clear();
    const focused = document.activeElement;
    await this.#listPane.goTo(place);
    if (place !== this.#place) return;
    if (isWriting) await this.#goOnWriting();
    else if (uid !== undefined) await this.#openMessage();
    else if (before || wasWriting) {
      // If the user has moved the focus while the list was read, it stays there.
      if (document.activeElement === focused || !focused?.isConnected) {
        this.list.focus(this.#returnTo || (before ? keyOf(before) : ''));
      }
      this.#returnTo = '';
    }
  }

  /** After a reload, or from the row of a draft: opens the form with the saved draft. */
  async #goOnWriting() {
    const place = this.#place;
    const { uid } = place;
    const composer = this.#options.composer();
    const { isOpen, kept } = composer;
    const isShown = isOpen && (uid === undefined || (kept && isSame(kept, place)));
    /** The user has gone elsewhere meanwhile, or begins to write something else. */
    const isOver = () =>
      !this.#inbox || place !== this.#place || !readPlace().isWriting || composer.isOpen !== isOpen;
    if (isShown || isOver()) return;
    try {
      const draft = uid === undefined ? undefined : await this.#readDraft({ ...place, uid });
      if (isOver()) return;
      if (draft) {
        await composer.open('Draft', draft);
        // The previous content of the form may have been saved meanwhile.
        if (draft.kept) this.markKept(draft.kept);
      } else if (!isOpen) await composer.open('New message', newDraft());
    } catch (error) {
      if (isOver()) return;
      this.#options.onTrouble(error instanceof Error ? error.message : String(error));
      // The list shows where the draft is now; its old place must not be opened.
      if (!isOpen) location.replace(placeUrl({ ...place, uid: undefined, isWriting: false }));
      else if (kept) this.markKept(kept);
    }
  }

  /**
   * @param {MessagePlace} place
   * @returns {Promise<import('./draft.js').Draft | undefined>} undefined for a message that is no draft
   * @throws {Error} where it is not there, or cannot be read
   */
  async #readDraft({ mailbox, uid }) {
    const { cache } = this.#options;
    if (!this.#inbox) return undefined;
    const { account } = this.#inbox;
    let read = await cache.read(account, mailbox, uid);
    if (!read) {
      // It may have been saved just now, or again, as another message.
      const isDone = await this.#inbox.catchUp(mailbox);
      read = await cache.read(account, mailbox, uid);
      const gone = 'This draft was changed, sent or deleted: the list shows what is there.';
      if (!read) throw new Error(isDone ? gone : 'This draft cannot be read now.');
    }
    const { message } = read;
    if (!message.flags.includes('\\Draft')) return undefined;
    const entry = { mailbox, message };
    const draft = reopen(entry, await this.read(entry));
    const inReplyTo = draft.answeredId && (await cache.find(account, draft.answeredId));
    return { ...draft, ...(inReplyTo && { inReplyTo }) };
  }

  /** The form is open. The address bar is newer than the screen: so it decides; the same below. */
  showWriting() {
    document.body.dataset.pane = 'compose';
    if (!readPlace().isWriting) location.hash = placeUrl({ ...this.#place, isWriting: true });
  }

  /**
   * The form was saved: a reload continues with it.
   *
   * @param {MessagePlace} kept
   */
  markKept(kept) {
    const { isWriting, query } = readPlace();
    if (!isWriting) return;
    history.replaceState(null, '', placeUrl({ ...kept, isWriting, ...(query && { query }) }));
    this.list.markOpen(`${kept.mailbox}/${kept.uid}`);
  }

  /** The form is closed: what was shown before is shown again. */
  endWriting() {
    if (!readPlace().isWriting) return;
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

  /** Goes back: from the message to the list, from search results to the mailbox. */
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

/**
 * @param {MessagePlace} one
 * @param {import('./address-bar.js').Place} other
 */
function isSame(one, other) {
  return one.uid === other.uid && one.mailbox === other.mailbox;
}
