/**
 * Deletes accounts. The row is removed at once, and with it all access: API, tokens, mail, sync. The data of the
 * account is removed afterwards, in short transactions: its id stays in `deleted_accounts` until its mailboxes are
 * removed.
 *
 * The accounts of a deleted domain are removed in steps, too. Until then their rows exist without a domain, and no
 * query of this folder finds them ({@link domainIsThere}).
 */
import { sql } from 'kysely';
import type { Database, Queries } from '../../platform/database/database.ts';
import { SECOND_MS, startOf } from '../../platform/time/time.ts';
import { address } from './account-addresses.ts';
import { CLOCK_SKEW_SECONDS } from './token-keys.ts';

/** Accounts of a deleted domain that are removed in one transaction. */
const ACCOUNTS_AT_A_TIME = 100;
const IDS_AT_A_TIME = 20;

/** The condition that an account's domain was not deleted. */
export function domainIsThere(accounts: 'accounts' | 'own') {
  const domainId = sql.ref(`${accounts}.domain_id`);
  return sql<boolean>`exists (select 1 from domains where domains.id = ${domainId})`;
}

/** Deletes accounts, and records that they had these addresses. */
export async function deleteAccounts(
  tx: Queries,
  accounts: readonly { readonly id: number; readonly address: string }[],
  now: number,
): Promise<void> {
  if (accounts.length === 0) return;
  const ids = accounts.map(({ id }) => id);
  await tx.deleteFrom('accounts').where('id', 'in', ids).execute();
  await tx
    .insertInto('deleted_accounts')
    .values(ids.map((id) => ({ id, deleted_at: now })))
    .execute();
  const addresses = accounts.map(({ address }) => address);
  await retireAddresses(tx, addresses, now);
}

/** Deletes some accounts of a deleted domain. @returns their ids; empty where the domain has no account left */
export function deleteSomeOfDomain(
  database: Database,
  domainId: number,
  now: number,
): Promise<number[]> {
  return database.write(async (tx) => {
    const accounts = await tx
      .selectFrom('accounts')
      .select(['id', address])
      .where('domain_id', '=', domainId)
      .orderBy('id')
      .limit(ACCOUNTS_AT_A_TIME)
      .forUpdate()
      .execute();
    await deleteAccounts(tx, accounts, now);
    return accounts.map(({ id }) => id);
  });
}

/** Ids of deleted accounts that may still have mailboxes, a handful at a time. */
export async function listDeletedAccounts({ read }: Pick<Database, 'read'>): Promise<number[]> {
  const rows = await read
    .selectFrom('deleted_accounts')
    .select('id')
    .orderBy('id')
    .limit(IDS_AT_A_TIME)
    .execute();
  return rows.map(({ id }) => id);
}

/** Ends the deletion of accounts, in the transaction that removes their last mailboxes. */
export async function endAccountDeletion(tx: Queries, ids: readonly number[]): Promise<void> {
  await tx.deleteFrom('deleted_accounts').where('id', 'in', ids).execute();
}

/*
 * Addresses that had an account before, so that a token for that account never opens another one.
 *
 * A token of the operator's names an address and, usually, the second in which it was issued (`iat`, RFC 7519 section
 * 4.1.6). An account at an address that never had another one accepts tokens with and without `iat`. Otherwise
 * `accounts.tokens_from` says from which instant on tokens are for this account, and a token without `iat` is refused.
 *
 * The issuer's clock may be ahead of ours by {@link CLOCK_SKEW_SECONDS}. The last token of the earlier account may
 * therefore have an `iat` that is so much later than the end of that account. The new account accepts tokens from the
 * second after that ({@link afterLastToken}): until then, apps with tokens of the operator's have to wait.
 */

/** Records addresses that are deleted in this transaction, for good. */
async function retireAddresses(
  tx: Queries,
  addresses: readonly string[],
  now: number,
): Promise<void> {
  await tx
    .insertInto('retired_addresses')
    .values(addresses.map((address) => ({ address, retired_at: now })))
    .onConflict((conflict) => conflict.column('address').doUpdateSet({ retired_at: now }))
    .execute();
}

/** The first second that no token of an account can have which ended at this instant, in milliseconds. */
export function afterLastToken(endedAt: number): number {
  return startOf(SECOND_MS, endedAt) + (CLOCK_SKEW_SECONDS + 1) * SECOND_MS;
}

/** The `tokens_from` of a new account; 0 where the address never had another one. */
export async function tokensFrom(
  tx: Queries,
  localPart: string,
  domain: string,
  now: number,
): Promise<number> {
  const second = startOf(SECOND_MS, now);
  const retired = await tx
    .selectFrom('retired_addresses')
    .select('retired_at')
    .where('address', '=', `${localPart}@${domain}`)
    .executeTakeFirst();
  const hasRivals = await bindRivals(tx, localPart, domain, now);
  if (await isBeingRetired(tx, localPart, domain)) return afterLastToken(now);
  if (retired) return Math.max(second, afterLastToken(retired.retired_at));
  return hasRivals ? second : 0;
}

/** Whether an account of a deleted domain has the address, and will be deleted with it. */
async function isBeingRetired(tx: Queries, localPart: string, domain: string): Promise<boolean> {
  const row = await tx
    .selectFrom('accounts')
    .innerJoin('deleted_domains', 'deleted_domains.id', 'accounts.domain_id')
    .select('accounts.id')
    .where('accounts.domain_name', '=', domain)
    .where('accounts.local_part', '=', localPart)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Accounts of the same address on claims that are no longer active: should they become active again, tokens from the
 * time in between must not open them.
 *
 * @returns whether there are any
 */
async function bindRivals(
  tx: Queries,
  localPart: string,
  domain: string,
  now: number,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('accounts')
    .set({ tokens_from: afterLastToken(now) })
    .where('domain_name', '=', domain)
    .where('local_part', '=', localPart)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}
