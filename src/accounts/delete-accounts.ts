/**
 * Deleting accounts. The row goes at once, and with it every way in: API, tokens, mail, sync. What it
 * had is removed afterwards, in short transactions: its id waits in `deleted_accounts` until its
 * mailboxes have been taken away from it.
 *
 * The accounts of a deleted domain go in steps, too. Until then they lie there without a domain, and no
 * query of this folder finds them ({@link domainIsThere}).
 */
import { sql } from 'kysely';
import type { Database, Queries } from '../database/database.ts';
import { retireAddresses } from './retired-addresses.ts';

/** Accounts of a deleted domain that go in one transaction. */
const ACCOUNTS_AT_A_TIME = 100;
/** Ids that are read at a time. */
const IDS_AT_A_TIME = 20;

/** The condition that an account's domain was not deleted. */
export function domainIsThere(accounts: 'accounts' | 'own') {
  const domainId = sql.ref(`${accounts}.domain_id`);
  return sql<boolean>`exists (select 1 from domains where domains.id = ${domainId})`;
}

/** Deletes accounts, and remembers that they had these addresses. */
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

/**
 * Deletes some accounts of a deleted domain.
 *
 * @returns their ids; none where the domain has no account any more
 */
export function deleteSomeOfDomain(
  database: Database,
  domainId: number,
  now: number,
): Promise<number[]> {
  return database.write(async (tx) => {
    const rows = await tx
      .selectFrom('accounts')
      .select(['id', 'local_part', 'domain_name'])
      .where('domain_id', '=', domainId)
      .orderBy('id')
      .limit(ACCOUNTS_AT_A_TIME)
      .$if(database.engine === 'postgres', (query) => query.forUpdate())
      .execute();
    const accounts = rows.map(({ id, local_part, domain_name }) => ({
      id,
      address: `${local_part}@${domain_name}`,
    }));
    await deleteAccounts(tx, accounts, now);
    return rows.map(({ id }) => id);
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

/** Ends the deletion of accounts, in the transaction that takes away what they had. */
export async function endAccountDeletion(tx: Queries, ids: readonly number[]): Promise<void> {
  await tx.deleteFrom('deleted_accounts').where('id', 'in', ids).execute();
}
