/**
 * Which mailboxes are to be read anew, and whether the list of them is: what events, answers and the user say of that.
 * Nothing is asked here; the leader asks for what is due as soon as it may.
 */
import type { HelloEvent, MailboxChangedEvent } from '../api-types.ts';
import type { Copy } from './copy.ts';
import type { MailboxRow } from './rows.ts';

/** The state of a mailbox as the server tells it. */
type Tip = Pick<MailboxChangedEvent, 'mailbox' | 'uidvalidity' | 'token'>;

/** What everybody has open sooner or later. */
const ALWAYS = new Set(['\\Sent', '\\Drafts']);

export class Due {
  readonly #copy: Copy;
  readonly #syncAll: boolean;
  readonly #opened = new Set<string>();
  /** Boxes to be synced. */
  readonly boxes: Set<number> = new Set();
  /** Boxes that a sync, or a change that brings one, is reading. */
  readonly busy: Set<number> = new Set();
  isListDue: boolean = true;
  isListing: boolean = false;
  /** By the platform's ticks: before it the list is not asked for again. */
  listAt: number = 0;

  constructor(copy: Copy, syncAll: boolean) {
    this.#copy = copy;
    this.#syncAll = syncAll;
    for (const { box, token } of copy.mailboxes) if (token !== undefined) this.boxes.add(box);
    for (const { state, awaits = [] } of copy.operations) {
      if (state === 'acked') for (const box of awaits) this.boxes.add(box);
    }
  }

  /** Whether the copy has the mailbox, or is going to have it. */
  isWanted({ name, specialUse, token, gone }: MailboxRow): boolean {
    if (gone) return false;
    const isAlways = name === 'INBOX' || ALWAYS.has(specialUse ?? '');
    return isAlways || token !== undefined || this.#opened.has(name) || this.#syncAll;
  }

  /** Whether something of the mailbox is not in the copy yet: whether there is one, the list says. */
  isBusy(name: string): boolean {
    const { box, token } = this.#copy.mailbox(name) ?? {};
    const isKnown = box !== undefined && token !== undefined;
    if (!isKnown && (this.isListDue || this.isListing)) return true;
    return box !== undefined && this.#isWorking(box);
  }

  get isAnyBusy(): boolean {
    return this.#copy.mailboxes.some(({ box }) => this.#isWorking(box));
  }

  #isWorking(box: number): boolean {
    return this.boxes.has(box) || this.busy.has(box);
  }

  /** Mailboxes that may be synced now: what somebody looks at first. */
  next(): MailboxRow[] {
    const rank = ({ name }: MailboxRow) => (this.#opened.has(name) ? 0 : name === 'INBOX' ? 1 : 2);
    return this.#copy.mailboxes
      .filter(({ box, gone }) => this.boxes.has(box) && !this.busy.has(box) && !gone)
      .sort((a, b) => rank(a) - rank(b));
  }

  /** Somebody looks at a mailbox. */
  open(name: string): void {
    if (this.#opened.has(name)) return;
    this.#opened.add(name);
    const mailbox = this.#copy.mailbox(name);
    if (mailbox && mailbox.token === undefined) this.boxes.add(mailbox.box);
  }

  /** The user wants it now. */
  sync(name: string): void {
    this.#opened.add(name);
    this.read(name);
    if (!this.#copy.mailbox(name)) this.relist();
  }

  /** It may have changed, without a word of the server. */
  read(name: string): void {
    const mailbox = this.#copy.mailbox(name);
    if (mailbox) this.boxes.add(mailbox.box);
  }

  relist(): void {
    this.isListDue = true;
    this.listAt = 0;
  }

  /** What was missed since the last time. */
  greet(tips: HelloEvent['mailboxes']): void {
    for (const tip of tips) this.note(tip);
    const ids = new Map(tips.map(({ mailbox, mailboxId }) => [mailbox, mailboxId]));
    const isOther = ({ name, mailboxId, gone }: MailboxRow) =>
      !gone && (!ids.has(name) || ids.get(name) !== mailboxId);
    if (this.#copy.mailboxes.some(isOther)) this.relist();
  }

  /** A hint: what the server has is asked for from where the copy is. */
  note({ mailbox, uidvalidity, token }: Tip): void {
    const row = this.#copy.mailbox(mailbox);
    if (row?.token === token && row.uidvalidity === uidvalidity) return;
    if (!row) this.relist();
    else if (this.isWanted(row)) this.boxes.add(row.box);
    // Its numbers alone are shown: they may be a little late.
    else this.isListDue = true;
  }
}
