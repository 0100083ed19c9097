/**
 * What one session sees of the mailbox that it has selected: its messages by sequence number, as far as it was told
 * (RFC 9051 section 2.3.1.2). Only `tell-changes.ts` moves it on.
 */
import { type OpenMailbox, positionOf } from '../../mailboxes/mailstore/mailstore.ts';
import { UidSet } from '../../protocols/imap-syntax/imap-syntax.ts';
import { BadCommand } from './cursor.ts';
import type { RecentOfSession } from './recent.ts';

const FLAGS = '\\Answered \\Flagged \\Deleted \\Seen \\Draft';
/** Texts of flags whose keywords were announced. */
const TEXTS_MAX = 1_000;
/** More than the messages of any mailbox; a range of two numbers below it is one number without a fraction. */
const SPAN = 2 ** 26;
const NUMBER = /^[1-9]\d{0,9}$/;

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
    for (const range of this.#numbersOf(text, isUids, isLenient)) {
      const end = range % SPAN;
      for (let at = Math.floor(range / SPAN) - 1; at < end; at++) uids.push(this.#uids[at] ?? 0);
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
    return UidSet.ofRanges(
      Array.from(this.#numbersOf(text, isUids, true), (range) => [
        uidOf(Math.floor(range / SPAN)),
        uidOf(range % SPAN),
      ]),
    );
  }

  /**
   * The sequence numbers of a set, as ranges in order and apart from each other: merged before anything is made of them,
   * since a set may name all messages often. A line may name half a million, and getmail6 names 100,000, so that nothing is
   * made of a piece that the one before it has, and each range is one number: {@link SPAN} times its first, and its last.
   */
  #numbersOf(text: string, isUids: boolean, isLenient: boolean): Float64Array {
    const pieces = text.split(',');
    const ranges = new Float64Array(pieces.length);
    let size = 0;
    let [from, to] = [1, 0];
    for (const piece of pieces) {
      const colon = piece.indexOf(':');
      const a = this.#numberIn(colon < 0 ? piece : piece.slice(0, colon), isUids);
      const b = colon < 0 ? a : this.#numberIn(piece.slice(colon + 1), isUids);
      const [low, high] = a < b ? [a, b] : [b, a];
      if (!isUids && !isLenient && (low === 0 || high > this.size)) {
        throw new BadCommand('No message has this sequence number');
      }
      const first = isUids ? positionOf(this.#uids, low) + 1 : Math.max(1, low);
      const last = isUids ? positionOf(this.#uids, high + 1) : Math.min(high, this.size);
      if (first > last) continue;
      if (first >= from && first <= to + 1) to = Math.max(to, last);
      else [from, to] = [first, last];
      // In place of the one before, where that is a part of it.
      if (Math.floor((ranges[size - 1] ?? 0) / SPAN) !== from) size++;
      ranges[size - 1] = from * SPAN + to;
    }
    return mergeInPlace(ranges.subarray(0, size));
  }

  #numberIn(text: string, isUids: boolean): number {
    if (text === '*') return isUids ? this.lastUid : this.size;
    if (!NUMBER.test(text)) throw new BadCommand('Not a set of messages');
    return Number(text);
  }
}

/** Ranges in order, those that overlap or touch as one. @param ranges in any order; it is changed */
function mergeInPlace(ranges: Float64Array): Float64Array {
  ranges.sort();
  let size = 0;
  for (const range of ranges) {
    const before = ranges[size - 1] ?? 0;
    const [begin, end] = [Math.floor(before / SPAN), before % SPAN];
    if (size > 0 && Math.floor(range / SPAN) <= end + 1) {
      ranges[size - 1] = begin * SPAN + Math.max(end, range % SPAN);
    } else ranges[size++] = range;
  }
  return ranges.subarray(0, size);
}
