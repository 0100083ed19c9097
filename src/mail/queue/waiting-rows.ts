/** What waits for one party, a domain or an event hook, changed at once: only where no more than some thousand do. */
import type { Queries } from '../../platform/database/database.ts';

/** Rows that wait, and are not being attempted. */
const waitingStates = ['queued', 'held'] as const;

/** Gives what waits another receiver; after the commit {@link Queue.wake}. An attempt that is under way ends where it began. */
export async function redirectDeliveries(
  tx: Queries,
  domainId: number,
  to: { readonly destination: string; readonly url: string },
): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set(to)
    .where('domain_id', '=', domainId)
    .where('status', 'in', waitingStates)
    .where('lease_owner', 'is', null)
    .execute();
}

/** Removes what waits. @returns the bodies that it named */
export async function withdrawDeliveries(tx: Queries, domainId: number): Promise<number[]> {
  const rows = await tx
    .deleteFrom('deliveries')
    .where('domain_id', '=', domainId)
    .where('status', 'in', waitingStates)
    .where('lease_owner', 'is', null)
    .returning('body_id')
    .execute();
  return [...new Set(rows.map(({ body_id }) => body_id))];
}

/** Those of some public ids that have a row. */
export async function findQueued(tx: Queries, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await tx
    .selectFrom('deliveries')
    .select('public_id')
    .where('public_id', 'in', ids)
    .execute();
  return new Set(rows.map(({ public_id }) => public_id));
}
