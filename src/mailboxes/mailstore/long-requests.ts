/**
 * Requests that hold much for long: a thread, a connection to PostgreSQL, a snapshot of SQLite, memory. Searches, syncs of
 * more than one piece, indexes of large mailboxes, and changes of many messages. Few run at once, and of one user fewer.
 */
import { Refusal } from '../../platform/errors/errors.ts';
import { Turns } from '../../platform/net/net.ts';
import { type MailUser, partiesOf } from './mail-user.ts';

/** A user has two thirds of the slots, an account a third, and what else the service does needs the others. */
const AT_ONCE = 6;
const OF_ONE = { account: 2, tenant: 4 };
/** Requests of one account, under way or waiting. */
const IN_LINE_OF_ONE = 50;
/** Milliseconds for which one waits for its turn. */
const WAIT_MS = 10_000;

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
