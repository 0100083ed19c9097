/**
 * One client's view of the store: the mailboxes and the user's changes in memory, messages read when they are asked
 * for. Any tab adds changes; what else is written, the leader writes, under its epoch.
 */
import { fold, type Overlay, type Place } from './fold.ts';
import type { MemoryStore } from './memory-store.ts';
import { makeId } from './platform.ts';
import {
  type AccountRow,
  blobsOf,
  byDate,
  isLive,
  isWaiting,
  type MailboxRow,
  type MessageRow,
  type OperationRow,
  put,
  renamed,
} from './rows.ts';
import type { Change, Durability, Key, Row, Store } from './store.ts';

/** Nothing was written: another tab leads now. */
export class StaleEpochError extends Error {
  override readonly name = 'StaleEpochError';
}

/** An operation that has no place in the order yet. */
export type NewOperation = Omit<OperationRow, 'account' | 'seq' | 'id' | 'group' | 'state'>;

export interface CopyOptions {
  readonly store: Store;
  readonly origin: string;
  readonly address: string;
  /** What is shown may be different now. */
  readonly changed: () => void;
}

export class Copy {
  store: Store;
  readonly account: string;
  readonly address: string;
  readonly #options: CopyOptions;
  mailboxes: readonly MailboxRow[] = [];
  /** In their order. */
  operations: readonly OperationRow[] = [];
  /** Changes up to this one are carried out by another tab as well, or by the next start: a store was lost. */
  sharedUpTo = 0;
  /** As it was read last; undefined where the account signed out. */
  row: AccountRow | undefined;
  #overlay: Promise<Overlay> | undefined;
  #writing: Promise<unknown> = Promise.resolve();
  /** Files that this tab put into the store, as long as a change needs them: a store that is lost gives none back. */
  readonly #files = new Map<string, Change>();

  constructor(options: CopyOptions) {
    this.#options = options;
    this.store = options.store;
    this.address = options.address;
    this.account = `${options.origin} ${options.address}`;
  }

