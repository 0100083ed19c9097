/** Rules that hold for the rows of a copy after each write, whatever happened before it. */
import {
  type BodyRow,
  isLive,
  type MailboxRow,
  type MessageRow,
  type OperationRow,
} from '../../src/mail/rows.ts';
import type { Store, TableName } from '../../src/mail.ts';
import type { FakeAccount } from '../../src/testing/account.ts';
import type { Rows } from './replay.ts';

/** The flags of each message, by UID. */
type Flags = ReadonlyMap<number, string>;

/** What a mailbox of the server had at a token, which is a MODSEQ. */
interface State {
  readonly modseq: number;
  readonly flags: Flags;
}

const ENDED: ReadonlySet<string> = new Set(['done', 'rejected', 'cancelled', 'uncertain']);

const textOf = (flags: readonly string[]) => [...flags].sort().join(' ');

export class Invariants {
  readonly #store: Store;
  readonly #account: FakeAccount;
  /** By UIDVALIDITY, upwards. */
  readonly #states = new Map<string, State[]>();
  /** How each change stood when it was last looked at. */
  readonly #operations = new Map<number, OperationRow['state']>();
  /** Of all changes that were ever stored. */
  readonly ids = new Set<string>();
  /** Of mail of which nobody knows any more whether it was sent: a key is old after a day. */
  readonly uncertain = new Set<string>();
  /** How many copies were compared with what the server had. */
  compared = 0;

  constructor(store: Store, account: FakeAccount) {
    this.#store = store;
    this.#account = account;
  }

  /** Notes what the server has now. */
  note(): void {
    for (const mailbox of this.#account.mailboxes) {
      const { uidvalidity, token } = mailbox.state;
      const states = this.#states.get(uidvalidity) ?? [];
      this.#states.set(uidvalidity, states);
      const modseq = Number(token);
      if (states.at(-1)?.modseq === modseq) continue;
      const messages = mailbox.existing(mailbox.uids);
      const flags = new Map(messages.map(({ uid, flags: own }) => [uid, textOf(own)]));
      states.push({ modseq, flags });
    }
  }

  /** Asked for together: no write is between them. */
  async read(): Promise<Rows & { readonly bodies: readonly BodyRow[] }> {
    const all = (table: TableName) => this.#store.range({ table, prefix: [] });
    const [mailboxes, messages, operations, bodies] = await Promise.all([
      all('mailboxes') as Promise<MailboxRow[]>,
      all('messages') as Promise<MessageRow[]>,
      all('operations') as Promise<OperationRow[]>,
      all('bodies') as Promise<BodyRow[]>,
    ]);
    return { mailboxes, messages, operations, bodies };
  }

  /** @returns what does not hold */
  async check(): Promise<string[]> {
    const rows = await this.read();
    const { mailboxes, operations } = rows;
    const found = this.#checkOperations(operations);
    for (const mailbox of mailboxes.filter(({ gone }) => !gone)) {
      const { box, generation, name, paging, uidvalidity = '', token } = mailbox;
      const isOf = (row: MessageRow | BodyRow) => row.box === box && row.generation === generation;
      const copy = new Map(
        rows.messages.filter(isOf).map(({ uid, flags }) => [uid, textOf(flags)]),
      );
      const since = (this.#states.get(uidvalidity) ?? []).filter(
        (one) => one.modseq >= Number(token),
      );
      // What the server had at the token, or has had since: a later page of one sync may tell newer facts.
      if (!paging && since[0]?.modseq === Number(token)) {
        this.compared++;
        const uids = new Set([...copy.keys(), ...since.flatMap(({ flags }) => [...flags.keys()])]);
        for (const uid of uids) {
          if (!since.some(({ flags }) => flags.get(uid) === copy.get(uid)))
            found.push(`${name} has ${uid} as the server never had it since ${token}`);
        }
      }
      // A text belongs to a message.
      for (const { uid } of rows.bodies.filter(isOf)) {
        if (!copy.has(uid)) found.push(`${name} has a text without the message ${uid}`);
      }
    }
    return found;
  }

  /** Each change ends once, and changes of one message go in their order. */
  #checkOperations(operations: readonly OperationRow[]): string[] {
    const found: string[] = [];
    for (const { id, seq, kind, state, ids, mailbox } of operations) {
      this.ids.add(id);
      if (state === 'uncertain') this.uncertain.add(id);
      const before = this.#operations.get(seq);
      this.#operations.set(seq, state);
      const isOver = before !== undefined && ENDED.has(before);
      if (isOver && before !== state) found.push(`${kind} ${seq} was ${before}, and is ${state}`);
      if (before === 'acked' && state !== 'acked' && state !== 'done')
        found.push(`${kind} ${seq} was at the server, and is ${state}`);
      if (state !== 'inflight' || before === 'inflight') continue;
      const passed = operations.find(
        (one) =>
          one.seq < seq &&
          one.state === 'queued' &&
          one.mailbox === mailbox &&
          one.ids.some((id) => ids.includes(id)),
      );
      if (passed) found.push(`${kind} ${seq} went before ${passed.kind} ${passed.seq}`);
    }
    for (const [seq, state] of this.#operations) {
      if (isLive({ state } as OperationRow) && !operations.some((one) => one.seq === seq))
        found.push(`operation ${seq} was ${state}, and is not there any more`);
    }
    return found;
  }
}
