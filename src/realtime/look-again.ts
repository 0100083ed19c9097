/**
 * Finds what other nodes did while nobody told this one: events between nodes may be lost. Compares what the
 * sockets were told with what the database says, and tells them the difference.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { AccountAccess, MailAccess } from '../accounts/accounts.ts';
import type { AccountFeed, MailboxTip } from './connection.ts';

/** What is asked of the database, for many accounts at once. */
export interface SharedState {
  /** Who may open which account now; accounts that are gone are left out. */
  accessOf(accountIds: readonly number[]): Promise<ReadonlyMap<number, AccountAccess>>;
  /**
   * Where the mailboxes of accounts stand now; accounts of which that is not known are left out.
   *
   * @param afterGap whether events were lost for sure
   */
  tipsOf(
    users: readonly MailAccess[],
    afterGap: boolean,
  ): Promise<ReadonlyMap<number, readonly MailboxTip[]>>;
}

/** Accounts of one query. */
const ACCOUNTS_AT_A_TIME = 2_000;

/**
 * Ends connections whose account or password is not what it was, and tells the others of each mailbox that
 * stands elsewhere than they were told.
 *
 * @param feeds by account; may change meanwhile
 */
export async function lookAgain(
  feeds: ReadonlyMap<number, AccountFeed>,
  state: SharedState,
  afterGap: boolean,
): Promise<void> {
  const all = [...feeds];
  for (let at = 0; at < all.length; at += ACCOUNTS_AT_A_TIME) {
    const some = all.slice(at, at + ACCOUNTS_AT_A_TIME);
    const users = some.flatMap(([, feed]) => feed.beginLook() ?? []);
    const [access, tips] = await Promise.all([
      state.accessOf(some.map(([id]) => id)),
      state.tipsOf(users, afterGap),
    ]);
    for (const [id, feed] of some) {
      if (feeds.get(id) !== feed) continue;
      feed.endWhereNotAllowed(access.get(id));
      const now = tips.get(id);
      if (now) feed.tellMissed(now);
    }
    await turn();
  }
}
