/**
 * The list of messages: the newest ones of the cache, more on request. Rows stay the same elements
 * while the list changes, so that focus and scroll position do.
 */
import { byId, element, shortDate } from './elements.js';
import { formatAddresses, sortParts, straighten } from './message-parts.js';

/** @typedef {import('./sync-client.js').Message} Message */

const STEP = 100;

export class MailboxView {
  #list = byId('messages', HTMLOListElement);
  #more = byId('more', HTMLButtonElement);
  /** @type {Map<string, HTMLLIElement>} */
  #rows = new Map();
  #mailbox = '';
  #shown = STEP;
  /** Keys of messages that came while the page was open and were not looked at. @type {Set<string>} */
  #fresh = new Set();
  #open = '';

  /** @param {() => void} onMore */
  constructor(onMore) {
    this.#more.addEventListener('click', () => {
      this.#shown += STEP;
      onMore();
    });
    this.#list.addEventListener('keydown', (event) => this.#moveFocus(event));
  }

  /** How many messages are wanted. */
  get wanted() {
    return this.#shown;
  }

  /**
   * @param {string} mailbox
   * @param {{ messages: Message[], total: number, opened: Set<number> }} content
   * @param {boolean} isSettled whether that is all there is, not just what is here so far
   */
  show(mailbox, { messages, total, opened }, isSettled) {
    if (mailbox !== this.#mailbox) {
      this.#mailbox = mailbox;
      this.#shown = STEP;
      this.#rows.clear();
    }
    const focused = document.activeElement;
    const before = this.#rows;
    this.#rows = new Map();
    for (const message of messages) {
      const key = `${mailbox}/${message.uid}`;
      const isSeen = message.flags.includes('\\Seen') || opened.has(message.uid);
      const row = before.get(key) ?? this.#makeRow(mailbox, message);
      row.classList.toggle('unseen-mail', !isSeen);
      row.classList.toggle('flagged', message.flags.includes('\\Flagged'));
      row.classList.toggle('fresh', this.#fresh.has(key));
      this.#rows.set(key, row);
    }
    const rows = [...this.#rows.values()];
    // Taking the list apart for nothing would lose the focus and any selection.
    if (
      rows.some((row, at) => row !== this.#list.children[at]) ||
      rows.length !== this.#list.childElementCount
    ) {
      this.#list.replaceChildren(...rows);
      if (focused instanceof HTMLElement && this.#list.contains(focused)) focused.focus();
    }
    this.#more.hidden = total <= messages.length;
    byId('empty').hidden = total > 0 || !isSettled;
    byId('count').textContent =
      total === 0 ? '' : `${total.toLocaleString()} ${total === 1 ? 'message' : 'messages'}`;
    this.markOpen(this.#open);
  }

  /**
   * Marks messages that have just come.
   *
   * @param {string} mailbox
   * @param {Message[]} messages
   */
  markFresh(mailbox, messages) {
    for (const { uid } of messages) this.#fresh.add(`${mailbox}/${uid}`);
  }

  /** @param {string} key `mailbox/uid` of the message that is open; empty for none */
  markOpen(key) {
    this.#open = key;
    this.#fresh.delete(key);
    for (const [rowKey, row] of this.#rows) {
      const link = row.firstElementChild;
      if (rowKey === key) {
        row.classList.remove('fresh', 'unseen-mail');
        link?.setAttribute('aria-current', 'true');
      } else link?.removeAttribute('aria-current');
    }
  }

  /** Puts the focus on the row of the message that was open, else on the first. */
  focus() {
    const row = this.#rows.get(this.#open) ?? this.#rows.values().next().value;
    if (row?.firstElementChild instanceof HTMLElement) row.firstElementChild.focus();
  }

  /**
   * @param {string} mailbox
   * @param {Message} message
   */
  #makeRow(mailbox, { uid, envelope, internalDate, bodyStructure }) {
    const from = formatAddresses(envelope.from).join(', ') || 'Unknown sender';
    const hasAttachments = sortParts(bodyStructure).attachments.length > 0;
    const link = element(
      'a',
      { href: `#/${encodeURIComponent(mailbox)}/${uid}`, class: 'row' },
      element('span', { class: 'from' }, from),
      element('time', { class: 'when', datetime: internalDate }, shortDate(internalDate)),
      element('span', { class: 'subject' }, straighten(envelope.subject) || '(no subject)'),
      element('span', { class: 'marks' }, ...(hasAttachments ? [clip()] : [])),
    );
    return element('li', {}, link);
  }

  /** @param {KeyboardEvent} event */
  #moveFocus(event) {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    const links = [...this.#list.querySelectorAll('a')];
    const at = links.indexOf(/** @type {HTMLAnchorElement} */ (document.activeElement));
    if (event.ctrlKey || event.metaKey || event.altKey || at < 0) return;
    const edge = { Home: 0, End: links.length - 1 }[event.key];
    if (step === undefined && edge === undefined) return;
    event.preventDefault();
    links[edge ?? Math.max(0, Math.min(links.length - 1, at + (step ?? 0)))]?.focus();
  }
}

function clip() {
  return element('span', { class: 'clip', role: 'img', 'aria-label': 'has attachments' });
}
