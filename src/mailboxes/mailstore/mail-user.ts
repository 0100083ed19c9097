/** Whose mail an operation is about, and who shares what is scarce with others. */

import { Refusal } from '../../platform/errors/errors.ts';
import { enterTurn, type Party, Turns, takeTurn } from '../../platform/net/net.ts';

/** Whose mail is meant; every operation is bound to one account. */
export interface MailUser {
  readonly accountId: number;
  readonly address: string;
  /** Whose account it is; absent where the caller has not asked. */
  readonly userId?: string | undefined;
  /** Whether the client that asks is gone: nobody waits for what is read for it. Absent where that changes nothing. */
  readonly hasLeft?: () => boolean;
}

/** Who shares what is scarce with others: the account, and the user it belongs to (or its domain). */
export function partiesOf(
  user: MailUser,
  most: { readonly account: number; readonly tenant: number },
): readonly Party[] {
  return [
    { name: `account ${user.accountId}`, most: most.account },
    { name: tenantOf(user), most: most.tenant },
  ];
}

/**
 * Milliseconds of a turn of the event loop. A hundred requests of one account, each of a few milliseconds, would hold
 * everybody else for the sum.
 */
export const OF_A_TURN = { account: 5, tenant: 10 };

/** Begins a request on mail. @returns what to wait for where the account or its user has used its share of this turn */
export function enterTurnOf(user: MailUser): Promise<void> | undefined {
  return enterTurn(partiesOf(user, OF_A_TURN));
}

/** Waits between two pieces of long work: until others had their turn, and the account and its user have a share again. */
export function takeTurnOf(user: MailUser): Promise<void> {
  return takeTurn(partiesOf(user, OF_A_TURN));
}

/** Names the user whose account it is: by the domain where the caller has not asked. */
export function tenantOf({ address, userId }: MailUser): string {
  return `user ${userId ?? address.slice(address.lastIndexOf('@') + 1)}`;
}

/** A user has two thirds of the slots, an account a third, and what else the service does needs the others. */
const AT_ONCE = 6;
const OF_ONE = { account: 2, tenant: 4 };
/** Requests of one account, under way or waiting. */
const IN_LINE_OF_ONE = 50;
/** Milliseconds for which one waits for its turn. */
const WAIT_MS = 10_000;

/**
 * Requests that hold much for long: a thread, a connection to PostgreSQL, a snapshot of SQLite, memory. Searches, syncs of
 * more than one piece, indexes of large mailboxes, and changes of many messages. Few run at once, and of one user fewer.
 */
export class LongRequests {
  readonly #turns = new Turns(AT_ONCE);

  /**
   * Works when it is the user's turn, unless the client has left by then.
   *
   * @throws Refusal rate_limited where the account has too many under way; unavailable under too much load
   */
  async run<T>(user: MailUser, work: () => Promise<T>): Promise<T> {
    const parties = partiesOf(user, OF_ONE);
    const [account] = parties;
    if (account && this.#turns.tasksOf(account.name) >= IN_LINE_OF_ONE) {
      throw new Refusal('rate_limited', 'too many long requests of this account are under way', {
        retryAfter: 1,
      });
    }
    const begin = () => {
      if (user.hasLeft?.()) throw new Refusal('unavailable', 'the client left before its turn');
      return work();
    };
    const signal = AbortSignal.timeout(WAIT_MS);
    try {
      return await this.#turns.run(parties, begin, signal);
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) throw error;
      throw new Refusal('unavailable', 'too many long requests are under way', { retryAfter: 5 });
    }
  }
}
