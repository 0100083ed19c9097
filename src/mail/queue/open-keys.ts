/**
 * Deliveries that were not delivered, in the order of the index `deliveries_by_receiver`: by receiver, domain, kind,
 * state and id. They are read from the index alone, and from any place in it at the same cost.
 */
import { sql } from 'kysely';
import type { Queries, Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** Where a delivery is in the index. */
export type OpenKey = Pick<
  Row<'deliveries'>,
  'destination' | 'domain_id' | 'kind' | 'status' | 'id'
>;

/** States of what operators see in the queue: `queued` waits for its next attempt. */
export type OpenState = 'queued' | 'held' | 'failed';

/** Which deliveries are meant; a field that is left out matches all. */
export interface QueueFilter {
  readonly ids?: readonly number[] | undefined;
  readonly destination?: string | undefined;
  readonly domainIds?: readonly number[] | undefined;
  /** Whose they are (`senderOf`); then the domains are given, too. */
  readonly senders?: readonly string[] | undefined;
  readonly kind?: string | undefined;
  readonly state?: OpenState | undefined;
  /** Only those that were queued before this instant. */
  readonly before?: EpochMs | undefined;
}

/** Whether a delivery is among those that are meant, by what the index says of it; `before` and `senders` are not looked at. */
export function fits(
  key: OpenKey,
  { ids, destination, domainIds, kind, state }: QueueFilter,
  states: readonly string[] = state === undefined ? [key.status] : [state],
): boolean {
  return (
    states.includes(key.status) &&
    (ids?.includes(key.id) ?? true) &&
    (domainIds?.includes(key.domain_id) ?? true) &&
    key.destination === (destination ?? key.destination) &&
    key.kind === (kind ?? key.kind)
  );
}

/** A receiver, and one claim of those that have mail for it. */
export interface Receiver {
  readonly destination: string;
  readonly domainId?: number | undefined;
}

type Place = Pick<OpenKey, 'destination' | 'domain_id' | 'kind'> & { readonly status: string };

interface KeyRequest {
  /** By default all of them. */
  readonly receiver?: Receiver | undefined;
  readonly after?: OpenKey | undefined;
  readonly order: 'asc' | 'desc';
  readonly limit: number;
}

const names = ['destination', 'domain_id', 'kind', 'status'] as const;

/** Reads the keys after one, in either order. */
export async function readKeys(queries: Queries, request: KeyRequest): Promise<OpenKey[]> {
  const { after, limit } = request;
  const rest = after ? await restQuery(queries, request, after).execute() : [];
  if (rest.length === limit) return rest;
  const left = limit - rest.length;
  return [...rest, ...(await behindQuery(queries, { ...request, limit: left }, after).execute())];
}

/** The place after all keys that differ from this one only by their id. */
export function pastStateOf(key: OpenKey, order: 'asc' | 'desc'): OpenKey {
  return { ...key, id: order === 'asc' ? Number.MAX_SAFE_INTEGER : 0 };
}

/** Those that differ from the key only by their id: SQLite seeks by the id only where all before it is equal. */
export function restQuery(queries: Queries, request: KeyRequest, after: OpenKey) {
  return keyQuery(queries, request)
    .where('destination', '=', after.destination)
    .where('domain_id', '=', after.domain_id)
    .where('kind', '=', after.kind)
    .where('status', '=', after.status)
    .where('id', request.order === 'asc' ? '>' : '<', after.id);
}

/** Those after the key that differ from it by more than the id. */
export function behindQuery(queries: Queries, request: KeyRequest, after: Place | undefined) {
  const query = keyQuery(queries, request);
  if (!after) return query;
  // A column with a fixed value is left out: SQLite would seek only by it, and read all the others.
  const { destination, domainId } = request.receiver ?? {};
  const given = [destination, domainId].filter((one) => one !== undefined).length;
  const free = names.slice(given);
  const columns = sql.join(free.map((name) => sql.ref(name)));
  const place = { ...after, status: edgeOf(after.status, request.order) };
  const values = sql.join(free.map((name) => place[name]));
  return query.where(sql<boolean>`(${columns}) ${operators[request.order]} (${values})`);
}

/**
 * A place between the states of a key and of the next one. SQLite seeks by several columns with "less or equal", and
 * would read all deliveries that have the same names as the key.
 */
function edgeOf(status: string, order: 'asc' | 'desc'): string {
  return order === 'asc' ? `${status}~` : (edgesBelow[status] ?? '');
}

const edgesBelow: Readonly<Record<string, string>> = { queued: 'held~', held: 'failed~' };

const operators = { asc: sql.raw('>'), desc: sql.raw('<') };

function keyQuery(queries: Queries, { receiver, order, limit }: KeyRequest) {
  let query = queries
    .selectFrom('deliveries')
    .select([...names, 'id'])
    // A partial index is used only where its condition is in the query.
    .where('status', '<>', sql.lit('delivered' as const));
  if (receiver) query = query.where('destination', '=', receiver.destination);
  if (receiver?.domainId !== undefined) query = query.where('domain_id', '=', receiver.domainId);
  for (const name of [...names, 'id'] as const) query = query.orderBy(name, order);
  return query.limit(limit);
}
