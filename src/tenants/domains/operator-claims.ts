/** Claims of all users, for operators. */
import { type RawBuilder, sql } from 'kysely';
import {
  type Database,
  type Queries,
  type Row,
  withoutNulls,
} from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { claimColumns, type Domain } from './claims.ts';
import { normalizeDomainName } from './domain-names.ts';
import { canSend, selectUnsigned } from './sending.ts';

type Purpose = Row<'dns_records'>['purpose'];

/** A claim as operators see it. */
export interface OperatedDomain extends Domain {
  readonly forwardMode: Row<'routes'>['forward_mode'];
  /** When an operator suspended it; absent where it is not suspended. */
  readonly suspendedAt?: number;
  readonly suspendReason?: string;
  /** When DNS is asked about its records the next time. */
  readonly nextCheckAt: EpochMs;
  readonly health: DomainHealth;
  /** Whether mail for it is taken and finds the way: it is active, not suspended, and its MX record has not failed. */
  readonly canReceive: boolean;
  /** Whether somebody has to look after it: it cannot send, a record failed, or it was active and lost its records. */
  readonly isTroubled: boolean;
}

/** What its DNS records let a claim do, and which of them are wrong. Records of DKIM keys that do not sign are left out. */
interface DomainHealth {
  /** By the rule of sending; a suspension is another matter. */
  readonly canSend: boolean;
  /** Since when the answer is that; absent where it has not changed since 0.4.0. */
  readonly canSendSince?: EpochMs;
  readonly failed: readonly Purpose[];
  /** When the first of the failed ones was missed the first time. */
  readonly failedSince?: EpochMs;
  /** Verified, but missing at the last look, or the last one that DNS answered. */
  readonly missing: readonly Purpose[];
}

/** The claims that an operator asks for; every given field must match. */
export interface ClaimFilter {
  readonly status?: Domain['status'] | 'suspended' | undefined;
  readonly userId?: string | undefined;
  /** Start of the name, lower case. */
  readonly namePrefix?: string | undefined;
  readonly canSend?: boolean | undefined;
  readonly canReceive?: boolean | undefined;
  readonly forwardMode?: OperatedDomain['forwardMode'] | undefined;
  /** Only claims with this record failed, or with any. */
  readonly recordsFailed?: Purpose | 'any' | undefined;
}

/** The newest first, by name, or by name with those in trouble before the others. */
export type ClaimOrder = 'newest' | 'name' | 'trouble';

export interface ClaimPosition {
  readonly id: number;
  /** Where the order is by name. */
  readonly name?: string | undefined;
  /** Where the order is by trouble. */
  readonly isTroubled?: boolean | undefined;
}

interface ClaimRequest extends ClaimFilter {
  readonly order: ClaimOrder;
  readonly limit: number;
  /** Of the last claim of the page before. */
  readonly after?: ClaimPosition | undefined;
}

/** Claims of all users. */
export async function listAllClaims(
  database: Pick<Database, 'engine' | 'snapshot'>,
  request: ClaimRequest,
): Promise<OperatedDomain[]> {
  const { order, limit } = request;
  return database.snapshot(async (queries) => {
    const claims: OperatedDomain[] = [];
    for (const isTroubled of ranksOf(request)) {
      const rows: OperatedRow[] = [];
      for (const part of partsOf(request)) {
        const asked = { ...request, ...part, isTroubled };
        rows.push(...(await selectPage(queries, database.engine, asked).execute()));
      }
      rows.sort(order === 'newest' ? (a, b) => b.id - a.id : byName);
      claims.push(...(await withHealth(queries, rows.slice(0, limit - claims.length))));
      if (claims.length >= limit) break;
    }
    return claims;
  });
}

const byName = (a: OperatedRow, b: OperatedRow) =>
  a.name === b.name ? a.id - b.id : a.name < b.name ? -1 : 1;

/** Which claims are listed one after the other: undefined for all of them. */
function ranksOf({ order, after }: ClaimRequest): readonly (boolean | undefined)[] {
  if (order !== 'trouble') return [undefined];
  return after?.isTroubled === false ? [false] : [true, false];
}

