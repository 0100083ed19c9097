/** Writes the rows of claims: new ones, those that an operator suspends, and those that are deleted. */
import { type Database, type Queries, withoutNulls } from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { claimColumns, type Domain } from './claims.ts';
import type { NewDkimKey } from './dns-records.ts';
import { checkText } from './domain-names.ts';

export interface NewDomain {
  readonly userId: string;
  readonly organizationId?: string | undefined;
  readonly domain: string;
}

/** @throws Refusal domain_exists */
export async function insertClaim(
  tx: Queries,
  input: NewDomain,
  key: NewDkimKey,
  now: EpochMs,
): Promise<Domain> {
  const row = await tx
    .insertInto('domains')
    .values({
      user_id: input.userId,
      organization_id: input.organizationId ?? null,
      name: input.domain,
      status: 'pending',
      dkim_selector: key.selector,
      dkim_private_key: key.privateKey,
      created_at: now,
      next_check_at: now,
      could_send: 0,
      could_send_since: now,
    })
    .onConflict((conflict) => conflict.columns(['user_id', 'name']).doNothing())
    .returning(claimColumns)
    .executeTakeFirst();
  if (!row) throw domainExists(input.domain);
  return withoutNulls(row);
}

export function domainExists(name: string): Refusal {
  return new Refusal('domain_exists', `the user has ${name} already`);
}

/* Domains that an operator has suspended: their mail is deferred, and nobody can sign in to their accounts. */

const REASON_MAX = 500;

/** Checks the reason of a suspension. @throws Refusal invalid_request (`reason`) */
export function checkReason(reason: string): void {
  checkText('reason', reason, REASON_MAX);
  if (/\p{Cc}/u.test(reason)) throw invalidField('reason', 'must not hold control characters');
}

/**
 * Suspends a claim, or resumes it. A claim that is suspended already keeps its time and its reason.
 *
 * @param suspendedAt undefined to resume it
 * @returns whether the claim exists and was not in that state
 */
export async function setSuspended(
  tx: Queries,
  id: number,
  suspendedAt: number | undefined,
  reason: string | undefined,
): Promise<boolean> {
  const isSuspension = suspendedAt !== undefined;
  const { numUpdatedRows } = await tx
    .updateTable('domains')
    .set({ suspended_at: suspendedAt ?? null, suspend_reason: reason ?? null })
    .where('id', '=', id)
    .where('suspended_at', isSuspension ? 'is' : 'is not', null)
    .executeTakeFirstOrThrow();
  return numUpdatedRows > 0;
}

/* Deleted claims whose accounts and deliveries are removed in steps. */

/** Ids of deleted claims that are read at a time. */
const DELETED_AT_A_TIME = 20;

/** Ids of deleted claims that may still have accounts or deliveries, a handful at a time. */
export async function listDeletedDomains({ read }: Pick<Database, 'read'>): Promise<number[]> {
  const query = read.selectFrom('deleted_domains').select('id').orderBy('id');
  return (await query.limit(DELETED_AT_A_TIME).execute()).map(({ id }) => id);
}

/** Ends the deletion of a claim that has nothing left. */
export async function endDomainDeletion(
  database: Pick<Database, 'write'>,
  id: number,
): Promise<void> {
  await database.write((tx) => tx.deleteFrom('deleted_domains').where('id', '=', id).execute());
}
