/**
 * A restore gives each mailbox another UIDVALIDITY. Mail that waits to be sent names its copy in Sent and its draft by the
 * one of before: a cancel would leave the copy, and the draft would stay when the mail goes.
 */
import type { Queries } from '../../platform/database/database.ts';
import type { PinnedLocation } from './copies.ts';
import { readLocation } from './send-rows.ts';

/**
 * Renews the UIDVALIDITY of mailboxes, and names what is in them by the new one where it was valid before.
 *
 * @param renew in the same transaction
 */
export async function renewSends(tx: Queries, renew: () => Promise<void>): Promise<void> {
  const waiting = await waitingIn(tx)
    .select(['id', 'account_id', 'mailbox', 'uid', 'uidvalidity', 'draft'])
    .execute();
  const before = await readMailboxes(tx);
  await renew();
  const after = await readMailboxes(tx);
  for (const { id, account_id: accountId, mailbox, uid, uidvalidity, draft } of waiting) {
    const renewed = (location: PinnedLocation): PinnedLocation => {
      const key = keyOf(accountId, location.mailbox);
      const now = before.get(key) === location.uidvalidity ? after.get(key) : undefined;
      return { ...location, uidvalidity: now ?? location.uidvalidity };
    };
    const values = {
      uidvalidity: renewed({ mailbox, uid, uidvalidity }).uidvalidity,
      draft: draft === null ? null : JSON.stringify(renewed(readLocation(draft))),
    };
    await tx.updateTable('sends').set(values).where('id', '=', id).execute();
  }
}

/** Also those that are tried again: what went out to nobody can be cancelled. */
function waitingIn(tx: Queries) {
  return tx
    .selectFrom('sends')
    .where('cancelled_at', 'is', null)
    .where('id', 'in', ({ selectFrom }) =>
      selectFrom('send_recipients').select('send_id').where('status', 'in', ['queued', 'deferred']),
    );
}

const keyOf = (accountId: number, mailbox: string) => `${accountId} ${mailbox}`;

/** The UIDVALIDITY of each mailbox of those who have mail that waits. */
async function readMailboxes(tx: Queries): Promise<ReadonlyMap<string, string>> {
  const rows = await tx
    .selectFrom('mailboxes')
    .select(['account_id', 'name', 'uidvalidity'])
    .where('account_id', 'in', waitingIn(tx).select('account_id'))
    .execute();
  return new Map(rows.map((row) => [keyOf(row.account_id, row.name), String(row.uidvalidity)]));
}
