/** Whose mail an operation is about, and who shares what is scarce with others. */

import type { Database } from '../../platform/database/database.ts';
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

/**
 * Milliseconds for which one waits for its turn. While the database is away each write of a line fails late: whoever waits
 * at its end would be answered when he has gone, and his message would come twice.
 */
const WAIT_MS = 10_000;

/*
 * Requests that hold much for long: a thread, a connection to PostgreSQL, a snapshot of SQLite, memory. Searches, syncs of
 * more than one piece, indexes of large mailboxes, and changes of many messages. Few run at once, and of one user fewer.
 */

/** A user has two thirds of the slots, an account a third, and what else the service does needs the others. */
const AT_ONCE = 6;
const OF_ONE = { account: 2, tenant: 4 };
/** Requests of one account, under way or waiting. */
const IN_LINE_OF_ONE = 50;

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
    return this.#turns.run(parties, begin, signal).catch(refuseLate(signal, 'long requests'));
  }
}

/** For a `catch`: refuses whose turn did not come in time. */
function refuseLate(signal: AbortSignal, what: string): (error: unknown) => never {
  return (error) => {
    if (!signal.aborted || error !== signal.reason) throw error;
    throw new Refusal('unavailable', `too many ${what} are under way`, { retryAfter: 5 });
  };
}

/*
 * Writes to the mailboxes of one account, where many come at once. Each waits for the row of its mailbox, and on PostgreSQL
 * it holds a connection while it does: a hundred messages to one mailbox held all connections, and everybody's syncs and
 * mail waited behind them. So all but a few wait here, with none. SQLite has one writer, which they share.
 */

/** Writes of one account at once: one has the row, and the next begins without a pause. */
const OF_AN_ACCOUNT = 2;
const NEVER = new AbortController().signal;

export class WriteLine {
  readonly #turns: Turns | undefined;

  constructor({ engine }: Pick<Database, 'engine'>) {
    this.#turns = engine === 'postgres' ? new Turns(Number.POSITIVE_INFINITY) : undefined;
  }

  /**
   * Writes when it is the turn of all accounts. The work must not wait for another write of them.
   *
   * @param accountIds each once
   * @throws Refusal unavailable where too many others write for too long; then nothing was written
   */
  async run<T>(accountIds: readonly number[], write: () => Promise<T>): Promise<T> {
    const turns = this.#turns;
    if (!turns) return write();
    // In one order for all: no two of them wait for each other.
    const ids = accountIds.toSorted((a, b) => a - b);
    const parties = ids.map((id) => ({ name: `account ${id}`, most: OF_AN_ACCOUNT }));
    const waits = parties.some(({ name }) => turns.tasksOf(name) >= OF_AN_ACCOUNT);
    const signal = waits ? AbortSignal.timeout(WAIT_MS) : NEVER;
    return turns.run(parties, write, signal).catch(refuseLate(signal, 'writes to one account'));
  }
}
