/**
 * Finds what other nodes changed without an event here: events between nodes may be lost. Compares what the sockets
 * got with the database, and sends them the difference.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { AccountAccess, MailAccess } from '../../tenants/accounts/accounts.ts';
import type { AccountFeed, MailboxTip } from './connection.ts';

/** Reads of the database, for many accounts at once. */
export interface SharedState {
  /** The access of accounts now; deleted accounts are left out. */
  accessOf(accountIds: readonly number[]): Promise<ReadonlyMap<number, AccountAccess>>;
  /**
   * The current states of the accounts' mailboxes; accounts whose states are not known are left out.
   *
   * @param afterGap whether events were certainly lost
   */
  tipsOf(
    users: readonly MailAccess[],
    afterGap: boolean,
  ): Promise<ReadonlyMap<number, readonly MailboxTip[]>>;
}

const ACCOUNTS_AT_A_TIME = 2_000;

/**
 * Ends connections whose account or password has changed, and sends the others each mailbox whose state differs from
 * the last one sent.
 *
 * @param feeds by account; may change meanwhile
 */
export async function resync(
  feeds: ReadonlyMap<number, AccountFeed>,
  state: SharedState,
  afterGap: boolean,
): Promise<void> {
  const all = [...feeds];
  for (let at = 0; at < all.length; at += ACCOUNTS_AT_A_TIME) {
    const some = all.slice(at, at + ACCOUNTS_AT_A_TIME);
    const users = some.flatMap(([, feed]) => feed.beginResync() ?? []);
    const [access, tips] = await Promise.all([
      state.accessOf(some.map(([id]) => id)),
      state.tipsOf(users, afterGap),
    ]);
    for (const [id, feed] of some) {
      if (feeds.get(id) !== feed) continue;
      feed.endUnlessAllowed(access.get(id));
      const now = tips.get(id);
      if (now) feed.sendMissed(now);
    }
    await turn();
  }
}
