/** Claims on a name: reading them, holding them still, and deciding which of them is active. */
import type { Database, Queries, Row } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import { checkUserId, normalizeDomainName } from './domain-names.ts';
import { changesOf, contestedOf, type DomainStatus, type StatusChange } from './status-changes.ts';

/** How often an active claim is checked while another one has its DKIM key published. */
export const CONTESTED_INTERVAL = 60 * 60 * 1000;

/** One user's claim on a name. */
export interface Domain {
  readonly id: number;
  readonly userId: string;
  readonly organizationId?: string;
  readonly name: string;
  readonly status: DomainStatus;
  /** Milliseconds since 1970, as all instants here. */
  readonly createdAt: number;
  /** When the claim last became active. */
  readonly verifiedAt?: number;
  /** When an active claim fell back to pending; absent once it is active again. */
  readonly lapsedAt?: number;
}

const columns = [
  'id',
  'user_id',
  'organization_id',
  'name',
  'status',
  'created_at',
  'verified_at',
  'lapsed_at',
] as const;

export function toDomain(row: Pick<Row<'domains'>, (typeof columns)[number]>): Domain {
  return {
    id: row.id,
    userId: row.user_id,
    ...(row.organization_id === null ? {} : { organizationId: row.organization_id }),
    name: row.name,
    status: row.status,
    createdAt: row.created_at,
    ...(row.verified_at === null ? {} : { verifiedAt: row.verified_at }),
    ...(row.lapsed_at === null ? {} : { lapsedAt: row.lapsed_at }),
  };
}

/** The refusal of a name that the user has no claim on, whatever others have. */
function domainNotFound(): Refusal {
  return new Refusal('domain_not_found', 'the user has no such domain');
}

/** A user's name for a claim, as it lies in storage. @throws Refusal domain_not_found */
function storedName(text: string): string {
  const name = normalizeDomainName(text);
  if (name === undefined) throw domainNotFound();
  return name;
}

/** The user's claim on a name, or undefined. */
export async function findClaim(
  queries: Queries,
  userId: string,
  name: string,
): Promise<Domain | undefined> {
  const row = await queries
    .selectFrom('domains')
    .select(columns)
    .where('user_id', '=', userId)
    .where('name', '=', name)
    .executeTakeFirst();
  return row && toDomain(row);
}

/**
 * The user's claim on a name as the user wrote it.
 *
 * @throws Refusal domain_not_found, also where the claim is another user's
 */
export async function readClaim(queries: Queries, userId: string, text: string): Promise<Domain> {
  const claim = await findClaim(queries, checkUserId(userId), storedName(text));
  if (!claim) throw domainNotFound();
  return claim;
}

/**
 * Reads all claims on a name, oldest first, and holds them still until the transaction ends.
 *
 * Without the lock two marks that PostgreSQL runs at once would each see the other's record
 * pending (and the claim would stay pending for good), and two claims could both become active.
 * Always all of them in the order of their ids: so no two transactions wait for each other.
 */
export async function lockName(
  tx: Queries,
  engine: Database['engine'],
  name: string,
): Promise<Domain[]> {
  const query = tx.selectFrom('domains').select(columns).where('name', '=', name).orderBy('id');
  // SQLite has one writer at a time and no such clause.
  const rows = await (engine === 'postgres' ? query.forUpdate() : query).execute();
  return rows.map(toDomain);
}

/**
 * The user's claim, with every claim on the name held still until the transaction ends.
 *
 * @throws Refusal domain_not_found
 */
export async function lockClaim(
  tx: Queries,
  engine: Database['engine'],
  userId: string,
  text: string,
): Promise<Domain> {
  checkUserId(userId);
  const claims = await lockName(tx, engine, storedName(text));
  const claim = claims.find((one) => one.userId === userId);
  if (!claim) throw domainNotFound();
  return claim;
}

/** What came of the evaluation of a name. */
interface Evaluation {
  /** To be told after the commit. */
  readonly changes: readonly StatusChange[];
  /** The claim that is active while another one has its DKIM key published. */
  readonly contestedId?: number | undefined;
}

/**
 * Evaluates every claim on a name, oldest first: one may fall back, one may become active. One that
 * is active and contested is checked within the hour. The caller has locked the name and made its own
 * change before.
 */
export async function evaluateName(tx: Queries, name: string, now: number): Promise<Evaluation> {
  const rows = await tx
    .selectFrom('domains')
    .innerJoin('dns_records', 'dns_records.domain_id', 'domains.id')
    .select(['domains.id', 'domains.user_id as userId', 'domains.status'])
    .select(['purpose', 'failing_since as failingSince', 'dns_records.status as recordStatus'])
    .where('domains.name', '=', name)
    .orderBy('domains.id')
    .execute();
  const claims = Map.groupBy(rows, ({ id }) => id);
  const standings = [...claims.values()].flatMap(([first, ...others]) =>
    first === undefined
      ? []
      : [
          {
            ...first,
            records: [first, ...others].map(({ purpose, recordStatus, failingSince }) => ({
              purpose,
              status: recordStatus,
              failingSince,
            })),
          },
        ],
  );
  const changes = changesOf(name, standings, now);
  for (const { id, new: status } of changes) {
    await tx
      .updateTable('domains')
      .set(
        status === 'active'
          ? { status, verified_at: now, lapsed_at: null }
          : { status, lapsed_at: now },
      )
      .where('id', '=', id)
      .execute();
  }
  const contested = changes.length === 0 ? contestedOf(standings) : undefined;
  if (contested) {
    await tx
      .updateTable('domains')
      .set({ next_check_at: now })
      .where('id', '=', contested.id)
      .where('next_check_at', '>', now + CONTESTED_INTERVAL)
      .execute();
  }
  return { changes, contestedId: contested?.id };
}

/** Whether another user's claim on the name of this one is active. */
export async function hasActiveRival(queries: Queries, { id, name }: Domain): Promise<boolean> {
  const rival = await queries
    .selectFrom('domains')
    .select('id')
    .where('name', '=', name)
    .where('status', '=', 'active')
    .where('id', '!=', id)
    .executeTakeFirst();
  return rival !== undefined;
}
