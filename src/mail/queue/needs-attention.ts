/** What of the queue needs an operator: receivers that fail, what failed lately, and deliveries that are held. */
import { sql } from 'kysely';
import type { ReadDatabase } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { ofState, topReasons } from './receivers.ts';

/** A receiver for which more waits after a failure than it took lately. */
export interface FailingReceiver {
  readonly destination: string;
  /** Deliveries that wait, and were attempted before. */
  readonly count: number;
  /** When the oldest of them was queued. */
  readonly oldestAt: EpochMs;
  /** The most frequent reason. */
  readonly reason: string;
}

export interface FailingLimits {
  /** The fewest deliveries that wait after a failed attempt: single ones often do. */
  readonly waiting: number;
  /** Successes count from this time on. */
  readonly since: EpochMs;
  /** The most receivers. */
  readonly receivers: number;
}

/** The most successes that are counted: a receiver that took so many is well, whatever waits. */
const SUCCESSES_MAX = 1_000;

/** Receivers at which more waits after a failed attempt than was delivered lately, those with most of it first. */
export async function findFailingReceivers(
  database: ReadDatabase,
  { waiting, since, receivers }: FailingLimits,
): Promise<FailingReceiver[]> {
  const { rows } = await sql<Omit<FailingReceiver, 'reason'>>`
    select destination, count(*) as count, min(created_at) as "oldestAt"
    ${ofState(database, 'queued', {}, true)} and reason is not null
    group by destination having count(*) >= ${waiting}
    order by count(*) desc, destination limit ${receivers}`.execute(database.read);
  if (rows.length === 0) return [];
  const destinations = rows.map(({ destination }) => destination);
  const [successes, reasons] = await Promise.all([
    countSuccesses(database, destinations, since),
    topReasons(database, { states: ['queued'] }, destinations),
  ]);
  return rows.flatMap((row) => {
    const took = successes.get(row.destination) ?? 0;
    const reason = reasons.get(row.destination)?.text;
    const isWell = took >= Math.min(row.count, SUCCESSES_MAX);
    return isWell || reason === undefined ? [] : [{ ...row, reason }];
  });
}

async function countSuccesses(
  { read }: ReadDatabase,
  destinations: readonly string[],
  since: EpochMs,
): Promise<ReadonlyMap<string, number>> {
  // A short way in `deliveries_succeeded` for each.
  const parts = destinations.map(
    (
      destination,
    ) => sql`select cast(${destination} as text) as destination, count(*) as count from (
      select 1 from deliveries where status = 'delivered' and destination = ${destination}
        and finished_at > ${since} limit ${sql.lit(SUCCESSES_MAX)}) taken`,
  );
  const { rows } = await sql<{
    destination: string;
    count: number;
  }>`${sql.join(parts, sql` union all `)}`.execute(read);
  return new Map(rows.map(({ destination, count }) => [destination, count]));
}

/** Deliveries that were held before a time and still are, and since when the first of them. */
export async function findHeld(
  { read }: ReadDatabase,
  before: EpochMs,
): Promise<{ readonly count: number; readonly since: EpochMs | undefined }> {
  // The state is a literal: it is the condition of the index `deliveries_held`.
  const { rows } = await sql<{ count: number; since: number | null }>`
    select count(*) as count, min(updated_at) as since from deliveries
    where status = 'held' and updated_at <= ${before}`.execute(read);
  return { count: rows[0]?.count ?? 0, since: rows[0]?.since ?? undefined };
}

/** A delivery of mail that failed lately, for good or not. */
export interface RecentFailure {
  readonly status: 'failed' | 'queued';
  readonly destination: string;
  readonly reason: string;
  readonly createdAt: EpochMs;
}

/**
 * The deliveries of mail by SMTP that have failed, newest first, among the newest undelivered ones that were queued since a
 * time. Where a million wait for a webhook, looking at all of them would hold SQLite's thread for half a second.
 *
 * @param looked at so many of each state at most
 */
export async function findRecentFailures(
  { read }: ReadDatabase,
  since: EpochMs,
  looked: number,
): Promise<RecentFailure[]> {
  // By `deliveries_undelivered`: a partial index is used only where its condition is in the query.
  const ofStatus = (status: RecentFailure['status']) =>
    sql<RecentFailure>`
    select status, destination, reason, created_at as "createdAt" from (
      select status, destination, reason, created_at, kind, id from deliveries
      where status = ${status} and status <> 'delivered' and created_at >= ${since}
      order by created_at desc, id desc limit ${sql.lit(looked)}) newest
    where reason is not null and kind in ('send', 'forward', 'bounce')
    order by created_at desc, id desc`.execute(read);
  const found = await Promise.all([ofStatus('failed'), ofStatus('queued')]);
  return found.flatMap(({ rows }) => rows);
}
