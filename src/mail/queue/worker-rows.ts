/** The workers' queries on `deliveries`: waiting lanes, leases, outcomes. */
import { sql } from 'kysely';
import type { Database, Engine, Queries } from '../../platform/database/database.ts';
import type { Trace } from '../trace/trace.ts';
import { lockSuspended, traceOrder } from './bulk.ts';
import {
  type DeliveryError,
  type DeliveryStatus,
  errorToJson,
  type JobFacts,
  nameRecipients,
} from './delivery.ts';
import type { Lane } from './lanes.ts';
import { userOf } from './parties.ts';
import type { WorkOptions } from './work-options.ts';

/** A literal: the planner uses a partial index only where it knows the value when it plans the query. */
const queued = sql.lit('queued' as const);

/** Ids in one statement: both engines bound the number of parameters. */
const IDS_AT_A_TIME = 500;

export interface LeasedRow {
  readonly id: number;
  readonly public_id: string;
  readonly domain_id: number;
  readonly sender: string;
  readonly destination: string;
  readonly body_id: number;
  readonly attempts: number;
  readonly replays: number;
  readonly attempted_at: number | null;
  readonly created_at: number;
  readonly mail_id: string | null;
  readonly recipient: string | null;
  readonly payload: string;
}

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
export interface LanePlace {
  readonly sender: string;
  readonly destination: string | null;
}

interface LeaseRequest extends Lane {
  readonly kind: string;
  readonly owner: string;
  readonly now: number;
  readonly until: number;
  readonly limit: number;
  readonly trace?: Pick<Trace, 'write'> | undefined;
  readonly recipientsOf?: WorkOptions['recipientsOf'];
}

interface Lease {
  readonly rows: readonly LeasedRow[];
  /** When the next row that is not leased is due; undefined where there is none, or it was not read. */
  readonly nextDue: number | undefined;
}

/**
 * Lanes of a kind with queued rows, in the order of their names: one step in the index for each, however many rows it has.
 *
 * @param after also read, where it has rows
 */
export async function findWaiting(
  queries: Queries,
  kind: string,
  after: LanePlace,
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
  request: Pick<LeaseRequest, 'kind' | keyof Lane | 'now' | 'limit'>,
): Promise<number> {
  const due = selectWaiting(queries, request).where('next_attempt_at', '<=', request.now);
  return (await due.limit(request.limit).execute()).length;
}

/**
 * Leases the due rows of one lane, the longest due first. A row that another worker has locked is skipped.
 * Where nothing is due, nothing is written. Rows of a suspended domain are held instead of leased, however they came
 * to be queued: so none is attempted.
 */
export async function leaseRows(database: Database, request: LeaseRequest): Promise<Lease> {
  const { owner, now, until, limit } = request;
  const [first] = await selectWaiting(database.read, request).limit(1).execute();
  if (!first || first.next_attempt_at > now) {
    return { rows: [], nextDue: await findNextDue(database.read, request) };
  }
  return database.write(async (tx) => {
    const leased = await tx
      .with('due', (db) =>
        selectWaiting(db, request)
          .where('next_attempt_at', '<=', now)
          .limit(limit)
          .$if(database.engine === 'postgres', (query) => query.forUpdate().skipLocked()),
      )
      .updateTable('deliveries')
      .set({ lease_owner: owner, next_attempt_at: until, updated_at: now })
      .where('id', 'in', (eb) => eb.selectFrom('due').select('due.id'))
      .returning(rowColumns)
      .returning((eb) =>
        eb
          .selectFrom('domains')
          .select('suspended_at')
          .whereRef('domains.id', '=', 'deliveries.domain_id')
          .as('suspended_at'),
      )
      .execute();
    const open = await holdSuspended(tx, database.engine, leased, request);
    const rows = await payloadsOf(
      tx,
      open.sort((a, b) => a.id - b.id),
    );
    return { rows, nextDue: rows.length < limit ? await findNextDue(tx, request) : undefined };
  });
}

type RowWithoutPayload = Omit<LeasedRow, 'payload'>;

