/**
 * Writes to the mailboxes of one account, where many come at once. Each waits for the row of its mailbox, and on PostgreSQL
 * it holds a connection while it does: a hundred messages to one mailbox held all connections, and everybody's syncs and
 * mail waited behind them. So all but a few wait here, with none. SQLite has one writer, which they share.
 */
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { Turns } from '../../platform/net/net.ts';

/** Writes of one account at once: one has the row, and the next begins without a pause. */
const OF_AN_ACCOUNT = 2;
/**
 * Milliseconds for which one waits for its turn. While the database is away each write of a line fails late: whoever waits
 * at its end would be answered when he has gone, and his message would come twice.
 */
const WAIT_MS = 10_000;
const NEVER = new AbortController().signal;

export class WriteLine {
  readonly #turns: Turns | undefined;

  constructor({ engine }: Pick<Database, 'engine'>) {
    this.#turns = engine === 'postgres' ? new Turns(Number.POSITIVE_INFINITY) : undefined;
  }

  /**
   * Writes when it is the turn of all accounts. The work must not wait for another write of them.
   *
   * @param accountIds each once
   * @throws Refusal unavailable where too many others write for too long; then nothing was written
   */
  async run<T>(accountIds: readonly number[], write: () => Promise<T>): Promise<T> {
    const turns = this.#turns;
    if (!turns) return write();
    // In one order for all: no two of them wait for each other.
    const ids = accountIds.toSorted((a, b) => a - b);
    const parties = ids.map((id) => ({ name: `account ${id}`, most: OF_AN_ACCOUNT }));
    const waits = parties.some(({ name }) => turns.tasksOf(name) >= OF_AN_ACCOUNT);
    const signal = waits ? AbortSignal.timeout(WAIT_MS) : NEVER;
    try {
      return await turns.run(parties, write, signal);
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) throw error;
      throw new Refusal('unavailable', 'too many writes to one account are under way', {
        retryAfter: 5,
      });
    }
  }
}
