/**
 * Steps that must not wait for the first attempt of a delivery, which comes late behind a long queue for a dead
 * receiver. For a row with `late_at`, {@link WorkOptions.onLate} runs at that instant or a second later. It runs once:
 * its transaction clears the column. An attempt that ends in time clears it as well (`Queue.cancelLate`).
 *
 * Nearly every first attempt ends in time. So this is a column, and not a delivery of its own that is withdrawn: that
 * would add 60 % to what the queue writes for each such message.
 */
import type { Queries } from '../../platform/database/database.ts';
import { type EpochMs, Outage, Repeat } from '../../platform/time/time.ts';
import type { WorkerSurroundings, WorkOptions } from './work-options.ts';
import { jobFacts, type LeasedRow, payload, rowColumns } from './worker-rows.ts';

/** How often rows that are late are read: from an index that nearly always has none. */
const LOOK_MS = 1_000;
const ROWS_AT_A_TIME = 100;
/** The wait after a failure. */
const RETRY_MS = 60_000;

export function watchLate<Payload>(
  options: WorkOptions<Payload>,
  around: WorkerSurroundings,
): Repeat {
  const { kind } = options;
  const outage = new Outage((err) =>
    around.log.error({ err, kind }, 'could not read which deliveries are late: retry in 1 s'),
  );
  const task = (signal: AbortSignal) => doLate(options, around, signal);
  return new Repeat({ everyMs: LOOK_MS, task, outage });
}

/** Does what is late now. */
async function doLate<Payload>(
  options: WorkOptions<Payload>,
  around: WorkerSurroundings,
  signal: AbortSignal,
): Promise<void> {
  const { database, clock } = around;
  for (let left = true; left; ) {
    const rows = await findLate(database.read, options.kind, clock.now());
    for (const row of rows) {
      if (signal.aborted) return;
      await doOne(row, options, around);
    }
    left = rows.length === ROWS_AT_A_TIME;
  }
}

async function doOne<Payload>(
  row: LeasedRow,
  { kind, payloads, delays, onLate }: WorkOptions<Payload>,
  { database, clock, log }: WorkerSurroundings,
): Promise<void> {
  try {
    const job = { ...jobFacts(row, delays), payload: payloads.read(row.payload) };
    const follow = await onLate?.(job);
    const afterCommit = await database.write(async (tx) =>
      (await setLate(tx, row.id, null)) ? follow?.(tx) : undefined,
    );
    afterCommit?.();
  } catch (error) {
    log.error(
      { err: error, kind, id: row.id, mailId: row.mail_id },
      'the message of a late delivery could not be stored yet: retry in 60 s',
    );
    await database.write((tx) => setLate(tx, row.id, clock.now() + RETRY_MS));
  }
}

/**
 * @param late_at null: `onLate` is not needed any more
 * @returns whether it was still to be run
 */
export async function setLate(tx: Queries, id: number, late_at: EpochMs | null): Promise<boolean> {
  const row = await tx
    .updateTable('deliveries')
    .set({ late_at })
    .where('id', '=', id)
    .where('late_at', 'is not', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** What cannot be read cannot be stored either: rows that are held are left, but for those that an operator holds. */
async function findLate(queries: Queries, kind: string, now: EpochMs): Promise<LeasedRow[]> {
  return queries
    .selectFrom('deliveries')
    .select(rowColumns)
    .select(payload)
    .where('kind', '=', kind)
    .where('late_at', '<=', now)
    .where((eb) => eb.or([eb('status', '!=', 'held'), eb('held_by', 'is not', null)]))
    .orderBy('late_at')
    .limit(ROWS_AT_A_TIME)
    .execute();
}
