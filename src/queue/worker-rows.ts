/** The queries of workers on `deliveries`: which destinations wait, leases, outcomes. */
import { sql } from 'kysely';
import type { Database, Queries } from '../database/database.ts';
import type { DeliveryError, DeliveryStatus, JobFacts } from './delivery.ts';
import { errorToJson } from './error-text.ts';

/** A literal, since a partial index serves only a condition that is known when a query is planned. */
const queued = sql.lit('queued' as const);

/** Ids in one statement: both engines bound the number of parameters. */
const IDS_AT_A_TIME = 500;

export interface LeasedRow {
  readonly id: number;
  readonly public_id: string;
  readonly domain_id: number;
  readonly destination: string;
  readonly body_id: number;
  readonly attempts: number;
  readonly replays: number;
  readonly attempted_at: number | null;
  readonly created_at: number;
  readonly payload: string;
}

/** The columns of a {@link LeasedRow} that `deliveries` has. */
export const rowColumns = [
  'id',
  'public_id',
  'domain_id',
  'destination',
  'body_id',
  'attempts',
  'replays',
  'attempted_at',
  'created_at',
] as const;

/** @param delays of the schedule */
export function jobFacts(row: LeasedRow, delays: readonly number[]): JobFacts {
  return {
    id: row.id,
    publicId: row.public_id,
    domainId: row.domain_id,
    destination: row.destination,
    bodyId: row.body_id,
    attempt: row.attempts + 1,
    isFirst: row.attempted_at === null,
    isLast: row.attempts >= delays.length,
    isReplay: row.replays > 0,
    createdAt: row.created_at,
  };
}

export interface Waiting {
  readonly destination: string;
  /** When its earliest row can be taken. */
  readonly due: number;
}

export interface LeaseRequest {
  readonly kind: string;
  readonly destination: string;
  readonly owner: string;
  readonly now: number;
  readonly until: number;
  readonly limit: number;
}

export interface Lease {
  readonly rows: readonly LeasedRow[];
  /** When the next row that nobody has can be taken; undefined where there is none, or not asked. */
  readonly nextDue: number | undefined;
}

/**
 * Destinations of a kind with queued rows, in the order of their names: one step in the index for
 * each, however many rows it has.
 */
export async function findWaiting(
  queries: Queries,
  kind: string,
  after: string,
  limit: number,
): Promise<Waiting[]> {
  const { rows } = await sql<Waiting>`
    with recursive waiting (destination) as (
      select min(destination) from deliveries
      where kind = ${kind} and status = ${queued} and destination > ${after}
      union all
      select (
        select min(destination) from deliveries
        where kind = ${kind} and status = ${queued} and destination > waiting.destination
      ) from waiting where waiting.destination is not null
    )
    select destination, (
      select min(next_attempt_at) from deliveries
      where kind = ${kind} and status = ${queued} and destination = waiting.destination
    ) as due from waiting where destination is not null limit ${limit}`.execute(queries);
  return rows;
}

/**
 * Leases the rows of one destination that are due, the longest due first. While another worker holds
 * a row it is passed over.
 */
export function leaseRows(database: Database, request: LeaseRequest): Promise<Lease> {
  const { owner, now, until, limit } = request;
  return database.write(async (tx) => {
    const leased = await tx
      .with('due', (db) => selectDue(db, database.engine, request))
      .updateTable('deliveries')
      .set({ lease_owner: owner, next_attempt_at: until, updated_at: now })
      .where('id', 'in', (eb) => eb.selectFrom('due').select('due.id'))
      .returning(rowColumns)
      .execute();
    const rows = await payloadsOf(
      tx,
      leased.sort((a, b) => a.id - b.id),
    );
    return { rows, nextDue: rows.length < limit ? await findNextDue(tx, request) : undefined };
  });
}

function selectDue(
  db: Pick<Queries, 'selectFrom'>,
  engine: Database['engine'],
  { kind, destination, now, limit }: LeaseRequest,
) {
  return db
    .selectFrom('deliveries')
    .select('id')
    .where('kind', '=', kind)
    .where('destination', '=', destination)
    .where('status', '=', queued)
    .where('next_attempt_at', '<=', now)
    .orderBy('next_attempt_at')
    .orderBy('id')
    .limit(limit)
    .$if(engine === 'postgres', (query) => query.forUpdate().skipLocked());
}