/** A list of claims that are all in one of the states. */
interface ClaimPart {
  /** By the rule of sending. */
  readonly standing?: 'pending' | 'unsigned' | 'able';
}

/**
 * Claims that cannot send are the pending ones, and active ones without a verified DKIM record: each is found by an index
 * of its own, and in its order. One query for both would read all claims.
 */
function partsOf({ canSend: can, status }: ClaimRequest): ClaimPart[] {
  if (can === undefined) return [{}];
  if (can) return [{ standing: 'able' }];
  const parts: ClaimPart[] = [{ standing: 'pending' }, { standing: 'unsigned' }];
  if (status === 'pending') return parts.slice(0, 1);
  return status === 'active' ? parts.slice(1) : parts;
}

interface PartRequest extends ClaimRequest, ClaimPart {
  /** Undefined for all. */
  readonly isTroubled: boolean | undefined;
}

function selectPage(queries: Queries, engine: Database['engine'], request: PartRequest) {
  const { order, namePrefix, limit, after, isTroubled } = request;
  const name = engine === 'postgres' ? sql<string>`name collate "C"` : sql<string>`name`;
  const query = selectFiltered(queries, request).limit(limit);
  if (order === 'newest') {
    const newest = query.orderBy('domains.id', 'desc');
    return after ? newest.where('domains.id', '<', after.id) : newest;
  }
  // The position is of another rank where the page before ended with the last troubled one.
  const position = isTroubled === after?.isTroubled ? after : undefined;
  const from = position?.name ?? namePrefix;
  return (
    query
      .$if(from !== undefined, (some) => some.where(name, '>=', from ?? ''))
      // Names are ASCII: the prefix followed by DEL comes after every name that begins with it.
      .$if(namePrefix !== undefined, (some) => some.where(name, '<', `${namePrefix}\u007f`))
      .$if(position !== undefined, (some) =>
        some.where(
          sql<boolean>`(${name}, domains.id) > (${position?.name ?? ''}, ${position?.id ?? 0})`,
        ),
      )
      .orderBy(name)
      .orderBy('domains.id')
  );
}

function selectFiltered(queries: Queries, request: PartRequest) {
  const { status, userId, canReceive, forwardMode, recordsFailed, standing, isTroubled } = request;
  let query = selectOperated(queries);
  if (status === 'suspended') query = query.where('suspended_at', 'is not', null);
  else if (status !== undefined) query = query.where('domains.status', '=', status);
  if (standing !== undefined) {
    const wanted = standing === 'pending' ? 'pending' : 'active';
    query = query.where('domains.status', '=', sql.lit(wanted));
    if (standing === 'unsigned') query = query.where('domains.id', 'in', selectUnsigned(queries));
    if (standing === 'able') {
      const own = selectUnsigned(queries).where('domain_id', '=', sql.ref<number>('domains.id'));
      query = query.where(({ exists, not }) => not(exists(own)));
    }
  }
  if (recordsFailed !== undefined) {
    query = query.where('domains.id', 'in', selectFailed(queries, recordsFailed));
  }
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  if (forwardMode !== undefined) query = query.where('forward_mode', '=', forwardMode);
  const { receiving, troubled } = standingOf(queries);
  if (canReceive !== undefined) query = query.where(canReceive ? receiving : not(receiving));
  if (isTroubled !== undefined) query = query.where(isTroubled ? troubled : not(troubled));
  return query;
}

const not = (condition: RawBuilder<boolean>) => sql<boolean>`not (${condition})`;

/** What `canReceive` and `isTroubled` of a claim say. */
function standingOf(queries: Queries) {
  const failed = (purpose: Purpose | 'any') =>
    sql`domains.id in (${selectFailed(queries, purpose)})`;
  const unsigned = sql`domains.id in (${selectUnsigned(queries)})`;
  return {
    receiving: sql<boolean>`(suspended_at is null and domains.status = 'active' and not (${failed('mx')}))`,
    troubled: sql<boolean>`(suspended_at is null and (
      (domains.status = 'active' and (${unsigned} or ${failed('any')}))
      or (domains.status = 'pending' and lapsed_at is not null)))`,
  };
}

