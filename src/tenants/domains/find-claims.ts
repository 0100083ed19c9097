/** Finds claims whoever has them: the active one on a name, and names by their ids. */

import { sql } from 'kysely';
import { PreparedQuery, type Queries } from '../../platform/database/database.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import { type Route, toRoute } from './routes.ts';

/** The claim that a name's mail goes to. */
export interface ActiveDomain {
  readonly id: number;
  readonly userId: string;
  readonly name: string;
  /** Since when the claim is active: before that the name may have belonged to another user. */
  readonly activeSince: number;
  readonly route: Route;
  /** Whether an operator suspended it: then its mail is deferred. */
  readonly isSuspended: boolean;
}

/**
 * The active claim on a name. Compiled once: it runs for every recipient and every token, and building a query takes
 * ten times as long as running it.
 */
export function prepareActiveClaim(queries: Queries) {
  return new PreparedQuery(({ name }: { name: string }) => selectActive(queries, name));
}

/** The active claim on a name, with its route. */
export function selectActive(queries: Queries, name: string) {
  return queries
    .selectFrom('domains')
    .innerJoin('routes', 'routes.domain_id', 'domains.id')
    .select(['domains.id', 'domains.user_id', 'domains.verified_at', 'domains.suspended_at'])
    .select(['domains.name', 'forward_mode', 'webhook_url', 'webhook_secret', 'forward_to_email'])
    .where('domains.status', '=', sql.lit('active'))
    .where('domains.name', '=', name);
}

type ActiveRow = Awaited<ReturnType<ReturnType<typeof selectActive>['executeTakeFirstOrThrow']>>;

export function toActive(row: ActiveRow): ActiveDomain {
  const { id, user_id: userId, name, verified_at, suspended_at } = row;
  const isSuspended = suspended_at !== null;
  return {
    id,
    userId,
    name,
    activeSince: verified_at ?? 0,
    route: toRoute(name, row),
    isSuspended,
  };
}

/** The claims of all users on a name. */
export async function findClaimIds(queries: Queries, name: string): Promise<number[]> {
  const rows = await queries
    .selectFrom('domains')
    .select('id')
    .where('name', '=', name.toLowerCase())
    .execute();
  return rows.map(({ id }) => id);
}

/** The names of claims, by their ids. */
export async function findClaimNames(
  queries: Queries,
  ids: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  if (ids.length === 0) return new Map();
  const rows = await queries
    .selectFrom('domains')
    .select(['id', 'name'])
    .where('id', 'in', [...new Set(ids)])
    .execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Whether there is any claim: without one, nothing was set up yet. */
export async function hasDomains(queries: Queries): Promise<boolean> {
  const row = await queries.selectFrom('domains').select('id').limit(1).executeTakeFirst();
  return row !== undefined;
}

/**
 * How mail for a name is answered: `active` is accepted, `lapsed` was active until lately (450), `expired` was active
 * longer ago (550), `pending` is claimed but never was active, `unknown` is not claimed.
 */
export type DomainState = 'active' | 'lapsed' | 'expired' | 'pending' | 'unknown';

/** How long mail for a claim that became pending again is deferred before it is refused for good. */
const LAPSE_GRACE_MS = 5 * DAY_MS;

/** The state of a name in its canonical form. */
export async function readDomainState(
  read: Queries,
  name: string,
  now: EpochMs,
): Promise<DomainState> {
  const { claims, active, lapsedAt } = await read
    .selectFrom('domains')
    .select(({ fn }) => [
      fn.count<number>('id').as('claims'),
      fn.count<number>('id').filterWhere('status', '=', 'active').as('active'),
      fn.max('lapsed_at').as('lapsedAt'),
    ])
    .where('name', '=', name)
    .executeTakeFirstOrThrow();
  if (claims === 0) return 'unknown';
  if (active > 0) return 'active';
  if (lapsedAt === null) return 'pending';
  return now - lapsedAt < LAPSE_GRACE_MS ? 'lapsed' : 'expired';
}
