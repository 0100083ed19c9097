/**
 * The list of messages: the newest ones of the cache, more on request; or search results. The elements of rows stay
 * the same while the list changes, so that focus and scroll position stay.
 */
import { placeUrl } from './address-bar.js';
import { byId, element, putChildren, shortDate } from './elements.js';
import { titleOf } from './mailbox-tabs.js';
import { formatAddresses, sortParts, straighten } from './message-parts.js';
import { isUnread } from './sync-client.js';

/** @typedef {import('./sync-client.js').Message} Message */
/** @typedef {import('./conversations.js').Thread} Thread */
/**
 * @typedef {object} Entry
 * @property {string} mailbox
 * @property {Message} message
 * @property {Thread} [thread] what its row stands for beside it
 * @property {boolean} [isWithin] stands below the newest message of its conversation
 */

/**
 * @typedef {object} MailboxViewOptions
 * @property {() => void} onMore
 * @property {(entry: Entry) => void} onStar
 * @property {(thread: string) => void} onThread somebody opens or closes a conversation
 * @property {(mailbox: string) => boolean} isOutgoing whether its mail is to others: they are named then
 */

const STEP = 100;

export class MailboxView {
  #options;
  #list = byId('messages', HTMLOListElement);
  #more = byId('more', HTMLButtonElement);
  /** @type {Map<string, { row: HTMLLIElement, entry: Entry }>} */
  #rows = new Map();
  #source = '';
  #shown = STEP;
  /** Keys of messages that came while the page was open and were not looked at. @type {Set<string>} */
  #fresh = new Set();
  #open = '';

