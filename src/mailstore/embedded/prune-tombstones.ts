import type { Database } from '../../database/database.ts';

/** Mailboxes in one transaction, so that writers never wait long. */
const MAILBOXES_AT_A_TIME = 100;

/**
 * Removes tombstones of messages that were expunged before `before` (milliseconds since 1970) and
 * notes in each mailbox up to which MODSEQ removals are no longer known.
 *
 * @returns how many were removed
 */
export async function pruneTombstones(database: Database, before: number): Promise<number> {
  let pruned = 0;
  for (;;) {
    const old = await database.read
      .selectFrom('tombstones')
      .select(({ fn }) => ['mailbox_id', fn.max('modseq').as('modseq')])
      .where('expunged_at', '<', before)
      .groupBy('mailbox_id')
      .limit(MAILBOXES_AT_A_TIME)
      .execute();
    if (old.length === 0) return pruned;
    pruned += await database.write(async (tx) => {
      let removed = 0;
      for (const { mailbox_id, modseq } of old) {
        await tx
          .updateTable('mailboxes')
          .set({ pruned_modseq: modseq })
          .where('id', '=', mailbox_id)
          .where('pruned_modseq', '<', modseq)
          .execute();
        const { numDeletedRows } = await tx
          .deleteFrom('tombstones')
          .where('mailbox_id', '=', mailbox_id)
          .where('modseq', '<=', modseq)
          .executeTakeFirst();
        removed += Number(numDeletedRows);
      }
      return removed;
    });
  }
}
