/** One account of its owner, for what reads or changes it. */
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { checkUserId, toOwner, type Whose } from '../domains/domains.ts';
import { type Account, ofOrganization, selectAccounts, toAccount } from './account-rows.ts';

/** @throws Refusal account_not_found */
export async function readAccount(queries: Queries, whose: Whose, id: number): Promise<Account> {
  const { userId, organizationId } = toOwner(whose);
  checkUserId(userId);
  const row = Number.isSafeInteger(id)
    ? await selectAccounts(queries)
        .where('id', '=', id)
        .where('user_id', '=', userId)
        .$if(organizationId !== undefined, (query) =>
          query.where(ofOrganization(organizationId ?? '')),
        )
        .executeTakeFirst()
    : undefined;
  if (!row) throw new Refusal('account_not_found', `the user has no account ${id}`);
  return toAccount(row);
}

/** On PostgreSQL two deletions could otherwise read the same row, and both report it as deleted. */
export async function lockAccount(
  tx: Queries,
  engine: Database['engine'],
  id: number,
): Promise<void> {
  if (engine !== 'postgres' || !Number.isSafeInteger(id)) return;
  await tx.selectFrom('accounts').select('id').where('id', '=', id).forUpdate().execute();
}
