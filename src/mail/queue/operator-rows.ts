/** The operators' queries on `deliveries`: list, retry, and remove ended ones. */
import { sql } from 'kysely';
import {
  countUpTo,
  type IdPage,
  pageById,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  type Delivery,
  type DeliveryStatus,
  errorFromJson,
  type StoredLocation,
  writeError,
} from './delivery.ts';

/** Rows that are removed in one transaction. */
const REMOVED_AT_A_TIME = 200;

export interface ListRequest extends IdPage {
  readonly domainId: number;
  readonly status?: DeliveryStatus | undefined;
  readonly publicId?: string | undefined;
}

export async function listRows(
  queries: Queries,
  { domainId, status, publicId, ...page }: ListRequest,
): Promise<Delivery[]> {
  const deliveries = queries
    .selectFrom('deliveries')
    .selectAll()
    .where('domain_id', '=', domainId)
    .$if(status !== undefined, (query) => query.where('status', '=', status ?? 'queued'))
    .$if(publicId !== undefined, (query) => query.where('public_id', '=', publicId ?? ''));
  return (await pageById(deliveries, page).execute()).map(toDelivery);
}

/** How many deliveries a domain has; `most` stands for as many or more. */
export function countDeliveries(
  queries: Queries,
  { domainId, status }: Pick<ListRequest, 'domainId' | 'status'>,
  most: number,
): Promise<number> {
  const deliveries = queries
    .selectFrom('deliveries')
    .select('id')
    .where('domain_id', '=', domainId)
    .$if(status !== undefined, (query) => query.where('status', '=', status ?? 'queued'));
  return countUpTo(queries, deliveries, most);
}

export async function findRow(
  queries: Queries,
  domainId: number,
  id: number,
): Promise<Delivery | undefined> {
  const row = await queries
    .selectFrom('deliveries')
    .selectAll()
    .where('id', '=', id)
    .where('domain_id', '=', domainId)
    .executeTakeFirst();
  return row && toDelivery(row);
}

/** Our id of a delivery's message, by the delivery's id or public id. */
export async function findMailId(queries: Queries, delivery: string): Promise<string | undefined> {
  const query = queries.selectFrom('deliveries').select('mail_id');
  const row = await (/^\d{1,15}$/.test(delivery)
    ? query.where('id', '=', Number(delivery))
    : query.where('public_id', '=', delivery)
  ).executeTakeFirst();
  return row?.mail_id ?? undefined;
}

/** The body of a delivery by its public id, ended or not; undefined where there is none. */
export async function findBodyOf(queries: Queries, publicId: string): Promise<number | undefined> {
  const row = await queries
    .selectFrom('deliveries')
    .select('body_id')
    .where('public_id', '=', publicId)
    .executeTakeFirst();
  return row?.body_id;
}

