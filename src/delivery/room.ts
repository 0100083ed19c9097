/** Whether accounts have room for a message, by their quotas. */
import { LRUCache } from 'lru-cache';
import type { Account } from '../accounts/accounts.ts';
import type { Database } from '../database/database.ts';
import type { Refusal } from '../errors/errors.ts';
import { type EmbeddedMailstore, fits, quotaExceeded } from '../mailstore/mailstore.ts';

export interface RoomSources {
  readonly database: Database;
  /** Our own mailboxes. */
  readonly mailstore: Pick<EmbeddedMailstore, 'quotas'>;
  /** Where the mailboxes are a mail server's, which has quotas of its own. */
  readonly mailServer?: object | undefined;
}

/** Whether what comes to the account has to be measured by its quota. */
export function isLimited({ mailstore, mailServer }: RoomSources, account: Account): boolean {
  return !mailServer && mailstore.quotas.isLimited(account.quotaBytes);
}

/**
 * Judges by what is stored now; the transaction that stores the message judges again.
 *
 * @param octets of the message, as far as they are known
 */
export async function refuseWithoutRoom(
  sources: RoomSources,
  account: Account,
  octets: number,
): Promise<Refusal | undefined> {
  if (!isLimited(sources, account)) return undefined;
  const { database, mailstore } = sources;
  const { id, address } = account;
  const [room] = await mailstore.quotas.rooms(database.read, [id]);
  return room && !fits(room, octets) ? quotaExceeded(address) : undefined;
}

/** What our trace fields add to a message at most, in octets: its sender's SIZE does not count them. */
const TRACE_MAX = 4_096;
const MARKS_MAX = 1_000;
/** How long a sender may take to come again. */
const MARK_MS = 4 * 60 * 60 * 1000;

/**
 * Messages that had no room in one of several mailboxes, by account and sender. SMTP has one answer for all of them,
 * so the sender is asked to come again. Then RCPT refuses the mailbox that has no room, and the others get the
 * message, also where the sender does not say how large it is. Mail of other senders is judged by itself.
 */
export class RoomMarks {
  readonly #octets = new LRUCache<string, number>({ max: MARKS_MAX, ttl: MARK_MS });

  /**
   * @param from reverse-path
   * @param octets of the message that had no room
   */
  note(accountId: number, from: string, octets: number): void {
    this.#octets.set(`${accountId} ${from}`, octets);
  }

  /**
   * How many octets a message has to have room for.
   *
   * @param from reverse-path
   * @param declared what the sender says that it has; 0 where it does not say
   */
  octetsFor(accountId: number, from: string, declared: number): number {
    const noted = this.#octets.get(`${accountId} ${from}`) ?? 0;
    const isTheSame = declared === 0 || (noted >= declared && noted - declared <= TRACE_MAX);
    return Math.max(isTheSame ? noted : declared, 1);
  }
}
