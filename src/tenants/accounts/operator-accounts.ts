/** Accounts of all users, for operators. */
import { type RawBuilder, sql } from 'kysely';
import type { Database, Engine, Queries } from '../../platform/database/database.ts';
import { readAddress } from './account-addresses.ts';
import { type Account, type AccountRow, selectAccounts, toAccount } from './account-rows.ts';

export interface OperatedAccount extends Account {
  readonly domainId: number;
  /** The day of the last login with its password; absent where there was none. */
  readonly lastLoginAt?: number;
}

/** Which accounts are meant; all of them where nothing is given. */
export interface AccountFilter {
  readonly domainId?: number | undefined;
  readonly userId?: string | undefined;
  /** Start of the address, lower case. */
  readonly addressPrefix?: string | undefined;
}

interface AccountRequest extends AccountFilter {
  /** The newest first, or by address. */
  readonly order: 'newest' | 'address';
  readonly limit: number;
  /** Of the last account of the page before. */
  readonly after?: { readonly id: number; readonly address?: string | undefined } | undefined;
}

type Reading = Pick<Database, 'engine' | 'read'>;

/** In the order of its bytes on either engine. */
function addressOf(engine: Engine): RawBuilder<string> {
  const plain = sql<string>`(local_part || '@' || domain_name)`;
  return engine === 'postgres' ? sql<string>`${plain} collate "C"` : plain;
}

function selectOperated(
  { engine, read }: Reading,
  { domainId, userId, addressPrefix }: AccountFilter,
) {
  const address = addressOf(engine);
  let query = selectAccounts(read).select('domain_id as domainId');
  if (domainId !== undefined) query = query.where('domain_id', '=', domainId);
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  if (addressPrefix !== undefined) {
    // Addresses are ASCII: the prefix followed by DEL comes after every address that begins with it.
    query = query.where(address, '>=', addressPrefix).where(address, '<', `${addressPrefix}\u007f`);
  }
  return query;
}

/** Accounts of all users. */
export async function listAllAccounts(
  database: Reading,
  { order, limit, after, ...filter }: AccountRequest,
): Promise<OperatedAccount[]> {
  const address = addressOf(database.engine);
  let query = selectOperated(database, filter).limit(limit);
  if (order === 'newest') {
    query = query.orderBy('id', 'desc');
    if (after) query = query.where('id', '<', after.id);
  } else {
    query = query.orderBy(address).orderBy('id');
    if (after) {
      const from = after.address ?? '';
      // The first condition is for the index.
      query = query
        .where(address, '>=', from)
        .where(sql<boolean>`(${address}, id) > (${from}, ${after.id})`);
    }
  }
  return withLogins(database.read, await query.execute());
}

/** What accounts are sorted by. */
export interface AccountKey {
  readonly id: number;
  /** Its own quota, 0 for no limit; null: the operator's default. */
  readonly quotaBytes: number | null;
}

/** All accounts that are meant, without what a list shows of them. */
export function listAccountKeys(database: Reading, filter: AccountFilter): Promise<AccountKey[]> {
  return selectOperated(database, filter)
    .clearSelect()
    .select(['id', 'quota_bytes as quotaBytes'])
    .execute();
}

/** The accounts of these ids that exist, in the order of the ids. */
export async function findOperated(
  { engine, read }: Reading,
  ids: readonly number[],
): Promise<OperatedAccount[]> {
  const known = ids.filter(Number.isSafeInteger);
  if (known.length === 0) return [];
  const rows = await selectOperated({ engine, read }, {}).where('id', 'in', known).execute();
  const byId = new Map(rows.map((row) => [row.id, row]));
  return withLogins(
    read,
    ids.flatMap((id) => byId.get(id) ?? []),
  );
}

/** An account of any user, or undefined. */
export async function findAnyAccount(queries: Queries, id: number): Promise<Account | undefined> {
  if (!Number.isSafeInteger(id)) return undefined;
  const row = await selectAccounts(queries).where('id', '=', id).executeTakeFirst();
  return row && toAccount(row);
}

/** A client that signed in to an account. */
export interface SignIn {
  /** An IPv4 address, or an IPv6 /64. */
  readonly client: string;
  /** Accurate to a day. */
  readonly at: number;
}

/** The clients that signed in to an account last. */
export function listSignIns(queries: Queries, id: number, limit: number): Promise<SignIn[]> {
  return queries
    .selectFrom('sign_ins')
    .select(['client', 'signed_in_at as at'])
    .where('account_id', '=', id)
    .orderBy('signed_in_at', 'desc')
    .orderBy('client')
    .limit(limit)
    .execute();
}

/** The last login with its password of each account that had one, by account id. */
export function lastLogins(queries: Queries): Promise<Map<number, number>> {
  return readLogins(queries, undefined);
}

export interface AccountOwner {
  readonly accountId: number;
  readonly domainId: number;
  readonly userId: string;
}

/** The accounts of an address: one for each user who claims its domain. */
export async function findAccountsAt(queries: Queries, address: string): Promise<AccountOwner[]> {
  const read = readAddress(address);
  if (!read) return [];
  return queries
    .selectFrom('accounts')
    .select(['id as accountId', 'domain_id as domainId', 'user_id as userId'])
    .where('domain_name', '=', read.domain)
    .where('local_part', '=', read.localPart)
    .execute();
}

/** How many accounts each of these domains has, by domain id; domains without any are left out. */
export async function countAccounts(
  queries: Queries,
  domainIds: readonly number[],
): Promise<Map<number, number>> {
  if (domainIds.length === 0) return new Map();
  const rows = await queries
    .selectFrom('accounts')
    .select(({ fn }) => ['domain_id as id', fn.countAll<number>().as('count')])
    .where('domain_id', 'in', domainIds)
    .groupBy('domain_id')
    .execute();
  return new Map(rows.map(({ id, count }) => [id, Number(count)]));
}

async function withLogins(
  queries: Queries,
  rows: readonly (AccountRow & { readonly domainId: number })[],
): Promise<OperatedAccount[]> {
  if (rows.length === 0) return [];
  const logins = await readLogins(
    queries,
    rows.map(({ id }) => id),
  );
  return rows.map((row) => {
    const lastLoginAt = logins.get(row.id);
    return { ...toAccount(row), ...(lastLoginAt !== undefined && { lastLoginAt }) };
  });
}

async function readLogins(
  queries: Queries,
  ids: readonly number[] | undefined,
): Promise<Map<number, number>> {
  const rows = await queries
    .selectFrom('sign_ins')
    .select(({ fn }) => ['account_id as id', fn.max('signed_in_at').as('at')])
    .$if(ids !== undefined, (query) => query.where('account_id', 'in', ids ?? []))
    .groupBy('account_id')
    .execute();
  return new Map(rows.map(({ id, at }) => [id, Number(at)]));
}
