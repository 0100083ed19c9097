/**
 * What is to be read anew, mailboxes and the list of them: what events, answers and the user say of that. Nothing is asked
 * here; the leader asks for what is due as soon as it may.
 */
import type { HelloEvent, MailboxChangedEvent } from '../api-types.ts';
import type { Copy } from './copy.ts';
import type { MailboxRow, Reading } from './rows.ts';

/** The state of a mailbox as the server tells it. */
type Tip = Pick<MailboxChangedEvent, 'mailbox' | 'uidvalidity' | 'token'>;

/** What everybody has open sooner or later. */
const ALWAYS = new Set(['\\Sent', '\\Drafts']);
/** Between two looks at the numbers of mailboxes that are not in the copy. */
const LIST_MS = 30_000;

export interface DueOptions {
  readonly copy: Copy;
  /** Whether somebody looks at a mailbox. */
  readonly isOpen: (name: string) => boolean;
  /** All mailboxes are kept. */
  readonly syncAll: boolean;
}

export class Due {
  readonly #options: DueOptions;
  /** With the state that a hint named: a copy that has it by then need not ask. */
  readonly #due = new Map<Reading, Tip | undefined>([['list', undefined]]);
  /** What a request is reading, also a change that brings a sync with it. */
  readonly busy: Set<Reading> = new Set();
  /** By the platform's ticks: before it the list is not asked for again. */
  #listAt = 0;

  constructor(options: DueOptions) {
    this.#options = options;
    const { copy } = options;
    for (const { box, token } of copy.mailboxes) if (token !== undefined) this.add(box);
    for (const { state, awaits = [] } of copy.operations)
      if (state === 'acked') this.add(...awaits);
  }

  add(...some: readonly Reading[]): void {
    for (const one of some) this.#due.set(one, undefined);
    // Whoever wants another list while it is read, wants it at once.
    if (some.includes('list')) this.#listAt = 0;
  }

  /** Whether the list that is read now is from before something that was told since: another one is asked for at once. */
  get isListOld(): boolean {
    return this.#listAt === 0;
  }

  /** Whether the copy has the mailbox, or is going to have it. */
  isWanted({ name, specialUse, token, gone }: MailboxRow): boolean {
    if (gone) return false;
    const { isOpen, syncAll } = this.#options;
    const isAlways = name === 'INBOX' || ALWAYS.has(specialUse ?? '');
    return isAlways || token !== undefined || syncAll || isOpen(name);
  }

  /** Whether something of the mailbox is not in the copy yet: whether there is one, the list says. */
  isBusy(name: string): boolean {
    const { box = 'list', token } = this.#options.copy.mailbox(name) ?? {};
    return this.#isWorking(box) || (token === undefined && this.#isWorking('list'));
  }

  get isAnyBusy(): boolean {
    return this.#options.copy.mailboxes.some(({ box }) => this.#isWorking(box));
  }

  #isWorking(one: Reading): boolean {
    return this.#due.has(one) || this.busy.has(one);
  }

  /** What may be read now: the list, then what somebody looks at. @param now by the platform's ticks */
  next(now: number): Reading[] {
    const { isOpen } = this.#options;
    const rank = ({ name }: MailboxRow) => (isOpen(name) ? 0 : name === 'INBOX' ? 1 : 2);
    const rows = this.#options.copy.mailboxes.filter(({ gone }) => !gone);
    for (const row of rows) {
      const tip = this.#due.get(row.box);
      if (tip && !isBehind(row, tip)) this.#due.delete(row.box);
    }
    const boxes = rows.sort((a, b) => rank(a) - rank(b)).map(({ box }) => box);
    const all: Reading[] = now < this.#listAt ? boxes : ['list', ...boxes];
    return all.filter((one) => this.#due.has(one) && !this.busy.has(one));
  }

  begin(one: Reading, now: number): void {
    this.#due.delete(one);
    this.busy.add(one);
    if (one === 'list') this.#listAt = now + LIST_MS;
  }

  /** What failed is read again by the timer, not by the next event. */
  end(one: Reading, hasFailed: boolean): void {
    this.busy.delete(one);
    if (hasFailed) this.#due.set(one, undefined);
  }

  /** The user wants it now, or it may have changed without a word of the server. */
  read(name: string): void {
    this.add(this.#options.copy.mailbox(name)?.box ?? 'list');
  }

  /** What was missed since the last time. */
  greet(tips: HelloEvent['mailboxes']): void {
    for (const tip of tips) this.note(tip);
    const ids = new Map(tips.map(({ mailbox, mailboxId }) => [mailbox, mailboxId]));
    const isOther = ({ name, mailboxId, gone }: MailboxRow) =>
      !gone && (!ids.has(name) || ids.get(name) !== mailboxId);
    if (this.#options.copy.mailboxes.some(isOther)) this.add('list');
  }

  /** A hint: what the server has is asked for from where the copy is. */
  note(tip: Tip): void {
    const row = this.#options.copy.mailbox(tip.mailbox);
    if (row && !isBehind(row, tip)) return;
    if (!row) this.add('list');
    // Its numbers alone are shown: they may be a little late.
    else if (!this.isWanted(row)) this.#due.set('list', undefined);
    // What is to be read in any case stays so. Of two states that wait nobody knows which is the later one.
    else {
      const waiting = this.#due.get(row.box);
      const isOnly = !this.#due.has(row.box) || (waiting && !isBehind(waiting, tip));
      this.#due.set(row.box, isOnly ? tip : undefined);
    }
  }
}

const isBehind = ({ token, uidvalidity }: Pick<MailboxRow, 'token' | 'uidvalidity'>, tip: Tip) =>
  token !== tip.token || uidvalidity !== tip.uidvalidity;
