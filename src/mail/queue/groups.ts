/** The queue as operators see it: waiting and failed deliveries by receiver, domain and kind. */
import { sql } from 'kysely';
import type { Queries, ReadDatabase } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Delivery, type DeliveryError, errorFromJson } from './delivery.ts';
import {
  behindQuery,
  mayFit,
  needsRows,
  OPEN_STATES,
  type OpenKey,
  type OpenState,
  pastStateOf,
  type QueueFilter,
  readKeys,
} from './open-keys.ts';
import { toDelivery } from './operator-rows.ts';
import { findNewest } from './receivers.ts';

/** Deliveries of one kind and domain that have one receiver. */
export interface QueueGroup extends GroupKey {
  /** Up to {@link COUNTED_MAX}, which stands for as many or more. */
  readonly counts: Readonly<Record<OpenState, number>>;
  /** When the next of them is due; absent where none waits. */
  readonly oldestDueAt?: EpochMs;
  readonly lastError?: DeliveryError;
}

export interface GroupKey {
  readonly destination: string;
  readonly domainId: number;
  readonly kind: string;
}

/** The most deliveries that are counted for each state. */
const COUNTED_MAX = 10_000;
/** Groups of which those are chosen that have a state. */
const GROUPS_MAX = 250;
/** Keys that are read at once; then the rest of a larger group is skipped. */
const KEYS_READ = 300;
/** The most reads, where most groups do not match. */
const READS_MAX = 30;
export type GroupFilter = Pick<QueueFilter, 'destination' | 'domainIds' | 'kind'> & {
  readonly state?: OpenState | undefined;
};

/**
 * Lists groups in the order of destination, domain and kind. However many deliveries a group has, few are read. For
 * filters that match hardly any group, a page may be shorter than requested, with a key to continue from.
 */
export async function listGroups(
  queries: Queries,
  filter: GroupFilter,
  { after, limit }: GroupPage<GroupKey>,
): Promise<{ readonly groups: QueueGroup[]; readonly next: GroupKey | undefined }> {
  const { state } = filter;
  if (state === undefined) {
    const { firsts, next } = await findGroups(queries, filter, after, limit);
    return { groups: await countGroups(queries, firsts), next };
  }
  const found = await findGroups(queries, filter, after, GROUPS_MAX);
  const firsts = await thoseWith(queries, found.firsts, state);
  const chosen = firsts.slice(0, limit);
  const last = firsts.length > limit ? chosen.at(-1) : undefined;
  return { groups: await countGroups(queries, chosen), next: last ? keyOf(last) : found.next };
}

/** The first key of each group. */
async function findGroups(
  queries: Queries,
  { destination, domainIds, kind }: GroupFilter,
  after: GroupKey | undefined,
  limit: number,
): Promise<{ readonly firsts: OpenKey[]; readonly next: GroupKey | undefined }> {
  const firsts: OpenKey[] = [];
  let last = after;
  for (let reads = 0; reads < Math.max(READS_MAX, limit); reads++) {
    const keys = await groupsQuery(queries, destination, last).execute();
    for (const key of keys) {
      if (last && isOf(key, last)) continue;
      if (firsts.length === limit) return { firsts, next: last };
      last = keyOf(key);
      if (mayFit(key, { destination, domainIds, kind })) firsts.push(key);
    }
    if (keys.length < KEYS_READ) return { firsts, next: undefined };
    if (last && domainIds) last = beforeNextOf(domainIds, last);
  }
  return { firsts, next: last };
}

function keyOf({ destination, domain_id: domainId, kind }: OpenKey): GroupKey {
  return { destination, domainId, kind };
}

function isOf(key: OpenKey, { destination, domainId, kind }: GroupKey): boolean {
  return key.destination === destination && key.domain_id === domainId && key.kind === kind;
}

/** The key before the next groups of these claims at the destination; after the destination where there are none. */
function beforeNextOf(domainIds: readonly number[], last: GroupKey): GroupKey {
  if (domainIds.includes(last.domainId)) return last;
  const next = Math.min(...domainIds.filter((id) => id > last.domainId), Number.MAX_SAFE_INTEGER);
  return { ...last, domainId: next, kind: '' };
}

/** Keys after a group. */
function groupsQuery(
  queries: Queries,
  destination: string | undefined,
  after: GroupKey | undefined,
) {
  const receiver = destination === undefined ? undefined : { destination };
  return behindQuery(
    queries,
    { receiver, order: 'asc', limit: KEYS_READ },
    // `z` sorts after all states.
    after && { ...after, domain_id: after.domainId, status: 'z' },
  );
}

/** The deliveries of the group of `d` that are in a state. */
function ownOf(state: OpenState) {
  return sql`from deliveries c where c.status <> 'delivered' and c.status = ${sql.lit(state)}
    and c.destination = d.destination and c.domain_id = d.domain_id and c.kind = d.kind`;
}

async function thoseWith(
  queries: Queries,
  firsts: readonly OpenKey[],
  state: OpenState,
): Promise<OpenKey[]> {
  if (firsts.length === 0) return [];
  const { rows } = await sql<{ id: number }>`select d.id from deliveries d
    where d.id in (${sql.join(firsts.map(({ id }) => id))})
      and (select 1 ${ownOf(state)} limit 1) = 1`.execute(queries);
  const ids = new Set(rows.map(({ id }) => id));
  return firsts.filter(({ id }) => ids.has(id));
}

interface CountedGroup extends OpenKey {
  readonly queued: number;
  readonly held: number;
  readonly failed: number;
  readonly due: number | null;
  readonly error: string | null;
}

