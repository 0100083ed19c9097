/** The accounts of an owner: one, pages of them, and how many there are. */
import {
  countUpTo,
  type IdPage,
  pageById,
  type Queries,
} from '../../platform/database/database.ts';
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
export async function lockAccount(tx: Queries, id: number): Promise<void> {
  if (!Number.isSafeInteger(id)) return;
  await tx.selectFrom('accounts').select('id').where('id', '=', id).forUpdate().execute();
}

/** Whose accounts: all of a user, those of one domain, or of domains that were claimed with an organization. */
export interface AccountsOf {
  readonly userId: string;
  readonly organizationId: string | undefined;
  readonly domainId: number | undefined;
}

/** Ordered by id. */
export async function listAccounts(
  queries: Queries,
  { userId, organizationId, domainId }: AccountsOf,
  page: IdPage,
): Promise<Account[]> {
  let query = selectAccounts(queries).where('user_id', '=', userId);
  if (domainId !== undefined) query = query.where('domain_id', '=', domainId);
  if (organizationId !== undefined) query = query.where(ofOrganization(organizationId));
  return (await pageById(query, page).execute()).map(toAccount);
}

/**
 * How many there are; `most` stands for as many or more.
 *
 * @returns undefined for those of one organization, which no index has
 */
export async function countAccountsOf(
  queries: Queries,
  { userId, organizationId, domainId }: AccountsOf,
  most: number,
): Promise<number | undefined> {
  if (organizationId !== undefined && domainId === undefined) return undefined;
  // By the domains that are there: the accounts of a deleted one may not be removed yet.
  const accounts = queries
    .selectFrom('domains')
    .innerJoin('accounts', 'accounts.domain_id', 'domains.id')
    .select('accounts.id')
    .where('domains.user_id', '=', userId);
  const own = domainId === undefined ? accounts : accounts.where('domains.id', '=', domainId);
  return countUpTo(queries, own, most);
}
