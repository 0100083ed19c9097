/** Deleted claims whose accounts and deliveries are removed in steps. */
import type { Database } from '../../platform/database/database.ts';

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
