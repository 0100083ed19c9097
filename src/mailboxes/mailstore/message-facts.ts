/** What IMAP asks of many messages at once: what never changes is read of a thousand in one row (`message-numbers.ts`). */
import { chunks, type Database, type Row } from '../../platform/database/database.ts';
import type { Envelope } from '../../protocols/message/message.ts';
import { type MailUser, takeTurnOf } from './mail-user.ts';
import { type MailboxIndex, positionOf } from './mailbox-indexes.ts';
import { type AskedNumbers, readNumbers } from './message-numbers.ts';
import type { MailboxRow } from './store.ts';

const facts = ['uid', 'modseq', 'flags', 'body_id', 'size', 'internal_date'] as const;

export interface MessageFact extends Pick<Row<'messages'>, (typeof facts)[number]> {
  /** By its Date field; when it came where that cannot be read (RFC 5256 section 2.2). */
  readonly sent_at: number;
}

/** Whether a column is one of these, so that no row has to be read for it. */
export function isFact(column: string): boolean {
  return facts.some((one) => one === column);
}

const columnsOfRow = [...facts, 'envelope'] as const;

interface Store {
  indexAtHand(user: MailUser, mailbox: MailboxRow): Promise<MailboxIndex | undefined>;
  rows(
    mailbox: MailboxRow,
    uids: readonly number[],
    columns: typeof columnsOfRow,
  ): Promise<Pick<Row<'messages'>, (typeof columnsOfRow)[number]>[]>;
}

const ROWS_AT_A_TIME = 500;

export class MessageFacts {
  readonly #database: Database;
  readonly #store: Store;

  constructor(database: Database, store: Store) {
    this.#database = database;
    this.#store = store;
  }

  /** Of the messages that exist among these, ascending. @param uids ascending */
  async read(user: MailUser, mailbox: MailboxRow, uids: readonly number[]): Promise<MessageFact[]> {
    const index = await this.#store.indexAtHand(user, mailbox);
    if (!index) return this.#readRows(user, mailbox, uids);
    const { uids: all, modseqs, flags } = index;
    const found: MessageFact[] = [];
    let place = positionOf(all, uids[0] ?? 0);
    const take: AskedNumbers['take'] = (uid, numbers, at) => {
      while (all[place] !== uid) place++;
      found.push({
        uid,
        modseq: modseqs[place] ?? 0,
        flags: flags[place] ?? '',
        body_id: numbers[at] ?? 0,
        size: numbers[at + 1] ?? 0,
        internal_date: numbers[at + 2] ?? 0,
        sent_at: numbers[at + 3] ?? 0,
      });
    };
    const make = async (lacking: readonly number[]) => {
      const rows = await this.#readRows(user, mailbox, lacking);
      return new Map(
        rows.map((row) => [row.uid, [row.body_id, row.size, row.internal_date, row.sent_at]]),
      );
    };
    const of = { mailboxId: mailbox.id, kind: 'facts', all } as const;
    await readNumbers(this.#database, of, { uids: amongThose(uids, all), make, take });
    return found;
  }

  /** Their places in conversations, as who asks makes them of their texts. */
  async ofThreads(
    user: MailUser,
    mailbox: MailboxRow,
    kind: 'threads' | 'subjects',
    { uids, make, take }: AskedNumbers,
  ): Promise<void> {
    const index = await this.#store.indexAtHand(user, mailbox);
    if (index) {
      const of = { mailboxId: mailbox.id, kind, all: index.uids };
      const there = amongThose(uids, index.uids);
      await readNumbers(this.#database, of, { uids: there, make, take });
      return;
    }
    for (const [uid, numbers] of await make(uids)) {
      take(uid, Float64Array.from(numbers), 0, numbers.length);
    }
  }

  /** The same from the messages themselves. */
  async #readRows(
    user: MailUser,
    mailbox: MailboxRow,
    uids: readonly number[],
  ): Promise<MessageFact[]> {
    const found: MessageFact[] = [];
    for (const some of chunks(uids, ROWS_AT_A_TIME)) {
      await takeTurnOf(user);
      for (const { envelope, ...row } of await this.#store.rows(mailbox, some, columnsOfRow)) {
        const { date } = JSON.parse(envelope) as Partial<Envelope>;
        found.push({ ...row, sent_at: date === undefined ? row.internal_date : Date.parse(date) });
      }
    }
    return found;
  }
}

/** Those numbers that are among others; both ascending. */
function amongThose(uids: readonly number[], others: readonly number[]): number[] {
  let at = positionOf(others, uids[0] ?? 0);
  return uids.filter((uid) => {
    while ((others[at] ?? Number.POSITIVE_INFINITY) < uid) at++;
    return others[at] === uid;
  });
}
