/**
 * Removes the data of deleted accounts and domains in short transactions, each of which leaves a state from which the
 * next start can continue. No other query finds this data any more.
 */

import { removeDeliveriesOf } from '../../mail/queue/queue.ts';
import { deleteSendsOf, removeSuppressionsOf } from '../../mail/sending/sending.ts';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Database, Queries } from '../../platform/database/database.ts';
import {
  type Accounts,
  endAccountDeletion,
  listDeletedAccounts,
  removeAnswersOf,
} from '../../tenants/accounts/accounts.ts';
import { endDomainDeletion, listDeletedDomains } from '../../tenants/domains/domains.ts';

/** A store with mail of accounts. */
export interface PurgedStore {
  /** Marks the mailboxes of deleted accounts for removal, in the caller's transaction. */
  markForPurge(tx: Queries, accountIds: readonly number[]): Promise<void>;
  /** Removes a part of what was marked, in one transaction. @returns false where nothing is left */
  purge(): Promise<boolean>;
}

export interface PurgeOptions {
  readonly database: Database;
  readonly accounts: Pick<Accounts, 'removeSomeOf'>;
  readonly bodies: Bodies;
  readonly stores: readonly PurgedStore[];
}

/**
 * Does a part of the work, in short transactions; several nodes may do it at once.
 *
 * @returns false where nothing is left
 */
export async function purgeStep(options: PurgeOptions): Promise<boolean> {
  const { database, stores } = options;
  const domainIds = await listDeletedDomains(database);
  // All of them in turn: one may have millions of deliveries.
  for (const id of domainIds) await purgeDomain(options, id);
  if (domainIds.length > 0) return true;
  const accountIds = await listDeletedAccounts(database);
  if (accountIds.length > 0) {
    await database.write(async (tx) => {
      if (await deleteSendsOf(tx, accountIds)) return;
      if (await removeAnswersOf(tx, accountIds)) return;
      for (const store of stores) await store.markForPurge(tx, accountIds);
      await endAccountDeletion(tx, accountIds);
    });
    return true;
  }
  for (const store of stores) if (await store.purge()) return true;
  return false;
}

async function purgeDomain(options: PurgeOptions, id: number): Promise<void> {
  const { database, accounts } = options;
  // Waiting deliveries must not be sent any more, so they are removed first.
  let deliveries = 0;
  await removeDeliveries(options, async (tx) => {
    const { found, bodyIds } = await removeDeliveriesOf(tx, id);
    deliveries = found;
    return bodyIds;
  });
  const hadAccounts = await accounts.removeSomeOf(id);
  const suppressed = await database.write((tx) => removeSuppressionsOf(tx, id));
  if (deliveries + suppressed === 0 && !hadAccounts) await endDomainDeletion(database, id);
}

/**
 * Removes deliveries and the bodies that are no longer named, in one transaction.
 *
 * @param remove returns the bodies of those it removed
 * @returns how many deliveries it removed
 */
export async function removeDeliveries(
  { database, bodies }: Pick<PurgeOptions, 'database' | 'bodies'>,
  remove: (tx: Queries) => Promise<number[]>,
): Promise<number> {
  const { removed, files } = await database.write(async (tx) => {
    const bodyIds = await remove(tx);
    return { removed: bodyIds.length, files: await bodies.release(tx, bodyIds) };
  });
  await bodies.removeFiles(files);
  return removed;
}