  /** @param {MailboxViewOptions} options */
  constructor(options) {
    this.#options = options;
    this.#more.addEventListener('click', () => {
      this.#shown += STEP;
      options.onMore();
    });
  }

  /** The number of messages to show. */
  get wanted() {
    return this.#shown;
  }

  /**
   * @param {import('./address-bar.js').Place} place
   * @param {{ entries: Entry[], hasMore: boolean, count: string }} content
   */
  show({ mailbox, query }, { entries, hasMore, count }) {
    const source = placeUrl({ mailbox, ...(query && { query }) });
    if (source !== this.#source) {
      this.#source = source;
      this.#shown = STEP;
      this.#rows.clear();
    }
    const focused = document.activeElement;
    const focusedAt = [...this.#rows.values()].findIndex(({ row }) => row.contains(focused));
    const before = this.#rows;
    this.#rows = new Map();
    for (const entry of entries) {
      const key = keyOf(entry);
      const row = before.get(key)?.row ?? this.#makeRow(entry, query);
      this.#update(row, entry);
      this.#rows.set(key, { row, entry });
    }
    const rows = [...this.#rows.values()].map(({ row }) => row);
    putChildren(this.#list, rows);
    if (focusedAt >= 0 && focused instanceof HTMLElement && document.activeElement !== focused) {
      if (this.#list.contains(focused)) focused.focus();
      else this.#focusAt(focusedAt);
    }
    this.#more.hidden = !hasMore;
    byId('count').textContent = count;
    this.markOpen(this.#open);
  }

  /**
   * Marks messages that have just come.
   *
   * @param {string} mailbox
   * @param {Message[]} messages
   */
  markFresh(mailbox, messages) {
    for (const message of messages) this.#fresh.add(keyOf({ mailbox, message }));
  }

  /** @param {string} key `mailbox/uid` of the message that is open; empty for none */
  markOpen(key) {
    this.#open = key;
    this.#fresh.delete(key);
    for (const [rowKey, { row }] of this.#rows) {
      const link = row.querySelector('.row');
      if (rowKey === key) {
        row.classList.remove('fresh');
        link?.setAttribute('aria-current', 'true');
      } else link?.removeAttribute('aria-current');
    }
  }

  /** Opens or closes the conversation whose row has the focus, or is the one of the message that is open. */
  toggleThread() {
    const { focused } = this;
    this.#toggleThread(focused ? keyOf(focused) : this.#open);
  }

  /** @param {string} key of the row of a conversation, or of a message within it */
  #toggleThread(key) {
    const keys = [...this.#rows.keys()];
    let at = keys.indexOf(key);
    const entryAt = () => this.#rows.get(keys[at] ?? '')?.entry;
    while (entryAt()?.isWithin) at--;
    const head = entryAt();
    if (!head?.thread) return;
    // A row that will be removed cannot keep the focus.
    if (head !== this.#rows.get(key)?.entry) this.focus(keys[at]);
    this.#options.onThread(head.thread.id);
  }

  /** The message that has the focus. @returns {Entry | undefined} */
  get focused() {
    const here = document.activeElement;
    return [...this.#rows.values()].find(({ row }) => row.contains(here))?.entry;
  }

  /**
   * Puts the focus on a row, else on the first, else on the list.
   *
   * @param {string} [key] `mailbox/uid`
   */
  focus(key = '') {
    const row = this.#rows.get(key)?.row ?? this.#rows.values().next().value?.row;
    const link = row?.querySelector('.row');
    if (link instanceof HTMLElement) link.focus();
    else byId('list-pane').focus();
  }

  /** @param {string} key @returns {string} key of the row after it, else of the one before; empty for none */
  keyAfter(key) {
    const keys = [...this.#rows.keys()];
    const at = keys.indexOf(key);
    return keys[at + 1] ?? keys[at - 1] ?? '';
  }

  /** @param {number | 'first' | 'last'} step how many rows on */
  moveFocus(step) {
    const rows = [...this.#rows.values()];
    const here = document.activeElement;
    const at = rows.findIndex(({ row }) => row.contains(here));
    if (step === 'first') this.#focusAt(0);
    else if (step === 'last') this.#focusAt(rows.length - 1);
    else this.#focusAt(at < 0 ? 0 : Math.max(0, at + step));
  }

  /** @param {number} at the last where there are not so many */
  #focusAt(at) {
    const keys = [...this.#rows.keys()];
    this.focus(keys[Math.min(at, keys.length - 1)]);
  }

  /**
   * @param {HTMLLIElement} row
   * @param {Entry} entry
   */
  #update(row, { mailbox, message, thread, isWithin = false }) {
    const isStarred = message.flags.includes('\\Flagged');
    const others = thread && !thread.isOpen && thread.hasUnread;
    row.classList.toggle('unseen-mail', isUnread(message) || others === true);
    row.classList.toggle('within', isWithin);
    const toggle = row.querySelector('.thread');
    if (toggle instanceof HTMLElement) {
      toggle.hidden = !thread;
      toggle.textContent = String(thread?.count ?? '');
      toggle.setAttribute('aria-expanded', String(thread?.isOpen ?? false));
      toggle.setAttribute('aria-label', `${thread?.count} messages of this conversation`);
    }
    row.classList.toggle('flagged', isStarred);
    row.classList.toggle('fresh', this.#fresh.has(keyOf({ mailbox, message })));
    row.querySelector('.star')?.setAttribute('aria-pressed', String(isStarred));
    const state = row.querySelector('.state');
    if (state) state.textContent = isUnread(message) ? 'Unread. ' : '';
  }

  /**
   * @param {Entry} entry
   * @param {string | undefined} query
   */
  #makeRow({ mailbox, message }, query) {
    const { uid, envelope, internalDate, bodyStructure, preview = '' } = message;
    const isOutgoing = this.#options.isOutgoing(mailbox);
    const names = formatAddresses(isOutgoing ? envelope.to : envelope.from).join(', ');
    const from = isOutgoing ? `To: ${names || 'nobody yet'}` : names || 'Unknown sender';
    const hasAttachments = bodyStructure && sortParts(bodyStructure).attachments.length > 0;
    // A draft is opened to continue writing.
    const isWriting = message.flags.includes('\\Draft');
    const href = placeUrl({ mailbox, uid, isWriting, ...(query && { query }) });
    const link = element(
      'a',
      { href, class: 'row' },
      element('span', { class: 'from' }, element('span', { class: 'state unseen' }), from),
      element('time', { class: 'when', datetime: internalDate }, shortDate(internalDate)),
      element('span', { class: 'subject' }, straighten(envelope.subject) || '(no subject)'),
      element(
        'span',
        { class: 'marks' },
        ...(query === undefined ? [] : [element('span', { class: 'fact' }, titleOf(mailbox))]),
        ...(hasAttachments
          ? [
              element('span', {
                class: 'icon icon-clip',
                role: 'img',
                'aria-label': 'has attachments',
              }),
            ]
          : []),
      ),
      element('span', { class: 'preview' }, straighten(preview)),
    );
    // With the keyboard, `s` sets a star: a stop at each row would make the list twice as long.
    const star = element('button', {
      type: 'button',
      class: 'star',
      tabindex: '-1',
      'aria-label': 'Star',
      'aria-pressed': 'false',
      click: () => {
        const shown = this.#rows.get(keyOf({ mailbox, message }));
        if (shown) this.#options.onStar(shown.entry);
      },
    });
    const thread = element('button', {
      type: 'button',
      class: 'thread',
      tabindex: '-1',
      click: () => this.#toggleThread(keyOf({ mailbox, message })),
    });
    return element('li', {}, link, thread, star);
  }
}

/** @param {Entry} entry */
export function keyOf({ mailbox, message }) {
  return `${mailbox}/${message.uid}`;
}
