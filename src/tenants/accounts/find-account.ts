/** Finds one account: one of its owner, for what reads or changes it, or the one that mail is for. */
import { type Database, PreparedQuery, type Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  type ActiveDomain,
  checkUserId,
  selectActive,
  toActive,
  toOwner,
  type Whose,
} from '../domains/domains.ts';
import { type Account, ofOrganization, selectAccounts, toAccount } from './account-rows.ts';
import { mailLocalPart } from './local-parts.ts';

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

/* Where mail for an address goes: one query for each recipient of a message, compiled once. */

/** An account that mail is for. */
export type Recipient = Pick<Account, 'id' | 'address' | 'status' | 'quotaBytes'>;

interface Found {
  readonly domain: ActiveDomain;
  readonly account: Recipient | undefined;
}

const recipient = new PreparedQuery(
  ({ name, localPart }: { name: string; localPart: string }, queries) =>
    selectActive(queries, name)
      .leftJoin('accounts', (join) =>
        join.onRef('accounts.domain_id', '=', 'domains.id').on('local_part', '=', localPart),
      )
      .select(['accounts.id as account_id', 'local_part', 'accounts.status', 'quota_bytes']),
);

/**
 * The active claim on a domain, and the account on it that receives mail for a local part, without regard to case and
 * `+tag`. Suspended accounts are found too.
 *
 * @param address as `parseAddress` reads it
 */
export async function findRecipient(
  queries: Queries,
  { local, domain: name }: { readonly local: string; readonly domain: string },
): Promise<Found | undefined> {
  const row = await recipient.first(queries, { name, localPart: mailLocalPart(local) });
  if (!row) return undefined;
  const { account_id: id, local_part, status, quota_bytes: quotaBytes } = row;
  const account =
    id === null || status === null
      ? undefined
      : { id, address: `${local_part}@${name}`, status, quotaBytes };
  return { domain: toActive(row), account };
}