  /** @throws Error where the store fails */
  async open(): Promise<void> {
    await this.store.update('accounts', [this.account], (row) => {
      // Another tab may sign out just now.
      if (row && !row.signedOut) return [];
      return [put('accounts', this.#newAccount(1 + Number(row?.epoch ?? 0), 1))];
    });
    await this.reload();
  }

  #newAccount(epoch: number, seq: number): AccountRow {
    const { origin, address } = this.#options;
    return { account: this.account, origin, address, epoch, leaseUntil: 0, seq };
  }

  /**
   * The store was lost: goes on in another one, with the changes of the user. Mailboxes are read anew from the server;
   * they keep their boxes, which the changes name.
   */
  replaceStore(store: MemoryStore): void {
    const last = this.operations.at(-1)?.seq ?? 0;
    this.shareUpTo(last);
    const unread = { uidvalidity: undefined, token: undefined, paging: false, complete: false };
    this.mailboxes = this.mailboxes.map((row) => ({ ...row, ...unread, total: 0, unseen: 0 }));
    store.apply([
      put('accounts', this.#newAccount(1, last + 1)),
      ...this.mailboxes.map((row) => put('mailboxes', row)),
      ...this.operations.map((row) => put('operations', row)),
      ...this.#files.values(),
    ]);
    this.store = store;
    this.touch();
  }

  shareUpTo(seq: number): void {
    this.sharedUpTo = Math.max(this.sharedUpTo, seq);
  }

  /** One after the other, each with what the one before left. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#writing.then(work);
    this.#writing = done.catch(() => undefined);
    return done;
  }

  /**
   * Reads what other tabs wrote, between two writes of this one. Most looks find the account's row as it was: then nothing
   * else is read.
   */
  reload(): Promise<void> {
    return this.#inTurn(() => this.#read());
  }

  async #read(): Promise<void> {
    const prefix = [this.account];
    const found = (await this.store.get('accounts', prefix)) as AccountRow | undefined;
    const row = found?.signedOut ? undefined : found;
    if (isSame(row, this.row)) {
      this.row = row;
      return;
    }
    const { length } = this.operations;
    const [mailboxes, operations] = await Promise.all([
      this.store.range({ table: 'mailboxes', prefix }),
      this.store.range({ table: 'operations', prefix }),
    ]);
    // Not before all is read: what could not be read is not known.
    this.row = row;
    this.mailboxes = mailboxes as MailboxRow[];
    // What this tab added meanwhile; of an account that signed out, nothing. One that signed in again counts anew.
    const added = row ? this.operations.slice(length) : [];
    this.operations = operations as OperationRow[];
    this.#keep(added);
  }

  /** Mailboxes that somebody wants to be read now. */
  get asked(): readonly string[] {
    return this.row?.asked ?? [];
  }

  /** Wants the leader to read a mailbox, or has read it for others. */
  async ask(name: string, isRead = false): Promise<void> {
    await this.store.update('accounts', [this.account], (row) => {
      const account = row as AccountRow | undefined;
      if (!account) return [];
      const others = account.asked?.filter((one) => one !== name) ?? [];
      return [put('accounts', { ...account, asked: isRead ? others : [...others, name] })];
    });
    await this.reload();
  }

  /** Something changed: what was computed is computed anew when it is asked for. */
  touch(): void {
    this.#overlay = undefined;
    for (const blob of this.#files.keys()) {
      const isNeeded = (one: OperationRow) => isWaiting(one) && blobsOf(one).includes(blob);
      if (!this.operations.some(isNeeded)) this.#files.delete(blob);
    }
    this.#options.changed();
  }

  /**
   * Reads rows, with the changes over them as they were at one time: again, where something was written meanwhile. A write of
   * this tab is seen in the store before it is known here, as one of another tab is. Without changes of the user nothing can be
   * seen twice, and a first sync delays nobody. Twenty pages that are written one after the other do not delay it longer.
   */
  async consistent<T>(read: (overlay: Overlay) => T | Promise<T>): Promise<T> {
    for (let left = 20; ; left--) {
      const isChanging = this.operations.some(isLive);
      this.#overlay ??= fold(this);
      const overlay = this.#overlay;
      const found = await read(await overlay);
      if (!isChanging || left === 0) return found;
      await this.reload();
      if (overlay === this.#overlay) return found;
    }
  }

  /** By its name of the list, or by the one that it is going to have. */
  mailbox(name: string): MailboxRow | undefined {
    const find = (wanted: string) =>
      this.mailboxes.find((mailbox) => mailbox.name === wanted && !mailbox.gone);
    const before = (now: string, { action, mailbox, to = '' }: OperationRow) =>
      action === 'rename' ? renamed(now, to, mailbox) : now;
    return find(name) ?? find(this.operations.filter(isLive).reduceRight(before, name));
  }

  box(box: number | undefined): MailboxRow | undefined {
    return this.mailboxes.find((mailbox) => mailbox.box === box);
  }

  bySpecialUse(use: string): MailboxRow | undefined {
    return this.mailboxes.find(({ specialUse, gone }) => specialUse === use && !gone);
  }

  /** A mailbox as it is now, for a change that names it; that of drafts where none is named. */
  place(
    name: string = this.bySpecialUse('\\Drafts')?.name ?? 'Drafts',
  ): Pick<OperationRow, 'mailbox' | 'box' | 'uidvalidity'> {
    const { box, uidvalidity } = this.mailbox(name) ?? {};
    return { mailbox: name, box, uidvalidity };
  }

  /** The mailbox that a change named; where it was deleted, the one that has its name now. */
  home(name: string, box: number | undefined): MailboxRow | undefined {
    const row = this.box(box);
    return row && !row.gone ? row : this.mailbox(row?.name ?? name);
  }

  readonly placeOf = (name: string, box: number | undefined): Place =>
    this.home(name, box)?.box ?? name;

  /** Messages of a box by UID, of its generation of now. */
  async rows(box: number, uids: readonly number[]): Promise<Map<number, MessageRow>> {
    const generation = this.box(box)?.generation;
    const found = new Map<number, MessageRow>();
    if (generation === undefined || uids.length === 0) return found;
    const note = (row: Row | undefined) =>
      row && found.set((row as MessageRow).uid, row as MessageRow);
    const sorted = [...uids].sort((a, b) => a - b);
    const [first = 0, last = 0] = [sorted[0], sorted.at(-1)];
    // A row each is cheaper than a long range, and a range than a thousand rows each.
    if (uids.length > 20 && (last - first) / uids.length < 20) {
      const range = { prefix: [box, generation], after: [first - 1], before: [last + 1] };
      for (const row of await this.store.range({ table: 'messages', ...range })) note(row);
    } else {
      const rows = uids.map((uid) => this.store.get('messages', [box, generation, uid]));
      for (const row of await Promise.all(rows)) note(row);
    }
    return found;
  }

  /** The messages of a mailbox, newest first; read a part at a time, the first of which has `first`. */
  async *newest(mailbox: MailboxRow, first = 1000): AsyncGenerator<MessageRow> {
    let before: Key | undefined;
    for (let limit = first; ; limit = 1000) {
      const query = { ...byDate(mailbox), reverse: true, limit, before };
      const rows = (await this.store.range(query)) as MessageRow[];
      yield* rows;
      const last = rows.at(-1);
      if (!last || rows.length < limit) return;
      before = [last.date, last.uid];
    }
  }

  /** Of a file that waits; undefined where it was lost with the store that had it. */
  async bytes(blob: string | undefined): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const row = await this.store.get('blobs', [this.account, blob ?? '']);
    return row?.bytes as Uint8Array<ArrayBuffer> | undefined;
  }

  /**
   * Puts changes of the user into the queue, durably, and shows them. Seqs are given where the account's row is, so
   * that two tabs never give the same.
   *
   * @throws Error where the account signed out
   */
  async add(
    make: (seq: number) => readonly NewOperation[],
    files: readonly Change[] = [],
  ): Promise<OperationRow[]> {
    const group = makeId();
    let added: OperationRow[] = [];
    let next = 0;
    let isNext = false;
    await this.store.update('accounts', [this.account], (row) => {
      const account = row as AccountRow | undefined;
      if (!account || account.signedOut) throw new Error('signed out');
      added = make(account.seq).map((operation, index) => {
        const id = index === 0 ? group : `${group}-${index}`;
        const seq = account.seq + index;
        return { ...operation, account: this.account, seq, id, group, state: 'queued' };
      });
      isNext = account.seq === this.row?.seq;
      next = account.seq + added.length;
      const rows = added.map((one) => put('operations', one));
      return [put('accounts', { ...account, seq: next }), ...rows, ...files];
    });
    for (const file of files) if ('put' in file) this.#files.set(String(file.row.blob), file);
    this.#keep(added);
    if (isNext && this.row) this.row = { ...this.row, seq: next };
    // Another tab stored changes, and perhaps died before it told: they go before these. Whether they can be read now or not,
    // these are stored: whoever was told otherwise would send a mail again.
    else await this.reload().catch(() => undefined);
    return added;
  }

  /**
   * Writes as the leader. Writes come one after the other, each decided on what the one before left.
   *
   * @throws StaleEpochError where another tab leads now
   */
  write(
    epoch: number,
    durability: Durability,
    decide: () => readonly Change[] | Promise<readonly Change[]>,
  ): Promise<void> {
    return this.#inTurn(async () => {
      const changes = await decide();
      if (changes.length === 0) return;
      let revision = 0;
      const counted = (row: Row | undefined) => {
        if (row?.epoch !== epoch) throw new StaleEpochError(`not ${epoch}`);
        revision = 1 + Number(row.revision ?? 0);
        return [put('accounts', { ...(row as AccountRow), revision }), ...changes];
      };
      await this.store.update('accounts', [this.account], counted, durability);
      if (this.row) this.row = { ...this.row, revision };
      this.#take(changes);
    });
  }

  /** What was written of mailboxes and operations, in memory too. */
  #take(changes: readonly Change[]): void {
    const mailboxes = new Map(this.mailboxes.map((row) => [row.box, row]));
    const operations = new Map(this.operations.map((row) => [row.seq, row]));
    for (const change of changes) {
      if ('remove' in change) {
        const id = Number(change.key[1]);
        if (change.remove === 'mailboxes') mailboxes.delete(id);
        if (change.remove === 'operations') operations.delete(id);
      } else if (change.put === 'mailboxes') {
        const row = change.row as MailboxRow;
        mailboxes.set(row.box, row);
      } else if (change.put === 'operations') {
        const row = change.row as OperationRow;
        operations.set(row.seq, row);
      }
    }
    this.mailboxes = [...mailboxes.values()];
    // They are in their order still: only those were written that were there.
    this.operations = [...operations.values()];
    this.touch();
  }

  /** They are the last ones. What was read of one meanwhile is later: the tab that leads may have it at the server already. */
  #keep(added: readonly OperationRow[]): void {
    const known = new Set(this.operations.map(({ seq }) => seq));
    this.operations = [...this.operations, ...added.filter(({ seq }) => !known.has(seq))];
    this.touch();
  }
}

/** Whether nothing was written that the copy has to read: changes of the user, writes of the leader, or who leads. */
function isSame(now: AccountRow | undefined, known: AccountRow | undefined): boolean {
  const of = (row: AccountRow | undefined) =>
    [row?.epoch, row?.seq, row?.revision, row?.asked].join();
  return of(now) === of(known);
}
