/** How much of a domain's mail is still to reach somebody. */
import type { Queries } from '../database/database.ts';

/** Counts the deliveries of a domain that have not ended. */
export async function countOpenDeliveries(queries: Queries, domainId: number): Promise<number> {
  const { count } = await queries
    .selectFrom('deliveries')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('domain_id', '=', domainId)
    .where('status', 'in', ['queued', 'held'])
    .executeTakeFirstOrThrow();
  return Number(count);
}
