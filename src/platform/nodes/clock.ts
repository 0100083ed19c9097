/** The database's clock, for instants on which nodes have to agree: leases and heartbeats. */
import { type RawBuilder, sql } from 'kysely';
import type { Queries, ReadDatabase } from '../database/database.ts';

/** Milliseconds since 1970 by PostgreSQL's clock, as it moves on within a transaction. */
export const databaseTime: RawBuilder<number> = sql<number>`
  (extract(epoch from clock_timestamp()) * 1000)::bigint`;

/** How many times a node asks for the time at its start: the first query also opens a connection. */
const FIRST_QUESTIONS = 5;
/** By how much two clocks may drift apart: 100 ms in 1,000 s. */
const DRIFT = 1e-4;
/** Where the two clocks differ by more, somebody has to know, in milliseconds. */
export const OFF_MS = 5_000;

/** The result of one query for the time. */
interface Measurement {
  /** The database's clock at the zero of the monotonic clock. */
  readonly zero: number;
  /** By how much that may be off, in milliseconds: half of the time that the query took. */
  readonly error: number;
  /** By the monotonic clock. */
  readonly at: number;
}

/**
 * The database's clock. Between two queries the monotonic clock continues it: the machine's own clock is not used, also
 * where it is set to another time.
 *
 * The fastest query counts, so that nodes differ only by a millisecond or two on a quiet network: mail that comes first
 * to one node and then to another is dated in this order.
 */
export class DatabaseClock {
  #best: Measurement | undefined;
  #isOff = false;

  /** Milliseconds since 1970. */
  readonly now = (): number =>
    this.#best === undefined ? Date.now() : Math.round(this.#best.zero + performance.now());

  /** Asks the database for the time. */
  async measure(queries: Queries): Promise<void> {
    for (let asked = this.#best ? FIRST_QUESTIONS - 1 : 0; asked < FIRST_QUESTIONS; asked++) {
      await this.measureBy(async () => {
        const { rows } = await sql<{ now: number }>`select ${databaseTime} as now`.execute(queries);
        const [row] = rows;
        if (!row) throw new Error('the database does not tell the time');
        return row.now;
      });
    }
  }

  /** @param ask returns the time */
  async measureBy(ask: () => Promise<number>): Promise<void> {
    const before = performance.now();
    const shown = await ask();
    const at = performance.now();
    const best = this.#best;
    const found = { zero: shown - (before + at) / 2, error: (at - before) / 2, at };
    if (best !== undefined) {
      const error = best.error + DRIFT * (at - best.at);
      // The two cannot both be right: the database's clock was set.
      const wasSet = Math.abs(found.zero - best.zero) > found.error + error + 1;
      if (!wasSet && found.error > error) return;
    }
    this.#best = found;
  }

  /** By how many milliseconds the clock of this machine is ahead of it. */
  readonly off = (): number => Date.now() - this.now();

  /**
   * Reports once that the clock of this machine is off, and once that it is right again.
   *
   * @returns a line for the log, where there is something new to report
   */
  report(): string | undefined {
    const off = this.off();
    const isOff = Math.abs(off) > OFF_MS;
    if (isOff === this.#isOff) return undefined;
    this.#isOff = isOff;
    if (!isOff) return "the clock of this machine agrees with the database's again";
    return `${describeOff(off)}: leases, dates, tokens and signatures of webhooks go by the clock of the database; correct the one that is wrong`;
  }
}

function describeOff(off: number): string {
  const seconds = Math.round(Math.abs(off) / 1000);
  return `the clock of this machine is ${seconds} s ${off > 0 ? 'ahead of' : 'behind'} the clock of the database`;
}

/** How the clock of this machine differs from the database's; undefined where they agree, and on SQLite, which has none. */
export async function compareClocks(database: ReadDatabase): Promise<string | undefined> {
  if (database.engine === 'sqlite') return undefined;
  const clock = new DatabaseClock();
  await clock.measure(database.read);
  const off = clock.off();
  return Math.abs(off) > OFF_MS ? describeOff(off) : undefined;
}
