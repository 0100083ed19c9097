/**
 * Writes to the mailboxes of one account, where many come at once. Each waits for the row of its mailbox, and on PostgreSQL
 * it holds a connection while it does: a hundred messages to one mailbox held all connections, and everybody's syncs and
 * mail waited behind them. So all but a few wait here, with none. SQLite has one writer, which they share.
 */
import type { Database } from '../../platform/database/database.ts';
import { Turns } from '../../platform/net/net.ts';

/** Writes of one account at once: one has the row, and the next begins without a pause. */
const OF_AN_ACCOUNT = 2;
const NEVER = new AbortController().signal;

export class WriteLine {
  readonly #turns: Turns | undefined;

  constructor({ engine }: Pick<Database, 'engine'>) {
    this.#turns = engine === 'postgres' ? new Turns(Number.POSITIVE_INFINITY) : undefined;
  }

  /** Writes when it is the turn of all accounts. The work must not wait for another write of them. */
  run<T>(accountIds: Iterable<number>, write: () => Promise<T>): Promise<T> {
    if (!this.#turns) return write();
    // In one order for all: no two of them wait for each other.
    const ids = [...accountIds].sort((a, b) => a - b);
    const parties = ids.map((id) => ({ name: `account ${id}`, most: OF_AN_ACCOUNT }));
    return this.#turns.run(parties, write, NEVER);
  }
}