/** Holds those of the rows whose domain is suspended. @returns the others */
async function holdSuspended(
  tx: Queries,
  engine: Engine,
  leased: readonly (RowWithoutPayload & { readonly suspended_at: number | null })[],
  { kind, now, trace, recipientsOf }: LeaseRequest,
): Promise<RowWithoutPayload[]> {
  const ofSuspended = leased.filter(({ suspended_at }) => suspended_at !== null);
  if (ofSuspended.length === 0) return [...leased];
  // Locked, and read again: its suspension may end at this moment.
  const domainIds = new Set(ofSuspended.map(({ domain_id }) => domain_id));
  const suspended = new Set(await lockSuspended(tx, engine, [...domainIds]));
  const isHeld = ({ domain_id }: RowWithoutPayload) => suspended.has(domain_id);
  const held = leased.filter(isHeld);
  if (held.length > 0) {
    const ids = held.map(({ id }) => id);
    const state = { status: 'held', held_by: 'suspension' } as const;
    await tx
      .updateTable('deliveries')
      .set({ ...state, lease_owner: null, next_attempt_at: now })
      .where('id', 'in', ids)
      .execute();
    const rows = held.map((row) => ({ ...row, kind }));
    const ordered = { action: 'hold', rows, by: 'the suspension of its domain' } as const;
    if (trace) await traceOrder(tx, trace, () => recipientsOf, ordered);
  }
  return leased.filter((row) => !isHeld(row));
}

/** Queued rows of a lane, the longest due first; a leased row is due at the end of its lease. */
function selectWaiting(
  queries: Pick<Queries, 'selectFrom'>,
  { kind, sender, destination }: Pick<LeaseRequest, 'kind' | keyof Lane>,
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

/** Rows with their payloads, in the same order. */
export async function payloadsOf(
  queries: Queries,
  rows: readonly RowWithoutPayload[],
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

async function findNextDue(queries: Queries, request: LeaseRequest): Promise<number | undefined> {
  // Leased rows are in the index, too, but they are few: those that are under way here and on other nodes.
  const next = await selectWaiting(queries, request)
    .where('lease_owner', 'is', null)
    .limit(1)
    .executeTakeFirst();
  return next?.next_attempt_at;
}

/** Extends the leases that the owner still has. */
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

/** Releases leases, as if nothing had been tried. @param due when the rows can be leased again */
export async function releaseLeases(
  database: Database,
  owner: string,
  ids: readonly number[],
  now: number,
  due = now,
): Promise<void> {
  for (let at = 0; at < ids.length; at += IDS_AT_A_TIME) {
    await database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ lease_owner: null, next_attempt_at: due, updated_at: now })
        .where('id', 'in', ids.slice(at, at + IDS_AT_A_TIME))
        .where('lease_owner', '=', owner)
        .execute(),
    );
  }
}

/** Ends all leases of a kind, where their holders cannot be running. */
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

/**
 * Corrects rows that were written while the clock was ahead: a wait of an hour stays an hour, and a lease ends no later
 * than one that begins now. A row that was never attempted and was queued for a later instant keeps that instant.
 *
 * @param leaseMs how long a lease runs
 */
export async function keepWaits(
  database: Database,
  kind: string,
  now: number,
  leaseMs: number,
): Promise<void> {
  const ahead = (queries: Pick<Queries, 'selectFrom'>) =>
    queries
      .selectFrom('deliveries')
      .select('id')
      .where('kind', '=', kind)
      .where('status', '=', queued)
      .where('next_attempt_at', '>', now)
      .where((eb) =>
        eb.or([
          eb('lease_owner', 'is not', null).and('next_attempt_at', '>', now + leaseMs),
          eb('lease_owner', 'is', null)
            .and('updated_at', '>', now)
            .and(eb.or([eb('attempts', '>', 0), eb('next_attempt_at', '=', eb.ref('updated_at'))])),
        ]),
      );
  // Read first: nearly always there is nothing to write.
  if (!(await ahead(database.read).limit(1).executeTakeFirst())) return;
  await database.write((tx) =>
    tx
      .updateTable('deliveries')
      .set((eb) => ({
        next_attempt_at: eb
          .case()
          .when('lease_owner', 'is', null)
          .then(eb(eb.val(now), '+', eb('next_attempt_at', '-', eb.ref('updated_at'))))
          .else(now + leaseMs)
          .end(),
        updated_at: now,
      }))
      .where('id', 'in', ahead(tx))
      .execute(),
  );
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
      ...(recipients && { recipient: nameRecipients(recipients) }),
    })
    .where('id', '=', id)
    .where('lease_owner', '=', owner)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}
