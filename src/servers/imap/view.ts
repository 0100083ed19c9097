/**
 * What one session sees of the mailbox that it has selected: its messages by sequence number, as far as it was told
 * (RFC 9051 section 2.3.1.2). Only `tell-changes.ts` moves it on.
 */
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { BadCommand } from './cursor.ts';

export class View {
  readonly mailbox: OpenMailbox;
  readonly isReadOnly: boolean;
  /** UIDs by sequence number, ascending. */
  #uids: number[];
  /** The state of which all additions and flags were told; a sync goes on from here. */
  token: string;
  /** Messages that are removed, and must not be told yet. */
  readonly untold = new Set<number>();
  /** The highest MODSEQ that may be told (RFC 7162 section 7): no removal up to it is untold. */
  highestModseq: number;
  /** `$`: the result of the last search that was saved (RFC 5182). */
  saved: readonly number[] = [];

  constructor(mailbox: OpenMailbox, uids: number[], token: string, isReadOnly: boolean) {
    this.mailbox = mailbox;
    this.#uids = uids;
    this.token = token;
    this.highestModseq = Number(token);
    this.isReadOnly = isReadOnly;
  }

  get size(): number {
    return this.#uids.length;
  }

  get lastUid(): number {
    return this.#uids.at(-1) ?? 0;
  }

  get uids(): readonly number[] {
    return this.#uids;
  }

  /** The sequence number of a message; 0 where the session does not see it. */
  numberOf(uid: number): number {
    const index = this.#indexFrom(uid);
    return this.#uids[index] === uid ? index + 1 : 0;
  }

  add(uid: number): void {
    this.#uids.push(uid);
  }

  /** Removes messages. @returns the sequence numbers in the order in which they are told: each counts without those before */
  remove(uids: ReadonlySet<number>): number[] {
    const numbers = this.#uids.flatMap((uid, index) => (uids.has(uid) ? [index + 1] : []));
    this.#uids = this.#uids.filter((uid) => !uids.has(uid));
    return numbers.reverse();
  }

  /**
   * The UIDs of a set, ascending, each once. In a set of UIDs those that are not there mean nothing.
   *
   * @param text as {@link Cursor.sequenceSet} reads it
   * @throws BadCommand where it is malformed, or has a sequence number that no message has
   */
  resolve(text: string, isUids: boolean): number[] {
    if (text === '$') return this.saved.filter((uid) => this.numberOf(uid) > 0);
    const found: number[] = [];
    let isSorted = true;
    for (const piece of text.split(',')) {
      const [from, to] = this.#rangeOf(piece, isUids);
      const first = this.#uids[from];
      if (first !== undefined && first <= (found.at(-1) ?? 0)) isSorted = false;
      for (let index = from; index < to; index++) found.push(this.#uids[index] ?? 0);
    }
    return isSorted ? found : [...new Set(found)].sort((a, b) => a - b);
  }

  /** Indexes from the first to one after the last. */
  #rangeOf(piece: string, isUids: boolean): [from: number, to: number] {
    const match = /^(\d{1,10}|\*)(?::(\d{1,10}|\*))?$/.exec(piece);
    if (!match || match[1] === '0' || match[2] === '0')
      throw new BadCommand('Not a set of messages');
    const last = isUids ? this.lastUid : this.size;
    const [a, b] = [match[1], match[2] ?? match[1]].map((one) =>
      one === '*' ? last : Number(one),
    );
    const [low, high] = [Math.min(a ?? 0, b ?? 0), Math.max(a ?? 0, b ?? 0)];
    if (isUids) return [this.#indexFrom(low), this.#indexFrom(high + 1)];
    if (low === 0 || high > this.size) throw new BadCommand('No message has this sequence number');
    return [low - 1, high];
  }

  /** The index of the first UID from this one on. */
  #indexFrom(uid: number): number {
    let low = 0;
    let high = this.#uids.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#uids[middle] ?? 0) < uid) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
