import type { Database, Queries } from '../../database/database.ts';

/** So that neither the query nor the transaction holds the thread for long. */
const ROWS_AT_A_TIME = 200;

/**
 * Removes tombstones of messages that were expunged before `before` (milliseconds since 1970) and
 * notes in each mailbox up to which MODSEQ removals are no longer known.
 *
 * @param signal ends it early
 * @returns how many were removed
 */
export async function pruneTombstones(
  database: Database,
  before: number,
  signal?: AbortSignal,
): Promise<number> {
  let pruned = 0;
  for (;;) {
    const old = await oldTombstones(database.read, before).execute();
    if (old.length === 0 || signal?.aborted) return pruned;
    // The last of each mailbox; what is below was expunged before it.
    const last = new Map<number, number>();
    for (const { mailbox_id, modseq } of old) {
      last.set(mailbox_id, Math.max(modseq, last.get(mailbox_id) ?? modseq));
    }
    pruned += await database.write(async (tx) => {
      let removed = 0;
      for (const [mailboxId, modseq] of last) {
        await tx
          .updateTable('mailboxes')
          .set({ pruned_modseq: modseq })
          .where('id', '=', mailboxId)
          .where('pruned_modseq', '<', modseq)
          .execute();
        const { numDeletedRows } = await tx
          .deleteFrom('tombstones')
          .where('mailbox_id', '=', mailboxId)
          .where('modseq', '<=', modseq)
          .executeTakeFirst();
        removed += Number(numDeletedRows);
      }
      return removed;
    });
  }
}

/** The oldest of those that are to go, found by their time. */
export function oldTombstones(queries: Queries, before: number) {
  return queries
    .selectFrom('tombstones')
    .select(['mailbox_id', 'modseq'])
    .where('expunged_at', '<', before)
    .orderBy('expunged_at')
    .limit(ROWS_AT_A_TIME);
}
