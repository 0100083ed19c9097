import { sql } from 'kysely';
import type { Database, Queries } from '../database/database.ts';
import type { AccountStatus } from './account-rows.ts';
import { domainIsThere } from './delete-accounts.ts';
import { readAddress } from './local-parts.ts';

/** Addresses that are told apart by case alone, and so need no closer reading: nearly all. */
const PLAIN = /^[\w!#$%&'*+/=?^`{|}~.-]{1,64}@[a-z\d.-]{1,253}$/i;

/**
 * Finds the accounts of many addresses in one query: those on claims that are active now, suspended
 * accounts too. Case does not count, a `+tag` does.
 *
 * @returns account ids by address as it was given; without those that are nobody's
 */
export async function findAccounts(
  { engine, read }: Pick<Database, 'engine' | 'read'>,
  addresses: readonly string[],
): Promise<Map<string, number>> {
  const wanted = addresses.map(comparable);
  const found = new Map<string, number>();
  for (const { position, id } of await selectIds(read, engine, JSON.stringify(wanted))) {
    const address = addresses[position];
    if (address !== undefined) found.set(address, id);
  }
  return found;
}

/** `<local part>@<domain>` as accounts have them, or a text that none has. */
function comparable(address: string): string {
  if (PLAIN.test(address)) return address.toLowerCase();
  const read = readAddress(address);
  return read ? `${read.localPart}@${read.domain}` : '';
}

/** The one place where the engines unpack an array in their own way; positions count from 0. */
async function selectIds(queries: Queries, engine: Database['engine'], wanted: string) {
  // No local part of ours has an `@`, so that the first one splits.
  const split =
    engine === 'sqlite'
      ? sql`select key as position, substr(value, 1, instr(value, '@') - 1) as local_part,
              substr(value, instr(value, '@') + 1) as domain
            from json_each(${wanted})`
      : sql`select position - 1 as position, split_part(address, '@', 1) as local_part,
              split_part(address, '@', 2) as domain
            from jsonb_array_elements_text(${wanted}::jsonb) with ordinality
              as addresses (address, position)`;
  const { rows } = await sql<{ position: number; id: number }>`
    select wanted.position, accounts.id
    from (${split}) as wanted
    join domains on domains.name = wanted.domain and domains.status = 'active'
    join accounts
      on accounts.domain_id = domains.id and accounts.local_part = wanted.local_part
  `.execute(queries);
  return rows;
}

/** Whose an account is, and whether it is open. */
export interface AccountState {
  readonly domainId: number;
  readonly status: AccountStatus;
}

/** The state of accounts by id; those that are gone are left out. */
export async function findAccountStates(
  queries: Queries,
  ids: readonly number[],
): Promise<Map<number, AccountState>> {
  if (ids.length === 0) return new Map();
  const rows = await queries
    .selectFrom('accounts')
    .select(['id', 'domain_id as domainId', 'status'])
    .where('id', 'in', ids)
    .where(domainIsThere('accounts'))
    .execute();
  return new Map(rows.map(({ id, domainId, status }) => [id, { domainId, status }]));
}

/** An account as the sender of mail. */
export interface SendingAccount extends AccountState {
  readonly userId: string;
  /** Name of the domain. */
  readonly domain: string;
  /** `<local part>@<domain>`, lower case. */
  readonly address: string;
  readonly displayName: string;
}

/**
 * Finds an account that wants to send.
 *
 * @param lockOn the engine, where the account is to be held until the transaction ends: what it sends is
 *   then counted and stored one after the other
 */
export async function findSendingAccount(
  queries: Queries,
  id: number,
  lockOn?: Database['engine'],
): Promise<SendingAccount | undefined> {
  const row = await queries
    .selectFrom('accounts')
    .select(['user_id', 'domain_id', 'domain_name', 'local_part', 'display_name', 'status'])
    .where('id', '=', id)
    .where(domainIsThere('accounts'))
    // SQLite has one writer at a time and no such clause.
    .$if(lockOn === 'postgres', (query) => query.forNoKeyUpdate())
    .executeTakeFirst();
  return (
    row && {
      userId: row.user_id,
      domainId: row.domain_id,
      domain: row.domain_name,
      address: `${row.local_part}@${row.domain_name}`,
      displayName: row.display_name,
      status: row.status,
    }
  );
}

/** Some accounts that may log in, the newest first: to try whether a mail server lets us in. */
export async function findSomeActive(
  queries: Queries,
  limit: number,
): Promise<{ readonly accountId: number; readonly address: string }[]> {
  const rows = await queries
    .selectFrom('accounts')
    .innerJoin('domains', 'domains.id', 'accounts.domain_id')
    .select(['accounts.id as accountId', 'accounts.local_part', 'accounts.domain_name'])
    .where('accounts.status', '=', 'active')
    .where('domains.status', '=', 'active')
    .where(domainIsThere('accounts'))
    .orderBy('accounts.id', 'desc')
    .limit(limit)
    .execute();
  return rows.map(({ accountId, local_part, domain_name }) => ({
    accountId,
    address: `${local_part}@${domain_name}`,
  }));
}
