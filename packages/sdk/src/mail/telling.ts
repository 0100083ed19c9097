/** Tells an app what changed: events, what it watches, and whoever waits for a change to be over. */
import type { MailboxView, MailClient, MailEvents, MailState } from './client.ts';
import { type OperationTools, pendingOf, toError, toOperation } from './operation.ts';
import { isUnsettled } from './outbox.ts';
import { bySeq, isLive, type OperationRow, type StoredError } from './rows.ts';
import { listMailboxes } from './views.ts';

export type ReadView = (state: MailState, before: MailboxView | undefined) => Promise<MailboxView>;
type Tell = (event: never) => void;

export class Telling {
  readonly #tools: OperationTools & { readonly state: MailState };
  readonly #listeners = new Map<keyof MailEvents, Set<Tell>>();
  readonly #watchers = new Set<() => void>();
  readonly #waiting = new Set<() => void>();
  /** Changes that were not over when this tab last looked. */
  #known = new Set<number>();
  #mailboxes = '';
  #pending = '';
  /** What was refused, and was not settled when this tab last looked. */
  #refused: readonly OperationRow[] = [];

  constructor(tools: OperationTools & { readonly state: MailState }) {
    this.#tools = tools;
  }

  readonly on: MailClient['on'] = (name, tell) => {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(tell as Tell));
    // A tab may have died before it told: nobody else knows.
    const { operations } = this.#tools.copy;
    for (const row of operations)
      if (row.state === name && isUnsettled(row, operations)) tell(this.#told(row) as never);
    return () => listeners.delete(tell as Tell);
  };

  emit<Name extends keyof MailEvents>(name: Name, event: MailEvents[Name]): void {
    for (const tell of this.#listeners.get(name) ?? []) call(tell, event as never);
  }

  /** Nobody is told of anything any more but of the state. */
  end(): void {
    this.#watchers.clear();
  }

  /** A request is over: whoever waits for one looks whether it was that. */
  ended(): void {
    for (const check of [...this.#waiting]) check();
  }

  /** Something is shown otherwise now. */
  changed(): void {
    this.ended();
    for (const look of [...this.#watchers]) look();
    this.#tellEnded();
    this.#tellPending();
    if (this.#listeners.has('mailboxes')) void this.#tellMailboxes();
  }

  /** Of a draft that takes a mail back, that is told: it can be taken back again. */
  #told(row: OperationRow): MailEvents['rejected'] {
    const { operations } = this.#tools.copy;
    const first = row.mail && bySeq(row.inverseOf, operations);
    const error = toError(row.error as StoredError);
    return { operation: toOperation(this.#tools, [first ?? row]), error };
  }

  #tellEnded(): void {
    const before = this.#known;
    const { operations } = this.#tools.copy;
    this.#known = new Set(operations.filter(isLive).map(({ seq }) => seq));
    for (const row of operations)
      if (row.error && before.has(row.seq)) this.emit(row.state as 'rejected', this.#told(row));
  }

  #tellPending(): void {
    const pending = pendingOf(this.#tools);
    const { operations, row: account } = this.#tools.copy;
    // Also where something that was refused is settled, in another tab perhaps.
    const refused = operations.filter((row) => isUnsettled(row, operations));
    const isDropped = ({ seq }: OperationRow) => account && !bySeq(seq, operations);
    const dropped = this.#refused.filter(isDropped);
    this.#refused = refused;
    for (const row of dropped) this.emit('dropped', this.#told(row));
    const ids = [pending, refused].map((some) => some.map(({ id }) => id)).join('|');
    if (ids === this.#pending) return;
    this.#pending = ids;
    this.emit('pending', { pending });
  }

  async #tellMailboxes(): Promise<void> {
    const mailboxes = await listMailboxes(this.#tools.copy).catch(() => undefined);
    const text = JSON.stringify(mailboxes);
    if (!mailboxes || text === this.#mailboxes) return;
    this.#mailboxes = text;
    this.emit('mailboxes', { mailboxes });
  }

  async waitUntil(isSo: () => boolean): Promise<void> {
    if (isSo()) return;
    await new Promise<void>((resolve) => {
      const check = () => {
        if (!isSo()) return;
        this.#waiting.delete(check);
        resolve();
      };
      this.#waiting.add(check);
    });
  }

  /** Tells at once, and after each change that is seen; of many changes at a time, once. */
  watch(read: ReadView, tell: (view: MailboxView) => void): () => void {
    let before: MailboxView | undefined;
    let isDirty = false;
    let isReading = false;
    const run = async () => {
      isReading = true;
      while (isDirty && this.#watchers.has(look)) {
        isDirty = false;
        const view = await read(this.#tools.state, before).catch(() => undefined);
        if (!view || !this.#watchers.has(look) || isSameView(before, view)) continue;
        before = view;
        call(tell, view);
      }
      isReading = false;
    };
    const look = () => {
      isDirty = true;
      if (!isReading) void run();
    };
    this.#watchers.add(look);
    look();
    return () => this.#watchers.delete(look);
  }
}

/** An error of the app is reported as others of its, and not thrown into what is under way here. */
function call<Event>(tell: (event: Event) => void, event: Event): void {
  try {
    tell(event);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

function isSameView(before: MailboxView | undefined, now: MailboxView): boolean {
  return (
    before?.state === now.state &&
    before.total === now.total &&
    before.unseen === now.unseen &&
    before.messages.length === now.messages.length &&
    before.messages.every((message, index) => message === now.messages[index])
  );
}
