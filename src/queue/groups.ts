/** The queue as operators see it: what waits or failed, by receiver, domain and kind. */
import { sql } from 'kysely';
import type { Queries, Row } from '../database/database.ts';
import type { OpenState, QueueFilter } from './bulk.ts';
import { type Delivery, errorFromJson } from './delivery.ts';
import { toDelivery } from './operator-rows.ts';

/** Deliveries of one kind and domain that have one receiver. */
export interface QueueGroup extends GroupKey {
  /** Up to {@link COUNTED_MAX}, which stands for as many or more. */
  readonly counts: Readonly<Record<OpenState, number>>;
  /** When the next of them is due, milliseconds since 1970; absent where none waits. */
  readonly oldestDueAt?: number;
  readonly lastError?: string;
}

export interface GroupKey {
  readonly destination: string;
  readonly domainId: number;
  readonly kind: string;
}

/** What of each state is counted at most. */
export const COUNTED_MAX = 10_000;
/** Groups that are looked through for a page, where some of them may not fit. */
const GROUPS_MAX = 250;
/** Rows that are due first, of which a group's own is looked for. */
const DUE_FIRST = 100;

interface FoundGroup {
  readonly id: number;
  readonly destination: string;
  readonly domain_id: number;
  readonly kind: string;
}

/**
 * Lists groups in the order of destination, domain and kind. Each costs one step in the index, however many
 * deliveries it has. Of filters that hardly any group fits, a page may have fewer than asked for, and a key
 * to go on from.
 */
export async function listGroups(
  queries: Queries,
  filter: Pick<QueueFilter, 'destination' | 'domainIds' | 'kind' | 'state'>,
  { after, limit }: { readonly after: GroupKey | undefined; readonly limit: number },
): Promise<{ readonly groups: QueueGroup[]; readonly next: GroupKey | undefined }> {
  const { destination, domainIds, kind, state } = filter;
  const isFiltered = domainIds !== undefined || kind !== undefined || state !== undefined;
  const most = isFiltered ? GROUPS_MAX : limit + 1;
  const found = await findGroups(queries, destination, after, most);
  const chosen: FoundGroup[] = [];
  let last: FoundGroup | undefined;
  for (const group of found) {
    if (chosen.length === limit) break;
    last = group;
    if (domainIds && !domainIds.includes(group.domain_id)) continue;
    if (kind === undefined || group.kind === kind) chosen.push(group);
  }
  const groups = await countGroups(queries, chosen);
  const isOver = last === found.at(-1) && found.length < most;
  return {
    groups: groups.filter(({ counts }) => state === undefined || counts[state] > 0),
    next: last && !isOver ? keyOf(last) : undefined,
  };
}

function keyOf({ destination, domain_id: domainId, kind }: FoundGroup): GroupKey {
  return { destination, domainId, kind };
}

/**
 * The first row of each group, by a query for each: SQLite seeks by all columns only where they are
 * compared with values, and not with those of another row.
 */
async function findGroups(
  queries: Queries,
  destination: string | undefined,
  after: GroupKey | undefined,
  most: number,
): Promise<FoundGroup[]> {
  const found: FoundGroup[] = [];
  let last = after;
  while (found.length < most) {
    const group = await nextGroupQuery(queries, destination, last).executeTakeFirst();
    if (!group) break;
    found.push(group);
    last = keyOf(group);
  }
  return found;
}

export function nextGroupQuery(
  queries: Queries,
  destination: string | undefined,
  after: GroupKey = { destination: destination ?? '', domainId: 0, kind: '' },
) {
  const { destination: name, domainId, kind } = after;
  const query = queries
    .selectFrom('deliveries')
    .select(['id', 'destination', 'domain_id', 'kind'])
    // A partial index is used only where its condition stands in the query.
    .where('status', '<>', sql.lit('delivered' as const))
    // `z` is behind all states: no other row of a group is read to find the next group.
    .where(
      sql<boolean>`(destination, domain_id, kind, status) > (${name}, ${domainId}, ${kind}, 'z')`,
    );
  return (destination === undefined ? query : query.where('destination', '=', destination))
    .orderBy('destination')
    .orderBy('domain_id')
    .orderBy('kind')
    .orderBy('status')
    .orderBy('id')
    .limit(1);
}

interface CountedGroup extends FoundGroup {
  readonly queued: number;
  readonly held: number;
  readonly failed: number;
  readonly due: number | null;
  readonly error: string | null;
}