/** Claims with a failed record of that purpose; the index `dns_records_failed` has just these. */
function selectFailed(queries: Queries, purpose: Purpose | 'any') {
  return queries
    .selectFrom('dns_records')
    .select('domain_id')
    .where('status', '=', sql.lit('failed'))
    .where('key_state', 'is', null)
    .$if(purpose !== 'any', (query) => query.where('purpose', '=', purpose as Purpose));
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
  const [claim] = await withHealth(queries, [row]);
  if (!claim) throw new Error('one claim was read as none');
  return claim;
}

function selectOperated(queries: Queries) {
  const { receiving, troubled } = standingOf(queries);
  return queries
    .selectFrom('domains')
    .innerJoin('routes', 'routes.domain_id', 'domains.id')
    .select([...claimColumns, 'suspended_at as suspendedAt', 'suspend_reason as suspendReason'])
    .select(['next_check_at as nextCheckAt', 'forward_mode as forwardMode'])
    .select(['could_send', 'could_send_since'])
    .select([receiving.as('can_receive'), troubled.as('is_troubled')]);
}

type OperatedRow = Awaited<
  ReturnType<ReturnType<typeof selectOperated>['executeTakeFirstOrThrow']>
>;

async function withHealth(
  queries: Queries,
  rows: readonly OperatedRow[],
): Promise<OperatedDomain[]> {
  const ids = rows.map(({ id }) => id);
  const records =
    ids.length === 0
      ? []
      : await queries
          .selectFrom('dns_records')
          .select(['domain_id', 'purpose', 'status', 'misses', 'failing_since'])
          .where('domain_id', 'in', ids)
          .where('key_state', 'is', null)
          .orderBy('id')
          .execute();
  const byClaim = Map.groupBy(records, ({ domain_id }) => domain_id);
  return rows.map((row) => toOperated(row, byClaim.get(row.id) ?? []));
}

type RecordState = Pick<Row<'dns_records'>, 'purpose' | 'status' | 'misses' | 'failing_since'>;

function toOperated(row: OperatedRow, records: readonly RecordState[]): OperatedDomain {
  const { can_receive, is_troubled, could_send: _, could_send_since: __, ...claim } = row;
  return {
    ...withoutNulls(claim),
    health: healthOf(row, records),
    // SQLite has 0 and 1.
    canReceive: Boolean(can_receive),
    isTroubled: Boolean(is_troubled),
  };
}

function healthOf(row: OperatedRow, records: readonly RecordState[]): DomainHealth {
  const dkim = records.find(({ purpose }) => purpose === 'dkim')?.status;
  const can = canSend({ status: row.status, dkim });
  const failed = records.filter(({ status }) => status === 'failed');
  const since = failed.flatMap(({ failing_since }) => failing_since ?? []);
  // A node from before 0.4.0 may have changed the records since.
  const canSince = row.could_send === Number(can) ? row.could_send_since : null;
  return {
    canSend: can,
    ...(canSince !== null && { canSendSince: canSince }),
    failed: failed.map(({ purpose }) => purpose),
    ...(since.length > 0 && { failedSince: Math.min(...since) }),
    missing: records
      .filter(({ status, misses }) => status === 'verified' && misses > 0)
      .map(({ purpose }) => purpose),
  };
}

/** How many there are, and since when the first. */
export interface Troubled {
  readonly count: number;
  readonly since?: EpochMs;
}

/** Claims that were active and lost their records. */
export async function countLapsedClaims(queries: Queries): Promise<Troubled> {
  const row = await pendingClaims(queries)
    .select(({ fn }) => fn.min<number | null>('lapsed_at').as('since'))
    .where('lapsed_at', 'is not', null)
    .executeTakeFirstOrThrow();
  return toTroubled(row);
}

/** Claims that never became active, of those that were claimed before an instant. */
export async function countPendingClaims(queries: Queries, before: EpochMs): Promise<Troubled> {
  const row = await pendingClaims(queries)
    .select(({ fn }) => fn.min<number | null>('created_at').as('since'))
    .where('lapsed_at', 'is', null)
    .where('created_at', '<', before)
    .executeTakeFirstOrThrow();
  return toTroubled(row);
}

function pendingClaims(queries: Queries) {
  return queries
    .selectFrom('domains')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('status', '=', sql.lit('pending' as const));
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
