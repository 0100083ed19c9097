/**
 * What is on the screen: the list of a mailbox and the message that is open, as the cache has them.
 * The address bar says which; `refresh` shows them again after a change of the cache.
 */
import { placeUrl, readPlace } from './address-bar.js';
import { byId } from './elements.js';
import { emptyHint } from './empty-hint.js';
import { showTabs, showTitle } from './mailbox-tabs.js';
import { keyOf, MailboxView } from './mailbox-view.js';
import { TOOLS } from './message-tools.js';
import { MessageView } from './message-view.js';
import { readBody, readHeaders, saveAttachment } from './read-message.js';
import { isUnread } from './sync-client.js';

/** @typedef {import('./inbox.js').Inbox} Inbox */
/** @typedef {import('./mailbox-view.js').Entry} Entry */
/** @typedef {import('./sync-client.js').Message} Message */

/**
 * @typedef {object} ScreenOptions
 * @property {import('./session.js').Session} session
 * @property {import('./mail-cache.js').MailCache | import('./memory-cache.js').MemoryCache} cache
 * @property {(tool: string, entry: Entry) => void} onTool somebody wants something done to a message
 */

export class Screen {
  #options;
  #messageView = new MessageView();
  #mailboxView;
  /** Whose mail is shown. @type {Inbox | undefined} */
  #inbox;
  #place = readPlace();
  /** The message that is open. @type {Entry | undefined} */
  #opened;
  /** Lets go of what is being fetched for a message that nobody looks at any more. */
  #reading = new AbortController();
  /** Whether the first look at the server is done: before it an empty list says nothing. */
  #isSettled = false;
  /** Whether the list is to have the focus once it is there. */
  #wantsFocus = false;
  /** Row that gets the focus when the list is shown again. */
  #returnTo = '';

