/** Domains of benchmarks that write to the database themselves. */
import type { Queries } from '../../src/platform/database/database.ts';

export const USER_ID = 'bench';

/** Inserts an active domain of {@link USER_ID}. @returns its id */
export async function insertDomain(tx: Queries, name = 'bench.test'): Promise<number> {
  const { id } = await tx
    .insertInto('domains')
    .values({
      user_id: USER_ID,
      organization_id: null,
      name,
      status: 'active',
      dkim_selector: 'bench',
      dkim_private_key: 'none',
      created_at: 0,
      verified_at: 0,
      lapsed_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}
