/** Domains that an operator has suspended: their mail is deferred, and nobody can sign in to their accounts. */
import type { Queries } from '../../platform/database/database.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import { checkText } from './domain-names.ts';

const REASON_MAX = 500;

/** Checks the reason of a suspension. @throws Refusal invalid_request (`reason`) */
export function checkReason(reason: string): void {
  checkText('reason', reason, REASON_MAX);
  if (/\p{Cc}/u.test(reason)) throw invalidField('reason', 'must not hold control characters');
}

/**
 * Suspends a claim, or resumes it. A claim that is suspended already keeps its time, and gets the new reason.
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
  const before = await tx
    .selectFrom('domains')
    .select('suspended_at')
    .where('id', '=', id)
    .executeTakeFirst();
  if (!before) return false;
  await tx
    .updateTable('domains')
    .set({
      suspended_at: suspendedAt === undefined ? null : (before.suspended_at ?? suspendedAt),
      suspend_reason: reason ?? null,
    })
    .where('id', '=', id)
    .execute();
  return (before.suspended_at === null) !== (suspendedAt === undefined);
}
