/** Deliveries that were not delivered, state by state in the order of their time; and deliveries by their ids. */
import { sql } from 'kysely';
import { chunks, type Queries } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Delivery, errorFromJson } from './delivery.ts';
import { hasPayload, toDelivery } from './operator-rows.ts';
import type { OpenState } from './queue-filter.ts';

export interface StateRequest {
  readonly state: OpenState;
  /** Of one claim; by default of all. */
  readonly domainId?: number | undefined;
  /** Only those that come after it, by time and id. */
  readonly after: { readonly at: EpochMs; readonly id: number } | undefined;
  readonly limit: number;
}

interface UndeliveredRequest extends StateRequest {
  /** When they were queued. */
  readonly since?: EpochMs | undefined;
  /** The same, not included. */
  readonly until?: EpochMs | undefined;
  /** Whether the errors are read, too: of thousands of rows they take longer than all else. */
  readonly hasErrors: boolean;
}

/** What the index names, and what decides whether it is meant. */
export interface Undelivered extends Pick<Delivery, 'id' | 'createdAt' | 'attempts' | 'lastError'> {
  readonly mailId: string | undefined;
  readonly dueAt: EpochMs;
}

export async function readUndelivered(
  queries: Queries,
  request: UndeliveredRequest,
): Promise<Undelivered[]> {
  const { since, until, hasErrors } = request;
  let query = inOrder(queries, request, 'desc')
    .select(['id', 'mail_id as mailId', 'created_at as createdAt', 'attempts'])
    .select(['next_attempt_at as dueAt', 'last_error']);
  if (since !== undefined) query = query.where('created_at', '>=', since);
  if (until !== undefined) query = query.where('created_at', '<', until);
  const rows = await query.execute();
  return rows.map(({ last_error: error, ...row }) => ({
    ...row,
    mailId: row.mailId ?? undefined,
    ...(hasErrors && error !== null && { lastError: errorFromJson(error) }),
  }));
}

/** By `deliveries_undelivered` in the order of time and id, or of one claim by `deliveries_by_status` in that of ids. */
export function inOrder(
  queries: Queries,
  { state, domainId, after, limit }: StateRequest,
  order: 'asc' | 'desc',
) {
  const is = order === 'asc' ? '>' : '<';
  const query = queries.selectFrom('deliveries').where('status', '=', state).limit(limit);
  if (domainId !== undefined) {
    const own = query.where('domain_id', '=', domainId).orderBy('id', order);
    return after ? own.where('id', is, after.id) : own;
  }
  // A partial index is used only where its condition is in the query.
  const all = query
    .where('status', '<>', sql.lit('delivered' as const))
    .orderBy('created_at', order)
    .orderBy('id', order);
  if (!after) return all;
  return all.where((eb) => eb(eb.refTuple('created_at', 'id'), is, eb.tuple(after.at, after.id)));
}

/** A delivery with what decides which actions it allows. */
export interface KnownDelivery extends Delivery {
  readonly domainId: number;
  /** Whether an attempt is under way. */
  readonly isTried: boolean;
  /** Whether its message is still kept for another attempt. */
  readonly isKept: boolean;
  /** When the attempt under way counts as lost, or the next one comes. */
  readonly dueAt: EpochMs;
}

export async function readKnown(
  queries: Queries,
  ids: readonly number[],
): Promise<KnownDelivery[]> {
  const known: KnownDelivery[] = [];
  for (const some of chunks(ids)) {
    const rows = await queries
      .selectFrom('deliveries')
      .selectAll()
      .select(hasPayload.as('is_kept'))
      .where('id', 'in', some)
      .execute();
    for (const row of rows) {
      known.push({
        ...toDelivery(row),
        domainId: row.domain_id,
        isTried: row.lease_owner !== null,
        isKept: Boolean(row.is_kept),
        dueAt: row.next_attempt_at,
      });
    }
  }
  return known;
}
