/** The workers' queries on `deliveries`: waiting lanes, outcomes. Leases: `lease-rows.ts`. */
import { sql } from 'kysely';
import { PreparedQuery, type Queries, type Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  type DeliveryError,
  type DeliveryStatus,
  type JobFacts,
  nameRecipients,
  writeError,
} from './delivery.ts';
import { type Lane, userOf } from './parties.ts';

/** A literal: the planner uses a partial index only where it knows the value when it plans the query. */
export const queued = sql.lit('queued' as const);

/** The columns of a {@link LeasedRow} that `deliveries` has. */
export const rowColumns = [
  'id',
  'public_id',
  'domain_id',
  'sender',
  'destination',
  'body_id',
  'attempts',
  'replays',
  'attempted_at',
  'created_at',
  'mail_id',
  'recipient',
] as const;

/** The payload of a row, read with it. */
export const payload = sql<string>`coalesce(
  (select payload from delivery_payloads where delivery_id = deliveries.id), '')`.as('payload');

export type LeasedRow = Readonly<Pick<Row<'deliveries'>, (typeof rowColumns)[number]>> & {
  readonly payload: string;
};

/** @param delays of the schedule */
export function jobFacts(row: LeasedRow, delays: readonly number[]): JobFacts {
  return {
    id: row.id,
    publicId: row.public_id,
    domainId: row.domain_id,
    userId: userOf(row.sender),
    destination: row.destination,
    bodyId: row.body_id,
    attempt: row.attempts + 1,
    isFirst: row.attempted_at === null,
    isLast: row.attempts >= delays.length,
    isReplay: row.replays > 0,
    createdAt: row.created_at,
    ...(row.mail_id !== null && { mailId: row.mail_id }),
    ...(row.recipient !== null && { recipient: row.recipient }),
  };
}

export interface Waiting extends Lane {
  /** When its earliest row is due. */
  readonly due: number;
}

/** Where a look is: at a lane, or behind all lanes of a sender. */
export interface LanePosition {
  readonly sender: string;
  readonly destination: string | null;
}

/**
 * Lanes of a kind with queued rows, in the order of their names: one step in the index for each, however many rows it has.
 *
 * @param after also read, where it has rows
 */
export async function findWaiting(
  queries: Queries,
  kind: string,
  after: LanePosition,
  limit: number,
): Promise<Waiting[]> {
  const of = sql`from deliveries where kind = ${kind} and status = ${queued}`;
  // After the last destination of a sender comes null, then the next sender with '', then its destinations.
  const { rows } = await sql<Waiting>`
    with recursive lane (sender, destination) as (
      select cast(${after.sender} as text), cast(${after.destination} as text)
      union all
      select
        case when destination is null
          then (select min(sender) ${of} and sender > lane.sender) else sender end,
        case when destination is null
          then '' else (
            select min(destination) ${of} and sender = lane.sender and destination > lane.destination
          ) end
      from lane where sender is not null
    )
    select sender, destination, due from (
      select sender, destination, (
        select min(next_attempt_at) ${of}
          and sender = lane.sender and destination = lane.destination
      ) as due from lane where sender is not null and destination is not null
    ) found where due is not null limit ${limit}`.execute(queries);
  return rows;
}

/** @returns how many rows of a lane are due, at most `limit` */
export async function countDue(
  queries: Queries,
  request: LaneOfKind & { readonly now: EpochMs; readonly limit: number },
): Promise<number> {
  const due = selectWaiting(queries, request).where('next_attempt_at', '<=', request.now);
  return (await due.limit(request.limit).execute()).length;
}

export interface LaneOfKind extends Lane {
  readonly kind: string;
}

/** Queued rows of a lane, the longest due first; a leased row is due at the end of its lease. */
export function selectWaiting(
  queries: Pick<Queries, 'selectFrom'>,
  { kind, sender, destination }: LaneOfKind,
) {
  return queries
    .selectFrom('deliveries')
    .select(['id', 'next_attempt_at'])
    .where('kind', '=', kind)
    .where('sender', '=', sender)
    .where('destination', '=', destination)
    .where('status', '=', queued)
    .orderBy('next_attempt_at')
    .orderBy('id');
}

/** What the outcome of an attempt writes in the row. */
export interface RowOutcome {
  readonly status: DeliveryStatus;
  readonly attempts: number;
  readonly error?: DeliveryError;
  /** Set where the first attempt of the delivery ended. */
  readonly attemptedAt?: number;
  /** Of a delivery that stays queued. */
  readonly nextAttemptAt?: number;
  /** Those that it is still for, in place of all. */
  readonly recipients?: readonly string[];
  readonly now: number;
}

interface OutcomeValues extends Pick<RowOutcome, 'status' | 'attempts' | 'now'> {
  readonly id: number;
  readonly owner: string;
  readonly nextAttemptAt: number;
  readonly finishedAt: number | null;
  /** Null, here and below: it stays as it is. */
  readonly last_error: string | null;
  readonly reason: string | null;
  readonly attemptedAt: number | null;
  readonly recipient: string | null;
}

const outcomeRow = new PreparedQuery((value: OutcomeValues, queries) =>
  queries
    .updateTable('deliveries')
    .set(({ fn, val }) => ({
      status: value.status,
      attempts: value.attempts,
      lease_owner: null,
      next_attempt_at: value.nextAttemptAt,
      updated_at: value.now,
      finished_at: value.finishedAt,
      last_error: fn.coalesce(val(value.last_error), 'last_error'),
      reason: fn.coalesce(val(value.reason), 'reason'),
      attempted_at: fn.coalesce(val(value.attemptedAt), 'attempted_at'),
      recipient: fn.coalesce(val(value.recipient), 'recipient'),
    }))
    .where('id', '=', value.id)
    .where('lease_owner', '=', value.owner)
    .returning('id'),
);

/**
 * Writes the outcome of an attempt and ends the lease.
 *
 * @returns false where the owner no longer holds the lease: then nothing is changed
 */
export async function writeOutcome(
  tx: Queries,
  owner: string,
  id: number,
  { status, attempts, error, attemptedAt, nextAttemptAt, recipients, now }: RowOutcome,
): Promise<boolean> {
  const row = await outcomeRow.first(tx, {
    id,
    owner,
    status,
    attempts,
    now,
    nextAttemptAt: nextAttemptAt ?? now,
    finishedAt: status === 'queued' || status === 'held' ? null : now,
    ...(error ? writeError(error) : { last_error: null, reason: null }),
    attemptedAt: attemptedAt ?? null,
    recipient: recipients ? nameRecipients(recipients) : null,
  });
  return row !== undefined;
}
