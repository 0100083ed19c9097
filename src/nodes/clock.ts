/** The database's clock, which counts where nodes have to agree on an instant: for leases and heartbeats. */
import { type RawBuilder, sql } from 'kysely';
import type { Queries } from '../database/database.ts';

/** Milliseconds since 1970 by PostgreSQL's clock, as it moves on within a transaction. */
export const databaseTime: RawBuilder<number> = sql<number>`
  (extract(epoch from clock_timestamp()) * 1000)::bigint`;

/** A measurement that took longer than this says too little, in milliseconds. */
const ROUND_TRIP_MAX_MS = 1_000;
/** A node's clock that is off by more than this is told of, in milliseconds. */
const OFF_MS = 5_000;

/**
 * What the database's clock shows, between two looks at it counted by the monotonic clock: the clock of the
 * machine plays no part, also where it is set to another time.
 */
export class DatabaseClock {
  /** What the database's clock showed when the monotonic one was at zero. */
  #zero: number | undefined;
  #isOff = false;

  /** Milliseconds since 1970. */
  readonly now = (): number =>
    this.#zero === undefined ? Date.now() : Math.round(this.#zero + performance.now());

  /** Asks the database for the time. */
  async measure(queries: Queries): Promise<void> {
    const before = performance.now();
    const { rows } = await sql<{ now: number }>`select ${databaseTime} as now`.execute(queries);
    const after = performance.now();
    const [row] = rows;
    if (!row) throw new Error('the database does not tell the time');
    if (this.#zero !== undefined && after - before > ROUND_TRIP_MAX_MS) return;
    this.#zero = row.now - (before + after) / 2;
  }

  /**
   * Says once that the clock of this machine is off, and once that it is right again.
   *
   * @returns a line for the log, where there is something new to say
   */
  report(): string | undefined {
    const off = Date.now() - this.now();
    const isOff = Math.abs(off) > OFF_MS;
    if (isOff === this.#isOff) return undefined;
    this.#isOff = isOff;
    if (!isOff) return "the clock of this machine agrees with the database's again";
    const seconds = Math.round(Math.abs(off) / 1000);
    const where = off > 0 ? 'ahead of' : 'behind';
    return `the clock of this machine is ${seconds} s ${where} the clock of the database: leases use the clock of the database; correct the clock of this machine`;
  }
}