  /** @param {ScreenOptions} options */
  constructor(options) {
    this.#options = options;
    this.#mailboxView = new MailboxView({
      onMore: () => void this.refresh(),
      onStar: (entry) => options.onTool('star', entry),
      isOutgoing: (mailbox) => ['\\Sent', '\\Drafts'].includes(this.#inbox?.useOf(mailbox) ?? ''),
    });
    addEventListener('hashchange', () => void this.goToPlace());
  }

  /**
   * @param {Inbox} inbox
   * @param {boolean} wantsFocus whether somebody has just signed in
   */
  open(inbox, wantsFocus) {
    this.#inbox = inbox;
    this.#isSettled = false;
    this.#wantsFocus = wantsFocus;
    byId('empty').replaceChildren();
    this.#messageView.clear();
  }

  /** Leaves nothing of the mail on the page. */
  close() {
    this.#inbox = undefined;
    this.#opened = undefined;
    this.#reading.abort();
    byId('messages').replaceChildren();
    byId('mailboxes').replaceChildren();
    byId('account').textContent = '';
    this.#messageView.clear();
    showTitle();
  }

  /** Every mailbox is as the server said. */
  settle() {
    this.#isSettled = true;
    void this.refresh();
  }

  /** The message that is open, else the one that has the focus. */
  get chosen() {
    return this.#opened ?? this.#mailboxView.focused;
  }

  get list() {
    return this.#mailboxView;
  }

  /** Shows what the address bar says. */
  async goToPlace() {
    this.#place = readPlace();
    const { mailbox, uid } = this.#place;
    const before = this.#opened;
    this.#opened = undefined;
    this.#reading.abort();
    this.#reading = new AbortController();
    document.body.dataset.pane = uid === undefined ? 'list' : 'message';
    this.#mailboxView.markOpen(uid === undefined ? '' : `${mailbox}/${uid}`);
    await this.refresh();
    if (uid !== undefined) await this.#openMessage(mailbox, uid);
    else {
      this.#messageView.clear();
      if (before) this.#mailboxView.focus(this.#returnTo || keyOf(before));
      this.#returnTo = '';
    }
  }

  /** Goes back to the list. */
  leave() {
    if (this.#place.uid !== undefined) {
      location.hash = placeUrl({ ...this.#place, uid: undefined });
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

  /** @param {Entry} entry @returns {string} key of the row after that message */
  keyAfter(entry) {
    return this.#mailboxView.keyAfter(keyOf(entry));
  }

  /** Shows everything again as the cache has it. */
  async refresh() {
    const inbox = this.#inbox;
    if (!inbox || inbox.account === '') return;
    const { cache } = this.#options;
    const { account } = inbox;
    const { mailbox } = this.#place;
    const { messages, total } = await cache.newest(account, mailbox, this.#mailboxView.wanted);
    const unread = await cache.mailboxes(account);
    if (inbox !== this.#inbox || mailbox !== this.#place.mailbox) return;
    showTabs(inbox.mailboxes.length > 0 ? inbox.mailboxes : ['INBOX'], mailbox, unread);
    showTitle(unread.get('INBOX'));
    byId('account').textContent = account;
    byId('account').title = account;
    this.#mailboxView.show(this.#place, {
      entries: messages.map((message) => ({ mailbox, message })),
      hasMore: total > messages.length,
      count: total === 0 ? '' : `${total.toLocaleString()} ${total === 1 ? 'message' : 'messages'}`,
    });
    const isEmpty = total === 0 && this.#isSettled;
    if (isEmpty) byId('empty').replaceChildren(...emptyHint(account, mailbox));
    byId('empty').hidden = !isEmpty;
    if (this.#wantsFocus && (total > 0 || isEmpty)) {
      this.#wantsFocus = false;
      if (this.#place.uid === undefined) this.#mailboxView.focus();
      else byId('message-pane').focus();
    }
    await this.#refreshMessage(account);
  }

  /** The message that is open may have other flags by now, or be gone. @param {string} account */
  async #refreshMessage(account) {
    const shown = this.#opened;
    if (!shown) return;
    const read = await this.#options.cache.read(account, shown.mailbox, shown.message.uid);
    if (shown !== this.#opened) return;
    if (read) {
      shown.message = read.message;
      this.#messageView.update(read.message);
    } else {
      this.#opened = undefined;
      this.#messageView.removed();
    }
  }

  /**
   * @param {string} mailbox
   * @param {number} uid
   */
  async #openMessage(mailbox, uid) {
    const inbox = this.#inbox;
    if (!inbox) return;
    const { session, cache, onTool } = this.#options;
    const { account } = inbox;
    const position = await cache.position(account, mailbox);
    const read = await cache.read(account, mailbox, uid);
    if (uid !== this.#place.uid || mailbox !== this.#place.mailbox) return;
    if (!read) {
      this.#messageView.removed();
      return;
    }
    const { message } = read;
    const { signal } = this.#reading;
    const opened = { mailbox, message };
    this.#opened = opened;
    // A message never changes under its UID: what was read once is good for ever.
    let body = read.body;
    this.#messageView.show(message, {
      back: placeUrl({ ...this.#place, uid: undefined }),
      tools: TOOLS.map((tool) => ({ ...tool, run: () => onTool(tool.name, opened) })),
      body: async () => {
        body ??= await readBody(session, mailbox, uid, message.bodyStructure, signal);
        if (position) await cache.keepBody(account, mailbox, position.uidvalidity, uid, body);
        return body;
      },
      headers: () => readHeaders(session, mailbox, uid, signal),
      save: (part) => saveAttachment(session, mailbox, uid, part),
    });
    if (matchMedia('(max-width: 44rem)').matches) byId('message-pane').focus();
    if (isUnread(message)) onTool('read', opened);
  }

  /**
   * @param {string} mailbox
   * @param {Message[]} messages that have just come
   */
  markFresh(mailbox, messages) {
    this.#mailboxView.markFresh(mailbox, messages);
    void this.refresh();
  }
}