async function countGroups(queries: Queries, groups: readonly FoundGroup[]): Promise<QueueGroup[]> {
  if (groups.length === 0) return [];
  const own = (state: OpenState) =>
    sql`from deliveries c where c.status <> 'delivered' and c.status = ${sql.lit(state)}
      and c.destination = d.destination and c.domain_id = d.domain_id and c.kind = d.kind`;
  const count = (state: OpenState) =>
    sql`(select count(*) from (select 1 ${own(state)} limit ${COUNTED_MAX}) counted)`;
  const oldest = (column: 'last_error' | 'next_attempt_at', state: OpenState) =>
    sql`(select c.${sql.ref(column)} ${own(state)} order by c.id limit 1)`;
  const ids = groups.map(({ id }) => id);
  const { rows } = await sql<CountedGroup>`
    select d.id, d.destination, d.domain_id, d.kind,
      ${count('queued')} as queued, ${count('held')} as held, ${count('failed')} as failed,
      coalesce(
        (
          select min(next_attempt_at) from (
            select c.next_attempt_at, c.domain_id from deliveries c
            where c.status = 'queued' and c.kind = d.kind and c.destination = d.destination
            order by c.next_attempt_at limit ${DUE_FIRST}
          ) soonest where soonest.domain_id = d.domain_id
        ),
        ${oldest('next_attempt_at', 'queued')}
      ) as due,
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
    ...(error !== null && { lastError: textOf(error) }),
  }));
}

function textOf(json: string): string {
  const { status, text } = errorFromJson(json);
  return [status, text].filter((part) => part !== undefined).join(' ');
}

/** A delivery with the claim that it belongs to. */
export interface OpenDelivery extends Delivery {
  readonly domainId: number;
}

/** Where a page begins: behind that row. */
export type OpenKey = Pick<
  Row<'deliveries'>,
  'destination' | 'domain_id' | 'kind' | 'status' | 'id'
>;

interface OpenPage {
  readonly after: OpenKey | undefined;
  readonly limit: number;
}

/** Rows that are looked through for a page. */
const ROWS_MAX = 2_000;
const ROWS_AT_A_TIME = 500;

/**
 * Single deliveries that were not delivered. Those of a domain come newest first; else they come by
 * receiver, domain, kind and state, each in descending order, and then newest first. Of filters that hardly
 * any fits as {@link listGroups}.
 */
export async function listOpen(
  queries: Queries,
  filter: QueueFilter,
  page: OpenPage,
): Promise<{ readonly items: OpenDelivery[]; readonly next: OpenKey | undefined }> {
  const { destination, domainIds, ids } = filter;
  const isOfDomain = ids !== undefined || (domainIds !== undefined && destination === undefined);
  const most = isOfDomain ? page.limit + 1 : ROWS_AT_A_TIME;
  const items: OpenDelivery[] = [];
  let last = page.after;
  for (let seen = 0; seen < ROWS_MAX; seen += most) {
    const rows = isOfDomain
      ? await readOfDomains(queries, filter, last, most)
      : await openQuery(queries, filter, last).execute();
    for (const row of rows) {
      if (items.length === page.limit) return { items, next: last };
      last = row;
      if (fits(row, filter)) items.push({ ...toDelivery(row), domainId: row.domain_id });
    }
    if (rows.length < most) return { items, next: undefined };
  }
  return { items, next: last };
}

function fits(row: Row<'deliveries'>, { domainIds, kind, state, before }: QueueFilter): boolean {
  if (domainIds && !domainIds.includes(row.domain_id)) return false;
  if (kind !== undefined && row.kind !== kind) return false;
  if (state !== undefined && row.status !== state) return false;
  return before === undefined || row.created_at < before;
}

/** By `deliveries_by_status`: the newest of each claim and state, then the newest of those. */
async function readOfDomains(
  queries: Queries,
  { domainIds = [], ids, state }: QueueFilter,
  after: OpenKey | undefined,
  most: number,
): Promise<Row<'deliveries'>[]> {
  const rows: Row<'deliveries'>[] = [];
  const newest = queries
    .selectFrom('deliveries')
    .selectAll()
    .$if(after !== undefined, (query) => query.where('id', '<', after?.id ?? 0))
    .orderBy('id', 'desc')
    .limit(most);
  if (ids) return newest.where('id', 'in', ids).where('status', '<>', 'delivered').execute();
  const states: readonly OpenState[] = state ? [state] : ['queued', 'held', 'failed'];
  for (const domainId of domainIds) {
    for (const one of states) {
      const own = newest.where('domain_id', '=', domainId).where('status', '=', one);
      rows.push(...(await own.execute()));
    }
  }
  return rows.sort((a, b) => b.id - a.id).slice(0, most);
}

/** By `deliveries_by_receiver`, from its end. */
export function openQuery(
  queries: Queries,
  { destination, domainIds }: Pick<QueueFilter, 'destination' | 'domainIds'>,
  after: OpenKey | undefined,
) {
  const [domainId, ...others] = domainIds ?? [];
  let query = queries
    .selectFrom('deliveries')
    .selectAll()
    // A partial index is used only where its condition stands in the query.
    .where('status', '<>', sql.lit('delivered' as const));
  if (destination !== undefined) query = query.where('destination', '=', destination);
  // One claim alone is a step in the index; where there are several, `fits` chooses.
  if (domainId !== undefined && others.length === 0) {
    query = query.where('domain_id', '=', domainId);
  }
  if (after) {
    const { domain_id, kind, status, id } = after;
    query = query.where((eb) =>
      eb(
        eb.refTuple('destination', 'domain_id', 'kind', 'status', 'id'),
        '<',
        eb.tuple(after.destination, domain_id, kind, status, id),
      ),
    );
  }
  return query
    .orderBy('destination', 'desc')
    .orderBy('domain_id', 'desc')
    .orderBy('kind', 'desc')
    .orderBy('status', 'desc')
    .orderBy('id', 'desc')
    .limit(ROWS_AT_A_TIME);
}