/** Rows with their payloads, in the same order. */
export async function payloadsOf(
  queries: Queries,
  rows: readonly Omit<LeasedRow, 'payload'>[],
): Promise<LeasedRow[]> {
  if (rows.length === 0) return [];
  const found = await queries
    .selectFrom('delivery_payloads')
    .selectAll()
    .where(
      'delivery_id',
      'in',
      rows.map(({ id }) => id),
    )
    .execute();
  const payloads = new Map(found.map(({ delivery_id, payload }) => [delivery_id, payload]));
  return rows.map((row) => ({ ...row, payload: payloads.get(row.id) ?? '' }));
}

async function findNextDue(
  tx: Queries,
  { kind, destination }: LeaseRequest,
): Promise<number | undefined> {
  const next = await tx
    .selectFrom('deliveries')
    .select('next_attempt_at')
    .where('kind', '=', kind)
    .where('destination', '=', destination)
    .where('status', '=', queued)
    // Leased rows stand in the index, too, but they are few: what is under way here and elsewhere.
    .where('lease_owner', 'is', null)
    .orderBy('next_attempt_at')
    .limit(1)
    .executeTakeFirst();
  return next?.next_attempt_at;
}

/** Moves the end of the leases that the owner still has. */
export async function renewLeases(
  database: Database,
  owner: string,
  ids: readonly number[],
  until: number,
): Promise<void> {
  for (let at = 0; at < ids.length; at += IDS_AT_A_TIME) {
    await database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ next_attempt_at: until })
        .where('id', 'in', ids.slice(at, at + IDS_AT_A_TIME))
        .where('lease_owner', '=', owner)
        .execute(),
    );
  }
}

/** Gives leases back: the rows can be taken at once, as if nothing had been tried. */
export async function releaseLeases(
  database: Database,
  owner: string,
  ids: readonly number[],
  now: number,
): Promise<void> {
  for (let at = 0; at < ids.length; at += IDS_AT_A_TIME) {
    await database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ lease_owner: null, next_attempt_at: now, updated_at: now })
        .where('id', 'in', ids.slice(at, at + IDS_AT_A_TIME))
        .where('lease_owner', '=', owner)
        .execute(),
    );
  }
}

/** Ends all leases of a kind, where their holders cannot be alive. */
export async function endLeases(database: Database, kind: string, now: number): Promise<void> {
  await database.write((tx) =>
    tx
      .updateTable('deliveries')
      .set({ lease_owner: null, next_attempt_at: now, updated_at: now })
      .where('kind', '=', kind)
      .where('status', '=', queued)
      .where('lease_owner', 'is not', null)
      .execute(),
  );
}

/** Makes due now what waits for an instant after `latest`, which no schedule can have given it. */
export async function recallStranded(
  database: Database,
  kind: string,
  now: number,
  latest: number,
): Promise<void> {
  const stranded = (queries: Pick<Queries, 'selectFrom'>) =>
    queries
      .selectFrom('deliveries')
      .select('id')
      .where('kind', '=', kind)
      .where('status', '=', queued)
      .where('next_attempt_at', '>', latest);
  // A look first: nearly always there is nothing to write.
  if (!(await stranded(database.read).limit(1).executeTakeFirst())) return;
  await database.write((tx) =>
    tx
      .updateTable('deliveries')
      .set({ lease_owner: null, next_attempt_at: now, updated_at: now })
      .where('id', 'in', stranded(tx))
      .execute(),
  );
}

/** What an attempt leaves in the row. */
export interface RowOutcome {
  readonly status: DeliveryStatus;
  readonly attempts: number;
  readonly error?: DeliveryError;
  /** The first attempt of the delivery ended; left out where that is known or not so. */
  readonly attemptedAt?: number;
  /** Of a delivery that stays queued. */
  readonly nextAttemptAt?: number;
  readonly now: number;
}

/**
 * Writes the outcome of an attempt and ends the lease.
 *
 * @returns false where the lease is not the owner's any more: then nothing is changed
 */
export async function writeOutcome(
  tx: Queries,
  owner: string,
  id: number,
  { status, attempts, error, attemptedAt, nextAttemptAt, now }: RowOutcome,
): Promise<boolean> {
  const row = await tx
    .updateTable('deliveries')
    .set({
      status,
      attempts,
      lease_owner: null,
      next_attempt_at: nextAttemptAt ?? now,
      updated_at: now,
      finished_at: status === 'queued' || status === 'held' ? null : now,
      ...(error ? { last_error: errorToJson(error) } : {}),
      ...(attemptedAt === undefined ? {} : { attempted_at: attemptedAt }),
    })
    .where('id', '=', id)
    .where('lease_owner', '=', owner)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}
