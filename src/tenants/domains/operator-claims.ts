/** Claims of all users, for operators. */
import { sql } from 'kysely';
import type { Database, Queries, Row } from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Domain, toDomain } from './claims.ts';
import { normalizeDomainName } from './domain-names.ts';

/** A claim as operators see it. */
export interface OperatedDomain extends Domain {
  readonly forwardMode: Row<'routes'>['forward_mode'];
  /** When an operator suspended it; absent where it is not suspended. */
  readonly suspendedAt?: number;
  readonly suspendReason?: string;
}

/** The claims that an operator asks for; every given field must match. */
export interface ClaimFilter {
  readonly status?: Domain['status'] | 'suspended' | undefined;
  readonly userId?: string | undefined;
  /** Start of the name, lower case; the list is then in the order of names. */
  readonly namePrefix?: string | undefined;
}

interface ClaimRequest extends ClaimFilter {
  readonly limit: number;
  /** Of the last claim of the page before. */
  readonly after?: { readonly id: number; readonly name?: string | undefined } | undefined;
}

const columns = [
  'domains.id',
  'user_id',
  'organization_id',
  'name',
  'domains.status',
  'created_at',
  'verified_at',
  'lapsed_at',
  'suspended_at',
  'suspend_reason',
  'forward_mode',
] as const;

/** Claims of all users: the newest first, or by name where a start of the name is given. */
export async function listAllClaims(
  { engine, read }: Pick<Database, 'engine' | 'read'>,
  { status, userId, namePrefix, limit, after }: ClaimRequest,
): Promise<OperatedDomain[]> {
  const name = engine === 'postgres' ? sql<string>`name collate "C"` : sql<string>`name`;
  let query = selectOperated(read).limit(limit);
  if (status === 'suspended') query = query.where('suspended_at', 'is not', null);
  else if (status !== undefined) query = query.where('domains.status', '=', status);
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  if (namePrefix === undefined) {
    query = query.orderBy('domains.id', 'desc');
    if (after) query = query.where('domains.id', '<', after.id);
  } else {
    // Names are ASCII: the prefix followed by DEL comes after every name that begins with it.
    query = query
      .where(name, '>=', after?.name ?? namePrefix)
      .where(name, '<', `${namePrefix}\u007f`)
      .orderBy(name)
      .orderBy('domains.id');
    if (after) {
      query = query.where(sql<boolean>`(${name}, domains.id) > (${after.name ?? ''}, ${after.id})`);
    }
  }
  return (await query.execute()).map(toOperated);
}

/**
 * The claim that an operator names: the active one on the name, else the only one.
 *
 * @param userId whose claim is meant, where several users have one
 * @throws Refusal domain_not_found, invalid_request (`user_id`) where several users claim the name
 */
export async function findAnyClaim(
  queries: Queries,
  text: string,
  userId: string | undefined,
): Promise<OperatedDomain> {
  const name = normalizeDomainName(text);
  const rows =
    name === undefined
      ? []
      : await selectOperated(queries)
          .where('name', '=', name)
          .$if(userId !== undefined, (query) => query.where('user_id', '=', userId ?? ''))
          .execute();
  const row = rows.find(({ status }) => status === 'active') ?? rows[0];
  if (!row) throw new Refusal('domain_not_found', 'nobody has such a domain');
  if (row.status !== 'active' && rows.length > 1) {
    throw invalidField(
      'user_id',
      'is required: several users claim this domain, and none is active',
    );
  }
  return toOperated(row);
}

function selectOperated(queries: Queries) {
  return queries
    .selectFrom('domains')
    .innerJoin('routes', 'routes.domain_id', 'domains.id')
    .select(columns);
}

type OperatedRow = Awaited<
  ReturnType<ReturnType<typeof selectOperated>['executeTakeFirstOrThrow']>
>;

function toOperated(row: OperatedRow): OperatedDomain {
  return {
    ...toDomain(row),
    forwardMode: row.forward_mode,
    ...(row.suspended_at !== null && { suspendedAt: row.suspended_at }),
    ...(row.suspend_reason !== null && { suspendReason: row.suspend_reason }),
  };
}

/** How many there are, and since when the first. */
export interface Troubled {
  readonly count: number;
  readonly since?: EpochMs;
}

/**
 * Claims that need somebody: those that were active and lost their records, and those that never became active.
 *
 * @param before only of those that never were active: claimed before this instant
 */
export async function countTroubledClaims(
  queries: Queries,
  before: EpochMs,
): Promise<{ readonly lapsed: Troubled; readonly pending: Troubled }> {
  const pending = queries
    .selectFrom('domains')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('status', '=', sql.lit('pending' as const));
  const [lapsed, waiting] = await Promise.all([
    pending
      .select(({ fn }) => fn.min<number | null>('lapsed_at').as('since'))
      .where('lapsed_at', 'is not', null)
      .executeTakeFirstOrThrow(),
    pending
      .select(({ fn }) => fn.min<number | null>('created_at').as('since'))
      .where('lapsed_at', 'is', null)
      .where('created_at', '<', before)
      .executeTakeFirstOrThrow(),
  ]);
  return { lapsed: toTroubled(lapsed), pending: toTroubled(waiting) };
}

/** PostgreSQL has the numbers of aggregates as texts. */
function toTroubled({
  count,
  since,
}: {
  readonly count: number;
  readonly since: number | null;
}): Troubled {
  return { count: Number(count), ...(since !== null && { since: Number(since) }) };
}
