/**
 * Outgoing mail: the status of each message that was sent from here. A sent message leaves the list by itself; a
 * failed one stays, with the reason, until the user has read it.
 */
import { Refused } from './api-call.js';
import { byId, element, putChildren, shortDate } from './elements.js';

/**
 * @typedef {object} SendStatus an answer of GET /mail/sends/:id
 * @property {'queued' | 'deferred' | 'delivered' | 'bounced' | 'cancelled'} status
 * @property {string} [sendAt]
 * @property {{ address: string, status: string, detail?: string }[]} recipients
 */

/** @typedef {{ id: string, subject: string, told?: SendStatus }} Sent */

/**
 * @typedef {object} OutboxOptions
 * @property {import('./session.js').Session} session
 * @property {Storage} storage keeps the ids over a reload
 * @property {(text: string) => void} say for readers of the screen
 * @property {import('./notice-bar.js').NoticeBar} notice
 */

const STORED_AS = 'postroom-inbox-outbox';
const FINAL = ['delivered', 'bounced', 'cancelled'];
/** Pauses between two requests; the last one is repeated. */
const PAUSES_S = [1, 2, 4, 8, 15, 30, 60];
/** How long a sent message stays in the list. */
const SHOWN_MS = 5_000;
/** The longest timer of a browser. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export class Outbox {
  #options;
  /** @type {Map<string, Sent>} */
  #sent = new Map();

  /** @param {OutboxOptions} options */
  constructor(options) {
    this.#options = options;
  }

  /** Messages that this tab sent before it was loaded again. */
  restore() {
    /** @type {[string, string][]} */
    const kept = JSON.parse(this.#options.storage.getItem(STORED_AS) ?? '[]');
    for (const [id, subject] of kept) this.add(id, subject);
  }

  /**
   * @param {string} id of the send
   * @param {string} subject
   */
  add(id, subject) {
    const sent = { id, subject };
    this.#sent.set(id, sent);
    this.#show();
    void this.#watch(sent);
  }

  /** @param {string} id of a send that is not told of any more */
  drop(id) {
    if (this.#sent.delete(id)) this.#show();
  }

  clear() {
    this.#sent.clear();
    this.#show();
  }

  // #region watch
  /**
   * Asks until the status is final. For a scheduled message it asks at that time.
   *
   * @param {Sent} sent
   */
  async #watch(sent) {
    const { session, say } = this.#options;
    for (let asked = 0; this.#sent.get(sent.id) === sent; asked++) {
      try {
        sent.told = await session.json(`/mail/sends/${sent.id}`);
      } catch (error) {
        // The message does not exist any more, or another account is signed in.
        if (error instanceof Refused && !error.isBusy) return this.drop(sent.id);
      }
      if (this.#sent.get(sent.id) !== sent) return;
      this.#show();
      const { status = 'queued', sendAt } = sent.told ?? {};
      if (FINAL.includes(status)) {
        say(`${sent.subject}: ${describe(sent.told)}`);
        if (status !== 'bounced') setTimeout(() => this.drop(sent.id), SHOWN_MS);
        return;
      }
      const until = sendAt === undefined ? 0 : Date.parse(sendAt) - Date.now();
      const pause = PAUSES_S[Math.min(asked, PAUSES_S.length - 1)] ?? 0;
      await wait(until > 0 ? until + 500 : pause * 1000);
    }
  }
  // #endregion watch

  /** @param {Sent} sent */
  async #cancel({ id }) {
    const { session, notice } = this.#options;
    try {
      await session.json('/mail/sends/cancel', { method: 'POST', body: { id } });
      this.drop(id);
      notice.show('Cancelled. It is a draft again.');
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      notice.show(`It was not cancelled. ${why}`, { isError: true });
    }
    byId('list-pane').focus();
  }

  #show() {
    const { storage } = this.#options;
    const sent = [...this.#sent.values()];
    if (sent.length === 0) storage.removeItem(STORED_AS);
    else storage.setItem(STORED_AS, JSON.stringify(sent.map(({ id, subject }) => [id, subject])));
    const list = byId('outbox');
    const before = new Map([...list.children].map((row) => [row.getAttribute('data-id'), row]));
    const rows = sent.map((one) => this.#row(one, before.get(one.id)));
    putChildren(list, rows);
    list.hidden = sent.length === 0;
  }

  /**
   * @param {Sent} sent
   * @param {Element | undefined} shown how it is shown already
   */
  #row(sent, shown) {
    const { id, subject, told } = sent;
    const text = describe(told);
    if (shown?.querySelector('.state')?.textContent === text) return shown;
    const isFinal = FINAL.includes(told?.status ?? '');
    const waits = told?.status === 'deferred' || (told?.status === 'queued' && told.sendAt);
    /** @type {(label: string, run: () => void) => Node} */
    const button = (label, run) =>
      element(
        'button',
        { type: 'button', class: 'plain', 'aria-label': `${label}: ${subject}`, click: run },
        label,
      );
    return element(
      'li',
      { 'data-id': id, class: told?.status === 'bounced' ? 'failed' : false },
      element('span', { class: 'subject' }, subject || '(no subject)'),
      element('span', { class: 'state' }, text),
      ...(waits ? [button('Cancel', () => void this.#cancel(sent))] : []),
      ...(isFinal ? [button('Hide', () => this.drop(id))] : []),
    );
  }
}

/** @param {SendStatus | undefined} told */
function describe(told) {
  if (!told) return 'Sending…';
  const { status, sendAt, recipients } = told;
  /** @type {(wanted: string) => string} */
  const reasons = (wanted) =>
    recipients
      .filter((one) => one.status === wanted)
      .map(({ address, detail = '' }) => `${address}: ${detail}`)
      .join('; ');
  if (status === 'delivered') return 'Sent';
  if (status === 'cancelled') return 'Cancelled';
  if (status === 'bounced') return `Failed. ${reasons('bounced')}`;
  if (status === 'deferred') return `Not delivered yet, it is tried again. ${reasons('deferred')}`;
  return sendAt !== undefined && Date.parse(sendAt) > Date.now()
    ? `Goes out: ${shortDate(sendAt)}`
    : 'Sending…';
}

/** @param {number} milliseconds @returns {Promise<void>} */
function wait(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, Math.min(milliseconds, TIMER_MAX_MS)));
}
