/**
 * Deliveries that were not delivered, in the order of the index `deliveries_by_receiver`: by receiver, domain, kind,
 * state and id. They are read from the index alone, and from any position in it at the same cost.
 */
import { type RawBuilder, sql } from 'kysely';
import type { Queries, Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** Where a delivery is in the index. */
export type OpenKey = Pick<
  Row<'deliveries'>,
  'destination' | 'domain_id' | 'kind' | 'status' | 'id'
>;

/** States of what operators see in the queue: `queued` waits for its next attempt. */
export type OpenState = 'queued' | 'held' | 'failed';
export const OPEN_STATES: readonly OpenState[] = ['queued', 'held', 'failed'];

/** Which deliveries are meant; a field that is left out matches all. */
export interface QueueFilter {
  readonly ids?: readonly number[] | undefined;
  readonly destination?: string | undefined;
  readonly domainIds?: readonly number[] | undefined;
  /** Whose they are (`senderOf`); then the domains are given, too. */
  readonly senders?: readonly string[] | undefined;
  readonly kind?: string | undefined;
  readonly states?: readonly OpenState[] | undefined;
  /** A part of the receiver's name. */
  readonly receiverPart?: string | undefined;
  /** From whom the message is, in lower case. */
  readonly mailFrom?: string | undefined;
  /** A part of the reason of the last failed attempt. */
  readonly reason?: string | undefined;
  /** Only those that were queued before this instant. */
  readonly before?: EpochMs | undefined;
  /** Only those that wait for an attempt which is due by then. */
  readonly dueBefore?: EpochMs | undefined;
}

/** Whether a delivery may be meant, by what the index says of it; {@link conditionsOf} says the rest. */
export function mayFit(
  key: OpenKey,
  { destination, domainIds, kind, states: given }: QueueFilter,
  states: readonly string[] = given ?? [key.status],
): boolean {
  return (
    states.includes(key.status) &&
    (domainIds?.includes(key.domain_id) ?? true) &&
    key.destination === (destination ?? key.destination) &&
    key.kind === (kind ?? key.kind)
  );
}

/** What a row has to be like for a filter, but for its id and state. */
export function conditionsOf(filter: QueueFilter): RawBuilder<boolean>[] {
  const { destination, receiverPart, kind, domainIds, senders, mailFrom, reason } = filter;
  const { before, dueBefore } = filter;
  const conditions = [
    destination !== undefined && sql<boolean>`destination = ${destination}`,
    receiverPart !== undefined && contains('destination', receiverPart),
    kind !== undefined && sql<boolean>`kind = ${kind}`,
    domainIds !== undefined && isAmong('domain_id', domainIds),
    senders !== undefined && isAmong('sender', senders),
    mailFrom !== undefined && sql<boolean>`mail_from = ${mailFrom}`,
    reason !== undefined && contains('reason', reason),
    before !== undefined && sql<boolean>`created_at < ${before}`,
    // What is held or has failed is never due.
    dueBefore !== undefined &&
      sql<boolean>`status = ${sql.lit('queued')} and next_attempt_at <= ${dueBefore}`,
  ];
  return conditions.filter((one) => one !== false);
}

export const isAmong = (column: string, values: readonly (string | number)[]) =>
  values.length === 0
    ? sql<boolean>`1 = 0`
    : sql<boolean>`${sql.ref(column)} in (${sql.join(values)})`;

const contains = (column: string, part: string) =>
  sql<boolean>`lower(${sql.ref(column)}) like ${`%${part.toLowerCase().replaceAll(/[\\%_]/g, '\\$&')}%`} escape '\\'`;

/** Whether a filter asks for more than the index can be searched by. */
export const needsRows = (filter: QueueFilter): boolean =>
  [
    filter.senders,
    filter.receiverPart,
    filter.mailFrom,
    filter.reason,
    filter.before,
    filter.dueBefore,
  ].some((one) => one !== undefined);

/** A receiver, and one claim of those that have mail for it. */
export interface Receiver {
  readonly destination: string;
  readonly domainId?: number | undefined;
}

type Position = Pick<OpenKey, 'destination' | 'domain_id' | 'kind'> & { readonly status: string };

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

/** The position after all keys that differ from this one only by their id. */
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
export function behindQuery(queries: Queries, request: KeyRequest, after: Position | undefined) {
  const query = keyQuery(queries, request);
  if (!after) return query;
  // A column with a fixed value is left out: SQLite would seek only by it, and read all the others.
  const { destination, domainId } = request.receiver ?? {};
  const given = [destination, domainId].filter((one) => one !== undefined).length;
  const free = names.slice(given);
  const columns = sql.join(free.map((name) => sql.ref(name)));
  const position = { ...after, status: edgeOf(after.status, request.order) };
  const values = sql.join(free.map((name) => position[name]));
  return query.where(sql<boolean>`(${columns}) ${operators[request.order]} (${values})`);
}

/**
 * A position between the states of a key and of the next one. SQLite seeks by several columns with "less or equal", and
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
