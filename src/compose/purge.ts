/**
 * Removes what deleted accounts and domains had: one short transaction at a time, each of which leaves a
 * state that the next start goes on from. Nobody but this still finds any of it.
 */
import { type Accounts, endAccountDeletion, listDeletedAccounts } from '../accounts/accounts.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { Database, Queries } from '../database/database.ts';
import type { Domains } from '../domains/domains.ts';
import type { Queue } from '../queue/queue.ts';

/** Where accounts have mail. */
export interface PurgedStore {
  /** Takes the mailboxes away from accounts that are deleted, in the caller's transaction. */
  bury(tx: Queries, accountIds: readonly number[]): Promise<void>;
  /** Removes some of what was taken away, in one transaction. @returns false where nothing is left */
  purge(): Promise<boolean>;
}

export interface PurgeOptions {
  readonly database: Database;
  readonly domains: Pick<Domains, 'listDeleted' | 'endDeletion'>;
  readonly accounts: Pick<Accounts, 'removeSomeOf'>;
  readonly queue: Pick<Queue, 'removeSomeOf' | 'prune'>;
  readonly bodies: Bodies;
  readonly stores: readonly PurgedStore[];
}

/**
 * Does a little of what is to be done, in short transactions; of several nodes each may.
 *
 * @returns false where nothing is left
 */
export async function purgeStep(options: PurgeOptions): Promise<boolean> {
  const { database, domains, stores } = options;
  const domainIds = await domains.listDeleted();
  // All of them in turn: one may have millions of deliveries.
  for (const id of domainIds) await purgeDomain(options, id);
  if (domainIds.length > 0) return true;
  const accountIds = await listDeletedAccounts(database);
  if (accountIds.length > 0) {
    await database.write(async (tx) => {
      for (const store of stores) await store.bury(tx, accountIds);
      await endAccountDeletion(tx, accountIds);
    });
    return true;
  }
  for (const store of stores) if (await store.purge()) return true;
  return false;
}

async function purgeDomain(options: PurgeOptions, id: number): Promise<void> {
  const { domains, accounts, queue } = options;
  // What waits for its turn must not go out any more, so it goes first.
  const deliveries = await removeDeliveries(options, (tx) => queue.removeSomeOf(tx, id));
  const hadAccounts = await accounts.removeSomeOf(id);
  if (deliveries === 0 && !hadAccounts) await domains.endDeletion(id);
}

/**
 * Removes deliveries and the bodies that nobody names any more, in one transaction.
 *
 * @param remove answers the bodies of those it removed
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
