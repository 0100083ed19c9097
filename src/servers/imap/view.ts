/**
 * What one session sees of the mailbox that it has selected: its messages by sequence number, as far as it was told
 * (RFC 9051 section 2.3.1.2). Only `tell-changes.ts` moves it on.
 */
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { UidSet } from '../../protocols/imap-syntax/imap-syntax.ts';
import { BadCommand } from './cursor.ts';
import type { RecentOfSession } from './recent.ts';

const FLAGS = '\\Answered \\Flagged \\Deleted \\Seen \\Draft';
/** Texts of flags whose keywords were announced. */
const TEXTS_MAX = 1_000;

export interface ViewOptions {
  readonly mailbox: OpenMailbox;
  /** Shared with other sessions. */
  readonly uids: readonly number[];
  /** The state of these UIDs. */
  readonly token: string;
  readonly isReadOnly: boolean;
  readonly keywords?: readonly string[];
  /** Undefined where nothing is shown as recent: in IMAP4rev2. */
  readonly recent?: RecentOfSession | undefined;
}

export class View {
  #mailbox: OpenMailbox;
  readonly isReadOnly: boolean;
  readonly recent: RecentOfSession | undefined;
  /** UIDs by sequence number, ascending. */
  #uids: readonly number[];
  /** The same, once they are of this session alone. */
  #own: number[] | undefined;
  /** The state up to which all additions and flags were told: the next sync begins here. */
  token: string;
  /** The state since which flags were not told, because the client did not want them (RFC 5465 section 5). */
  flagsToken: string | undefined;
  /** Messages that are removed, and must not be told yet. */
  readonly untold = new Set<number>();
  /** The highest MODSEQ that may be told (RFC 7162 section 7): no removal up to it is untold. */
  highestModseq: number;
  /** `$`: the result of the last search that was saved (RFC 5182). */
  saved: readonly number[] = [];
  /** As they were announced, by their names in small letters. */
  readonly #keywords: Map<string, string>;
  readonly #announced = new Set<string>();

  constructor({ mailbox, uids, token, isReadOnly, keywords = [], recent }: ViewOptions) {
    this.#mailbox = mailbox;
    this.#uids = uids;
    this.token = token;
    this.highestModseq = Number(token);
    this.isReadOnly = isReadOnly;
    this.recent = recent;
    this.#keywords = new Map(keywords.map((one) => [one.toLowerCase(), one]));
    recent?.take(this.lastUid);
  }

  get mailbox(): OpenMailbox {
    return this.#mailbox;
  }

  /** It is the same mailbox under another name. */
  rename(name: string): void {
    this.#mailbox = { ...this.#mailbox, name };
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
    const index = positionOf(this.#uids, uid);
    return this.#uids[index] === uid ? index + 1 : 0;
  }

  add(uid: number): void {
    if (this.#own !== this.#uids) this.#uids = this.#own = [...this.#uids];
    this.#own.push(uid);
  }

  /** The session is told how many messages there are. */
  tellSize(): string {
    this.recent?.take(this.lastUid);
    if (!this.recent) return `* ${this.size} EXISTS\r\n`;
    const recent = this.recent.ranges.reduce(
      (sum, { from, to }) => sum + positionOf(this.#uids, to + 1) - positionOf(this.#uids, from),
      0,
    );
    return `* ${this.size} EXISTS\r\n* ${recent} RECENT\r\n`;
  }

  /** The flags of a message as they are told. @param flags as they are stored */
  flagsOf(uid: number, flags: string): string {
    if (!this.recent?.has(uid)) return flags;
    return flags === '' ? '\\Recent' : `${flags} \\Recent`;
  }

  /** The lines that tell of keywords which the client does not know yet; `''` where it knows all of these. */
  announce(flags: string): string {
    if (flags === '' || this.#announced.has(flags)) return '';
    if (this.#announced.size >= TEXTS_MAX) this.#announced.clear();
    this.#announced.add(flags);
    const before = this.#keywords.size;
    for (const flag of flags.split(' ')) {
      const key = flag.toLowerCase();
      if (!flag.startsWith('\\') && !this.#keywords.has(key)) this.#keywords.set(key, flag);
    }
    return this.#keywords.size > before ? this.tellKeywords() : '';
  }

  /** FLAGS and PERMANENTFLAGS (RFC 9051 section 7.3.5). */
  tellKeywords(): string {
    const all = [FLAGS, ...this.#keywords.values()].join(' ');
    const permanent = this.isReadOnly ? '' : `${all} \\*`;
    return `* FLAGS (${all})\r\n* OK [PERMANENTFLAGS (${permanent})] Flags that are kept\r\n`;
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
   * @param isLenient whether sequence numbers that no message has mean nothing, too: in a search
   * @throws BadCommand where it is malformed, or has a sequence number that no message has
   */
  resolve(text: string, isUids: boolean, isLenient = false): number[] {
    if (text === '$') return this.saved.filter((uid) => this.numberOf(uid) > 0);
    const uids: number[] = [];
    for (const [first, last] of this.#numbersOf(text, isUids, isLenient)) {
      for (let number = first; number <= last; number++) uids.push(this.#uids[number - 1] ?? 0);
    }
    return uids;
  }

  /**
   * The messages of a set as ranges, so that it takes no more memory than its text: for a search, which may have many.
   * Whatever is between two UIDs of a range and not in the view is in it, too.
   *
   * @throws BadCommand where it is malformed
   */
  rangesOf(text: string, isUids: boolean): UidSet {
    const uidOf = (number: number) => this.#uids[number - 1] ?? 0;
    const numbers = this.#numbersOf(text, isUids, true);
    return UidSet.ofRanges(numbers.map(([first, last]) => [uidOf(first), uidOf(last)]));
  }

  /**
   * The sequence numbers of a set, as ranges in order and apart from each other: merged before anything is made of them,
   * since a set may name all messages often.
   */
  #numbersOf(text: string, isUids: boolean, isLenient: boolean): UidSet['ranges'] {
    const highest = isUids ? this.lastUid : this.size;
    const set = UidSet.parse(text.replaceAll('*', String(Math.max(1, highest))));
    if (!set) throw new BadCommand('Not a set of messages');
    const last = set.ranges.at(-1)?.[1] ?? 0;
    if (!isUids && !isLenient && last > this.size) {
      throw new BadCommand('No message has this sequence number');
    }
    if (!isUids) return set.within(1, this.size).ranges;
    const numbers = set.ranges.map(
      ([from, to]) => [positionOf(this.#uids, from) + 1, positionOf(this.#uids, to + 1)] as const,
    );
    return numbers.filter(([from, to]) => from <= to);
  }
}

/** The index of the first UID from this one on. @param uids ascending */
export function positionOf(uids: readonly number[], uid: number): number {
  let low = 0;
  let high = uids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((uids[middle] ?? 0) < uid) low = middle + 1;
    else high = middle;
  }
  return low;
}
