/** Accounts of all users, for operators. */
import { sql } from 'kysely';
import type { Database, Queries } from '../../platform/database/database.ts';
import { type Account, readAddress, selectAccounts, toAccount } from './account-rows.ts';

/** An account as operators see it. */
export interface OperatedAccount extends Account {
  /** The day of the last login with its password; absent where there was none. */
  readonly lastLoginAt?: number;
}

interface AccountRequest {
  readonly domainId?: number | undefined;
  readonly userId?: string | undefined;
  /** Start of the address, lower case; the list is then in the order of addresses. */
  readonly addressPrefix?: string | undefined;
  readonly limit: number;
  /** Of the last account of the page before. */
  readonly after?: { readonly id: number; readonly address?: string | undefined } | undefined;
}

/** Accounts of all users: the newest first, or by address where a start of it is given. */
export async function listAllAccounts(
  { engine, read }: Pick<Database, 'engine' | 'read'>,
  { domainId, userId, addressPrefix, limit, after }: AccountRequest,
): Promise<OperatedAccount[]> {
  const plain = sql<string>`(local_part || '@' || domain_name)`;
  const address = engine === 'postgres' ? sql<string>`${plain} collate "C"` : plain;
  let query = selectAccounts(read).limit(limit);
  if (domainId !== undefined) query = query.where('domain_id', '=', domainId);
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  if (addressPrefix === undefined) {
    query = query.orderBy('id', 'desc');
    if (after) query = query.where('id', '<', after.id);
  } else {
    // Addresses are ASCII: the prefix followed by DEL comes after every address that begins with it.
    query = query
      .where(address, '>=', after?.address ?? addressPrefix)
      .where(address, '<', `${addressPrefix}\u007f`)
      .orderBy(address)
      .orderBy('id');
    if (after) {
      query = query.where(sql<boolean>`(${address}, id) > (${after.address ?? ''}, ${after.id})`);
    }
  }
  const accounts = (await query.execute()).map(toAccount);
  return withLogins(read, accounts);
}

/** An account of any user, or undefined. */
export async function findAnyAccount(queries: Queries, id: number): Promise<Account | undefined> {
  if (!Number.isSafeInteger(id)) return undefined;
  const row = await selectAccounts(queries).where('id', '=', id).executeTakeFirst();
  return row && toAccount(row);
}

/** Whose an account is. */
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
  accounts: readonly Account[],
): Promise<OperatedAccount[]> {
  if (accounts.length === 0) return [];
  const ids = accounts.map(({ id }) => id);
  const rows = await queries
    .selectFrom('sign_ins')
    .select(({ fn }) => ['account_id as id', fn.max('signed_in_at').as('at')])
    .where('account_id', 'in', ids)
    .groupBy('account_id')
    .execute();
  const logins = new Map(rows.map(({ id, at }) => [id, Number(at)]));
  return accounts.map((account) => {
    const lastLoginAt = logins.get(account.id);
    return lastLoginAt === undefined ? account : { ...account, lastLoginAt };
  });
}