async function countGroups(queries: Queries, groups: readonly OpenKey[]): Promise<QueueGroup[]> {
  if (groups.length === 0) return [];
  const count = (state: OpenState) =>
    sql`(select count(*) from (select 1 ${ownOf(state)} limit ${COUNTED_MAX}) counted)`;
  const oldest = (column: 'last_error', state: OpenState) =>
    sql`(select c.${sql.ref(column)} ${ownOf(state)} order by c.id limit 1)`;
  const ids = groups.map(({ id }) => id);
  const { rows } = await sql<CountedGroup>`
    select d.id, d.destination, d.domain_id, d.kind,
      ${count('queued')} as queued, ${count('held')} as held, ${count('failed')} as failed,
      (select min(c.next_attempt_at) ${ownOf('queued')}) as due,
      coalesce(
        ${oldest('last_error', 'queued')}, ${oldest('last_error', 'held')},
        ${oldest('last_error', 'failed')}
      ) as error
    from deliveries d where d.id in (${sql.join(ids)})
    order by d.destination, d.domain_id, d.kind`.execute(queries);
  return rows.map(({ queued, held, failed, due, error, ...key }) => ({
    ...keyOf(key),
    counts: { queued, held, failed },
    ...(due !== null && { oldestDueAt: due }),
    ...(error !== null && { lastError: errorFromJson(error) }),
  }));
}

/** A delivery with the claim that it belongs to. */
export interface OpenDelivery extends Delivery {
  readonly domainId: number;
}

/** A page begins behind a key. */
export interface GroupPage<Key> {
  readonly after: Key | undefined;
  readonly limit: number;
}

/** The most keys that are read for a page: in the order of receivers, and of a domain. */
const KEYS_MAX = { receivers: 10_000, domain: 2_000 };
const KEYS_AT_A_TIME = { receivers: 1_000, domain: 500 };

/**
 * Single deliveries that were not delivered. Those of a domain come newest first, and those of filters that look into rows;
 * others by receiver, domain, kind and state, each in descending order, and then newest first. For filters that match
 * hardly any delivery, see {@link listGroups}.
 */
export async function listOpen(
  database: ReadDatabase,
  filter: Omit<QueueFilter, 'ids'>,
  { after, limit }: GroupPage<OpenKey>,
): Promise<{ readonly items: OpenDelivery[]; readonly next: OpenKey | undefined }> {
  const { destination, domainIds, kind } = filter;
  const { read: queries } = database;
  if (needsRows(filter)) {
    const keys = await findNewest(database, filter, { before: after?.id, limit: limit + 1 });
    const shown = keys.slice(0, limit);
    const next = keys.length > limit ? shown.at(-1) : undefined;
    return { items: await readRows(queries, idsOf(shown)), next };
  }
  const way = destination === undefined && domainIds ? 'domain' : 'receivers';
  const most = way === 'domain' && kind === undefined ? limit + 1 : KEYS_AT_A_TIME[way];
  const read = way === 'domain' ? readOfDomains : readOfReceivers;
  const found: number[] = [];
  let last = after;
  for (let seen = 0; seen < KEYS_MAX[way]; seen += most) {
    const keys = await read(queries, filter, last, most);
    for (const key of keys) {
      if (found.length === limit) return { items: await readRows(queries, found), next: last };
      last = key;
      if (mayFit(key, filter)) found.push(key.id);
    }
    if (keys.length < most) return { items: await readRows(queries, found), next: undefined };
    // Where the last key does not match, those that differ from it only by their id do not match either.
    if (last && way === 'receivers' && !mayFit(last, filter)) last = pastStateOf(last, 'desc');
  }
  return { items: await readRows(queries, found), next: last };
}

const idsOf = (keys: readonly OpenKey[]) => keys.map(({ id }) => id);

function readOfReceivers(
  queries: Queries,
  { destination, domainIds = [] }: Pick<QueueFilter, 'destination' | 'domainIds'>,
  after: OpenKey | undefined,
  limit: number,
): Promise<OpenKey[]> {
  // A single claim is one step in the index; where there are several, `mayFit` selects.
  const domainId = domainIds.length === 1 ? domainIds[0] : undefined;
  const receiver = destination === undefined ? undefined : { destination, domainId };
  return readKeys(queries, { receiver, after, order: 'desc', limit });
}

/** By `deliveries_by_status`: the newest of each claim and state, then the newest of those. */
async function readOfDomains(
  queries: Queries,
  { domainIds = [], states = OPEN_STATES }: Pick<QueueFilter, 'domainIds' | 'states'>,
  after: OpenKey | undefined,
  limit: number,
): Promise<OpenKey[]> {
  const keys: OpenKey[] = [];
  const newest = queries
    .selectFrom('deliveries')
    .select(['destination', 'domain_id', 'kind', 'status', 'id'])
    .$if(after !== undefined, (query) => query.where('id', '<', after?.id ?? 0))
    .orderBy('id', 'desc')
    .limit(limit);
  for (const domainId of domainIds) {
    for (const one of states) {
      const own = newest.where('domain_id', '=', domainId).where('status', '=', one);
      keys.push(...(await own.execute()));
    }
  }
  return keys.sort((a, b) => b.id - a.id).slice(0, limit);
}

/** @returns the deliveries in the order of the ids; none that was delivered meanwhile */
async function readRows(queries: Queries, ids: readonly number[]): Promise<OpenDelivery[]> {
  if (ids.length === 0) return [];
  const rows = await queries
    .selectFrom('deliveries')
    .selectAll()
    .where('id', 'in', ids)
    .where('status', '<>', 'delivered')
    .execute();
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => {
    const row = byId.get(id);
    return row ? { ...toDelivery(row), domainId: row.domain_id } : [];
  });
}
