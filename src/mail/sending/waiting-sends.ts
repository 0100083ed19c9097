/** Messages that a recipient still waits for: apps list them, and they are not removed by their age. */
import type { ExpressionBuilder } from 'kysely';
import type { Queries, Schema } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { SendRow } from './send-rows.ts';

/** Messages that are looked at for some that wait: of an account that sends thousands each day, the newest alone. */
const LOOKED_AT = 1_000;
const WAITING_MAX = 100;

const time = ({ fn }: ExpressionBuilder<Schema, 'sends'>) => fn.coalesce('send_at', 'created_at');

const hasWaiting = ({ exists, selectFrom }: ExpressionBuilder<Schema, 'sends'>) =>
  exists(
    selectFrom('send_recipients')
      .select('send_recipients.id')
      .whereRef('send_recipients.send_id', '=', 'sends.id')
      .where('send_recipients.status', 'in', ['queued', 'deferred']),
  );

/** Messages of an account that a recipient still waits for: those for later first, then the newest. */
export function findWaiting(queries: Queries, accountId: number): Promise<SendRow[]> {
  return queries
    .selectFrom((eb) =>
      eb
        .selectFrom('sends')
        .selectAll()
        .where('account_id', '=', accountId)
        .orderBy(time, 'desc')
        .limit(LOOKED_AT)
        .as('sends'),
    )
    .selectAll()
    .where(hasWaiting)
    .orderBy(time, 'desc')
    .limit(WAITING_MAX)
    .execute();
}

/** Rows that are removed in one transaction. */
const PRUNED_AT_A_TIME = 200;

/**
 * Removes some messages that were sent before an instant, and whose deliveries have all ended.
 *
 * @returns how many; 0 where no such message is left
 */
export async function pruneSends(tx: Queries, before: EpochMs): Promise<number> {
  const rows = await tx
    .deleteFrom('sends')
    .where('id', 'in', (eb) =>
      eb
        .selectFrom('sends')
        .select('id')
        .where('created_at', '<', before)
        .where(time, '<', before)
        .where((eb) => eb.not(hasWaiting(eb)))
        .orderBy('created_at')
        .limit(PRUNED_AT_A_TIME),
    )
    .returning('id')
    .execute();
  return rows.length;
}
