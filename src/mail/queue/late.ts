/**
 * Steps that must not wait for the first attempt of a delivery, which comes late behind a long queue for a dead
 * receiver. For a row with `late_at`, {@link WorkOptions.onLate} runs at that instant. It runs once: its transaction
 * clears the column. An attempt that ends in time clears it as well (`Queue.cancelLate`).
 */
import type { Database, Queries } from '../../platform/database/database.ts';
import { payloadsOf } from './lease-rows.ts';
import { LOOK_MS, type WorkerSurroundings, type WorkOptions } from './work-options.ts';
import { jobFacts, type LeasedRow, rowColumns } from './worker-rows.ts';

const ROWS_AT_A_TIME = 100;
/** The wait after a failure. */
const RETRY_MS = 60_000;

export class LateWatch<Payload> {
  readonly #options: WorkOptions<Payload>;
  readonly #around: WorkerSurroundings;
  readonly #track: (task: Promise<void>) => void;
  /** When the next look comes, by the clock. */
  #next = Number.POSITIVE_INFINITY;
  #looking = false;
  #stopped = false;
  /** Whether the last look failed: an outage is one line of the log, however long it lasts. */
  #isFailing = false;
  #disarm: () => void = () => {};

  /** @param track remembers a task until it ends */
  constructor(
    options: WorkOptions<Payload>,
    around: WorkerSurroundings,
    track: (task: Promise<void>) => void,
  ) {
    this.#options = options;
    this.#around = around;
    this.#track = track;
  }

  /** Looks now, and again whenever a row may be due. */
  start(): void {
    this.wake(this.#around.clock.now());
  }

  /** A row is due at that instant. */
  wake(lateAt: number): void {
    if (!this.#options.onLate || this.#stopped || lateAt >= this.#next) return;
    this.#next = lateAt;
    if (!this.#looking) this.#arm();
  }

  stop(): void {
    this.#stopped = true;
    this.#disarm();
  }

  #arm(): void {
    this.#disarm();
    const wait = this.#next - this.#around.clock.now();
    if (wait <= 0) this.#track(this.#look());
    else this.#disarm = this.#around.clock.after(wait, () => this.#track(this.#look()));
  }

  async #look(): Promise<void> {
    const { database, clock, log } = this.#around;
    const { kind } = this.#options;
    this.#looking = true;
    // One instant for both reads: a row that is due during the look is the next one.
    const now = clock.now();
    this.#next = now + LOOK_MS[database.engine];
    try {
      const rows = await findLate(database.read, kind, now);
      for (const row of rows) {
        if (this.#stopped) return;
        await this.#do(row);
      }
      if (rows.length === ROWS_AT_A_TIME) this.#next = clock.now();
      else this.#next = Math.min(this.#next, await findNext(database.read, kind, now));
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) {
        log.error(
          { err: error, kind },
          'could not read which deliveries are late: trying again until it works',
        );
      }
      this.#isFailing = true;
    }
    this.#looking = false;
    if (!this.#stopped) this.#arm();
  }

  async #do(row: LeasedRow): Promise<void> {
    const { database, clock, log } = this.#around;
    const { kind, payloads, delays, onLate } = this.#options;
    try {
      const job = { ...jobFacts(row, delays), payload: payloads.read(row.payload) };
      const follow = await onLate?.(job);
      const afterCommit = await database.write(async (tx) =>
        (await clearLate(tx, row.id)) ? follow?.(tx) : undefined,
      );
      afterCommit?.();
    } catch (error) {
      log.error(
        { err: error, kind, id: row.id, mailId: row.mail_id },
        'the message of a late delivery could not be stored yet: retry in 60 s',
      );
      await postpone(database, row.id, clock.now() + RETRY_MS);
    }
  }
}

/**
 * Notes that `onLate` is not needed any more.
 *
 * @returns whether it was still to be run
 */
export async function clearLate(tx: Queries, id: number): Promise<boolean> {
  const row = await tx
    .updateTable('deliveries')
    .set({ late_at: null })
    .where('id', '=', id)
    .where('late_at', 'is not', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

async function findLate(queries: Queries, kind: string, now: number): Promise<LeasedRow[]> {
  const rows = await queries
    .selectFrom('deliveries')
    .select(rowColumns)
    .where('kind', '=', kind)
    .where('late_at', 'is not', null)
    // What cannot be read cannot be stored either; a row that an operator holds can.
    .where((eb) => eb.or([eb('status', '!=', 'held'), eb('held_by', 'is not', null)]))
    // Created in the future: the clock went back since. Such rows wait for a few seconds only.
    .where((eb) => eb.or([eb('late_at', '<=', now), eb('created_at', '>', now)]))
    .orderBy('late_at')
    .limit(ROWS_AT_A_TIME)
    .execute();
  return payloadsOf(queries, rows);
}

/** When the next row is due; infinity where there is none. */
async function findNext(queries: Queries, kind: string, now: number): Promise<number> {
  const row = await queries
    .selectFrom('deliveries')
    .select('late_at')
    .where('kind', '=', kind)
    .where('late_at', '>', now)
    .orderBy('late_at')
    .limit(1)
    .executeTakeFirst();
  return row?.late_at ?? Number.POSITIVE_INFINITY;
}

async function postpone(database: Database, id: number, late_at: number): Promise<void> {
  await database.write((tx) =>
    tx
      .updateTable('deliveries')
      .set({ late_at })
      .where('id', '=', id)
      .where('late_at', 'is not', null)
      .execute(),
  );
}
