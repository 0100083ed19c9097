/** The deliveries of a whole domain: how many there are, and how they wait while an operator has suspended it. */
import { sql } from 'kysely';
import type { Database, Queries } from '../database/database.ts';

/** Rows that change in one transaction: others write in between. */
const ROWS_AT_A_TIME = 500;

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

/** Whether the domain of a delivery is suspended, for queries on `deliveries`. */
export const domainIsSuspended = sql<boolean>`exists (
  select 1 from domains where domains.id = deliveries.domain_id and domains.suspended_at is not null)`;

/**
 * Holds what is queued of a suspended domain. Attempts under way go on; one that has to be repeated is held when its
 * outcome is written.
 *
 * @returns how many were held
 */
export function holdSuspended(database: Database, domainId: number, now: number): Promise<number> {
  return inSteps(async () => {
    const rows = await database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ status: 'held', held_by: 'suspension', updated_at: now })
        .where('id', 'in', (eb) =>
          eb
            .selectFrom('deliveries')
            .select('id')
            .where('domain_id', '=', domainId)
            .where('status', '=', 'queued')
            .where('lease_owner', 'is', null)
            .where(domainIsSuspended)
            .orderBy('id')
            .limit(ROWS_AT_A_TIME),
        )
        .where('status', '=', 'queued')
        .where('lease_owner', 'is', null)
        .returning('id')
        .execute(),
    );
    return rows.length;
  });
}

/** A receiver that has deliveries to take again. */
export interface Released {
  readonly kind: string;
  readonly destination: string;
}

/**
 * Queues again what was held for a suspension, each due when it was due before.
 *
 * @param onReleased told of each step
 * @returns how many were queued
 */
export function releaseSuspended(
  database: Database,
  domainId: number,
  now: number,
  onReleased: (rows: readonly Released[]) => void,
): Promise<number> {
  return inSteps(async () => {
    const rows = await database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ status: 'queued', held_by: null, updated_at: now })
        .where('id', 'in', (eb) =>
          eb
            .selectFrom('deliveries')
            .select('id')
            .where('domain_id', '=', domainId)
            .where('status', '=', 'held')
            .where('held_by', '=', 'suspension')
            .where(({ not }) => not(domainIsSuspended))
            .orderBy('id')
            .limit(ROWS_AT_A_TIME),
        )
        .returning(['kind', 'destination'])
        .execute(),
    );
    onReleased(rows);
    return rows.length;
  });
}

async function inSteps(step: () => Promise<number>): Promise<number> {
  for (let changed = 0; ; ) {
    const rows = await step();
    changed += rows;
    if (rows < ROWS_AT_A_TIME) return changed;
  }
}
