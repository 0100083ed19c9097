/**
 * Removes shadows of mailboxes in short transactions. A dropped shadow keeps its row, with the account's id negated
 * and a new name, until its messages are removed; so no query finds it.
 */
import type { Database, Queries } from '../../../platform/database/database.ts';
import { marked } from '../../mailstore/mailstore.ts';

/** Rows that are removed in one transaction. */
const ROWS_AT_A_TIME = 500;

/** Marks one shadow as deleted, in the caller's transaction. */
export async function markShadow(tx: Queries, id: number): Promise<void> {
  await tx.updateTable('shadow_mailboxes').set(marked).where('id', '=', id).execute();
}

/** Marks the shadows of deleted accounts as deleted. */
export async function markShadowsOf(tx: Queries, accountIds: readonly number[]): Promise<void> {
  await tx
    .updateTable('shadow_mailboxes')
    .set(marked)
    .where('account_id', 'in', accountIds)
    .execute();
}

/** Drops all shadows: those of a restored database may be older than what apps have seen. */
export async function markAllShadows(tx: Queries): Promise<void> {
  await tx.updateTable('shadow_mailboxes').set(marked).where('account_id', '>', 0).execute();
}

/**
 * Removes a part of what dropped shadows have, in one transaction.
 *
 * @returns false where nothing is left
 */
export function purgeShadows(database: Database): Promise<boolean> {
  return database.write(async (tx) => {
    const shadow = await tx
      .selectFrom('shadow_mailboxes')
      .select('id')
      .where('account_id', '<', 0)
      .limit(1)
      // A transaction that still writes to it waits, and then finds it dropped.
      .forUpdate()
      .executeTakeFirst();
    if (!shadow) return false;
    for (const table of ['shadow_messages', 'shadow_tombstones'] as const) {
      const rows = await tx
        .selectFrom(table)
        .select('uid')
        .where('shadow_id', '=', shadow.id)
        .limit(ROWS_AT_A_TIME)
        .execute();
      if (rows.length === 0) continue;
      const uids = rows.map(({ uid }) => uid);
      await tx
        .deleteFrom(table)
        .where('shadow_id', '=', shadow.id)
        .where('uid', 'in', uids)
        .execute();
      return true;
    }
    await tx.deleteFrom('shadow_mailboxes').where('id', '=', shadow.id).execute();
    return true;
  });
}
