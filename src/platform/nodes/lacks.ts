/**
 * What nodes lack for now, such as room on their disk: a node that lacks it notes that in a lease, which runs out by
 * itself. So a node knows whether another one is better off.
 */
import { databaseTime } from './clock.ts';
import { type LeaseOptions, take } from './lead.ts';

/** Notes that a node lacks something, until a lease from now on. @returns the ids of all nodes that lack it */
export async function noteLack({
  database,
  name: thing,
  owner,
}: LeaseOptions): Promise<ReadonlySet<string>> {
  const prefix = `lacks ${thing} `;
  await take({ database, name: prefix + owner, owner });
  const rows = await database.write(async (tx) => {
    // Those of nodes that have it again, or are gone.
    await tx
      .deleteFrom('leases')
      .where('name', 'like', `${prefix}%`)
      .where('until', '<=', databaseTime)
      .execute();
    return tx.selectFrom('leases').select('owner').where('name', 'like', `${prefix}%`).execute();
  });
  return new Set(rows.map((row) => row.owner));
}
