import { sql } from 'kysely';
import type { Database, Queries } from '../../src/platform/database/database.ts';

/**
 * Does the same in two transactions at once, as two nodes do: the second one begins while the first is not committed. On
 * PostgreSQL it is known to wait for a row of it.
 *
 * @returns what the second one did
 */
export async function twiceAtOnce<T>(
  database: Database,
  work: (tx: Queries) => Promise<T>,
): Promise<T> {
  const { second } = await database.write(async (tx) => {
    await work(tx);
    const other = database.write(work);
    const waiting = sql`select 1 from pg_locks where not granted`;
    while (database.engine === 'postgres' && (await waiting.execute(tx)).rows.length === 0);
    return { second: other };
  });
  return await second;
}