/** Counts the deliveries of a domain that have not ended. */
export async function countOpenDeliveries(queries: Queries, domainId: number): Promise<number> {
  const { count } = await queries
    .selectFrom('deliveries')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('domain_id', '=', domainId)
    .where('status', 'in', ['queued', 'held'])
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** A delivery whose retry was requested. */
interface Requeued {
  readonly delivery: Delivery;
  /** The row as it is queued; absent while an attempt is under way, which continues. */
  readonly row?: Row<'deliveries'>;
}

/** Whether the data for an attempt of a delivery is still stored. */
export const hasPayload = sql<boolean>`exists (
  select 1 from delivery_payloads where delivery_payloads.delivery_id = deliveries.id)`;

/** What an operator's drop writes as the last error. */
const DROPPED = writeError({ text: 'dropped by an operator: nobody is told of it' });

/** A drop ends a delivery without the usual consequences: no copy is stored, and no bounce is sent. */
export const dropped = { status: 'failed', ...DROPPED } as const;

/**
 * The replay count of a row after a retry. What follows the end of a delivery is not done again at the end of a
 * replay. A drop did nothing of it, so the retry of a dropped delivery is no replay.
 */
const replaysOnceRetried = sql<number>`case
  when status in ('queued', 'held') or last_error = ${DROPPED.last_error} then replays else replays + 1 end`;

/** Puts a row at the start of its schedule. */
export const putBack = (now: number) =>
  ({
    status: 'queued',
    attempts: 0,
    replays: replaysOnceRetried,
    next_attempt_at: now,
    finished_at: null,
    held_by: null,
  }) as const;

/** A delivery that ended; listed in the order in which they ended. */
export interface EndedRow {
  readonly id: number;
  readonly finished_at: number;
}

/**
 * Lists deliveries that ended before an instant.
 *
 * @param after the last one that was listed
 * @returns those that still have their payload are marked; empty where no more are left
 */
export async function listEnded(
  queries: Queries,
  before: number,
  after: EndedRow,
): Promise<(EndedRow & { readonly is_kept: number })[]> {
  const { rows } = await sql<EndedRow & { is_kept: number }>`
    select id, finished_at, case when ${hasPayload} then 1 else 0 end as is_kept from deliveries
    where finished_at < ${before} and finished_at >= ${after.finished_at}
      and (finished_at, id) > (${after.finished_at}, ${after.id})
    order by finished_at, id limit ${sql.lit(REMOVED_AT_A_TIME)}`.execute(queries);
  return rows;
}

/**
 * Removes the payloads of deliveries, in the caller's transaction, which empties their bodies: they are still listed, but
 * not attempted any more.
 *
 * @returns the bodies they name; without those of deliveries that were queued again meanwhile
 */
export async function releaseDeliveries(
  tx: Queries,
  ids: readonly number[],
  before: number,
): Promise<number[]> {
  const ended = await tx
    .updateTable('deliveries')
    .set((eb) => ({ updated_at: eb.ref('updated_at') }))
    .where('id', 'in', ids)
    .where('finished_at', '<', before)
    .where('late_at', 'is', null)
    .returning(['id', 'body_id'])
    .execute();
  if (ended.length === 0) return [];
  const released = ended.map(({ id }) => id);
  await tx.deleteFrom('delivery_payloads').where('delivery_id', 'in', released).execute();
  return [...new Set(ended.map(({ body_id }) => body_id))];
}

/** Puts a row at the start of its schedule; one that is being attempted is not changed. */
export async function requeueRow(
  tx: Queries,
  domainId: number,
  id: number,
  now: number,
): Promise<Requeued | undefined> {
  if (!Number.isSafeInteger(id)) return undefined;
  const row = await tx
    .updateTable('deliveries')
    .set({ ...putBack(now), updated_at: now })
    .where('id', '=', id)
    .where('domain_id', '=', domainId)
    .where('lease_owner', 'is', null)
    .where(hasPayload)
    .returningAll()
    .executeTakeFirst();
  if (row) return { delivery: toDelivery(row), row };
  const leased = await findRow(tx, domainId, id);
  if (leased?.finishedAt !== undefined) {
    const released = 'what it delivers is not kept any more (DELIVERY_BODY_HOURS)';
    throw new Refusal('delivery_released', released);
  }
  return leased && { delivery: leased };
}

/**
 * Removes some deliveries that ended before an instant, in the caller's transaction, which releases their bodies.
 *
 * @returns the bodies they named; empty where no such row is left
 */
export async function pruneDeliveries(tx: Queries, before: number): Promise<number[]> {
  const old = tx
    .selectFrom('deliveries')
    .select('id')
    .where('finished_at', '<', before)
    .orderBy('finished_at')
    .limit(REMOVED_AT_A_TIME);
  const removal = tx.deleteFrom('deliveries').where('id', 'in', old);
  // A row that is being retried at this moment is left alone.
  const rows = await removal.where('finished_at', '<', before).returning('body_id').execute();
  return rows.map(({ body_id }) => body_id);
}

/** Deliveries that are removed. */
export interface RemovedDeliveries {
  /** 0 where none is left: another node may have removed some of those that were found. */
  readonly found: number;
  /** The bodies that those named which were removed here. */
  readonly bodyIds: number[];
}

/**
 * The same for the deliveries of a deleted domain, whatever their state, first those that still wait (the states are in
 * the order of their names).
 */
export async function removeDeliveriesOf(
  tx: Queries,
  domainId: number,
): Promise<RemovedDeliveries> {
  const found = tx.selectFrom('deliveries').select('id').where('domain_id', '=', domainId);
  const some = await found.orderBy('status', 'desc').limit(REMOVED_AT_A_TIME).execute();
  if (some.length === 0) return { found: 0, bodyIds: [] };
  const ids = some.map(({ id }) => id);
  const removal = tx.deleteFrom('deliveries').where('id', 'in', ids).returning('body_id');
  const removed = await removal.execute();
  return { found: ids.length, bodyIds: removed.map(({ body_id }) => body_id) };
}

/** The deliveries of one kind in one state. */
export interface QueueDepth {
  readonly kind: string;
  readonly state: 'queued' | 'held';
  readonly count: number;
  /** When the oldest of them was queued first. */
  readonly oldestCreatedAt: EpochMs;
  /** When the next of them is due; for one that is being attempted, when its lease ends. */
  readonly nextAttemptAt: number;
}

/** The open deliveries of each kind; reads the index of all open ones, and one row for each kind. */
export async function readDepths(queries: Queries): Promise<QueueDepth[]> {
  const counted = await queries
    .selectFrom('deliveries')
    .where('finished_at', 'is', null)
    .groupBy(['kind', 'status'])
    .select((eb) => [
      'kind',
      'status',
      eb.fn.countAll<number>().as('count'),
      eb.fn.min('id').as('oldest'),
      eb.fn.min('next_attempt_at').as('nextAttemptAt'),
    ])
    .execute();
  if (counted.length === 0) return [];
  const oldest = await queries
    .selectFrom('deliveries')
    .select(['id', 'created_at'])
    .where(
      'id',
      'in',
      counted.map((kind) => kind.oldest),
    )
    .execute();
  const createdAt = new Map(oldest.map(({ id, created_at }) => [id, created_at]));
  return counted.flatMap(({ kind, status, count, oldest: id, nextAttemptAt }) => {
    const oldestCreatedAt = createdAt.get(id);
    if (oldestCreatedAt === undefined) return [];
    const state = status === 'held' ? 'held' : 'queued';
    return [{ kind, state, count, oldestCreatedAt, nextAttemptAt }];
  });
}

export function toDelivery(row: Row<'deliveries'>): Delivery {
  return {
    id: row.id,
    publicId: row.public_id,
    kind: row.kind,
    destination: row.destination,
    status: row.status,
    attempts: row.attempts,
    ...(row.last_error === null ? {} : { lastError: errorFromJson(row.last_error) }),
    ...(row.status === 'queued' && row.lease_owner === null
      ? { nextAttemptAt: row.next_attempt_at }
      : {}),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    ...(row.finished_at === null ? {} : { finishedAt: row.finished_at }),
    ...(row.message_id === null ? {} : { messageId: row.message_id }),
    ...(row.subject === null ? {} : { subject: row.subject }),
    ...(row.stored === null ? {} : { stored: JSON.parse(row.stored) as StoredLocation[] }),
    ...(row.mail_id !== null && { mailId: row.mail_id }),
    ...(row.recipient !== null && { recipient: row.recipient }),
    ...(row.held_by !== null && { heldBy: row.held_by }),
    ...(row.mail_from !== null && { mailFrom: row.mail_from }),
    ...(row.url !== null && { url: row.url }),
  };
}

/* What waits for one party, a domain or an event hook, changed at once: only where no more than some thousand do. */

/** Rows that wait, and are not being attempted. */
const waitingStates = ['queued', 'held'] as const;

/** Gives what waits another receiver; after the commit {@link Queue.wake}. An attempt that is under way ends where it began. */
export async function redirectDeliveries(
  tx: Queries,
  domainId: number,
  to: { readonly destination: string; readonly url: string },
): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set(to)
    .where('domain_id', '=', domainId)
    .where('url', '!=', to.url)
    .where('status', 'in', waitingStates)
    .where('lease_owner', 'is', null)
    .execute();
}

/** Makes deliveries due now that wait after a failure, first those that are due next; they have one attempt more in all. */
export function hastenRows(
  tx: Queries,
  domainId: number,
  { most, now }: { readonly most: number; readonly now: EpochMs },
): Promise<Pick<Row<'deliveries'>, 'id' | 'kind' | 'sender' | 'destination'>[]> {
  const waiting = tx
    .selectFrom('deliveries')
    .select('id')
    .where('domain_id', '=', domainId)
    .where('status', '=', 'queued')
    .where('lease_owner', 'is', null)
    .where('attempts', '>', 0)
    .where('next_attempt_at', '>', now)
    .orderBy('next_attempt_at')
    .limit(most);
  return tx
    .updateTable('deliveries')
    .set(({ eb }) => ({ next_attempt_at: now, attempts: eb('attempts', '-', 1) }))
    .where('id', 'in', waiting)
    .where('status', '=', 'queued')
    .where('lease_owner', 'is', null)
    .returning(['id', 'kind', 'sender', 'destination'])
    .execute();
}

/** Removes what waits. @returns the bodies that it named */
export async function withdrawDeliveries(tx: Queries, domainId: number): Promise<number[]> {
  const rows = await tx
    .deleteFrom('deliveries')
    .where('domain_id', '=', domainId)
    .where('status', 'in', waitingStates)
    .where('lease_owner', 'is', null)
    .returning('body_id')
    .execute();
  return [...new Set(rows.map(({ body_id }) => body_id))];
}

/** Those of some public ids that have a row. */
export async function findQueued(tx: Queries, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await tx
    .selectFrom('deliveries')
    .select('public_id')
    .where('public_id', 'in', ids)
    .execute();
  return new Set(rows.map(({ public_id }) => public_id));
}
