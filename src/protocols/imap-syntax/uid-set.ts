/**
 * Sets of UIDs as IMAP writes them (`sequence-set` of RFC 3501 section 9): sorted ranges, so that a
 * set is as small as it is on the wire, however many UIDs it names.
 */

/** The largest UID (RFC 3501 section 2.3.1.1). */
export const UID_MAX = 4_294_967_295;

type Range = readonly [first: number, last: number];

/** The longest command line that servers have to accept (RFC 7162 section 4), with room for the rest. */
const SET_TEXT_MAX = 7_000;

export class UidSet {
  static readonly empty = new UidSet([]);

  /** Sorted, apart from each other. */
  readonly #ranges: readonly Range[];

  /** @param ranges sorted, apart from each other */
  private constructor(ranges: readonly Range[]) {
    this.#ranges = ranges;
  }

  static of(uids: Iterable<number>): UidSet {
    return UidSet.#merge(Array.from(uids, (uid) => [uid, uid] as const));
  }

  static between(first: number, last: number): UidSet {
    return first > last ? UidSet.empty : new UidSet([[first, last]]);
  }

  /** @param ranges in any order; they may overlap, and one that ends before it begins is nothing */
  static ofRanges(ranges: readonly Range[]): UidSet {
    return UidSet.#merge(ranges.filter(([first, last]) => first <= last));
  }

  /** Reads `1:3,7`; undefined for other text. Ranges may be reversed and overlap. */
  static parse(text: string): UidSet | undefined {
    const ranges: Range[] = [];
    for (const piece of text.split(',')) {
      const match = /^([1-9]\d{0,9})(?::([1-9]\d{0,9}))?$/.exec(piece);
      if (!match) return undefined;
      const [a, b] = [Number(match[1]), Number(match[2] ?? match[1])];
      if (Math.max(a, b) > UID_MAX) return undefined;
      ranges.push(a <= b ? [a, b] : [b, a]);
    }
    return UidSet.#merge(ranges);
  }

  static #merge(unsorted: readonly Range[]): UidSet {
    const ranges: [number, number][] = [];
    for (const [first, last] of unsorted.toSorted((a, b) => a[0] - b[0])) {
      const previous = ranges.at(-1);
      if (previous && first <= previous[1] + 1) previous[1] = Math.max(previous[1], last);
      else ranges.push([first, last]);
    }
    return new UidSet(ranges);
  }

  get size(): number {
    return this.#ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  }

  get ranges(): readonly Range[] {
    return this.#ranges;
  }

  has(uid: number): boolean {
    let low = 0;
    let high = this.#ranges.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#ranges[middle]?.[1] ?? 0) < uid) low = middle + 1;
      else high = middle;
    }
    return (this.#ranges[low]?.[0] ?? Number.POSITIVE_INFINITY) <= uid;
  }

  equals(other: UidSet): boolean {
    return this.#ranges.length === other.#ranges.length && `${this.#ranges}` === `${other.#ranges}`;
  }

  union(...others: readonly UidSet[]): UidSet {
    if (others.every((other) => other.#ranges.length === 0)) return this;
    return UidSet.#merge([this, ...others].flatMap((set) => set.#ranges));
  }

  /** Its part from `first` to `last`, both included. */
  within(first: number, last: number): UidSet {
    const ranges: Range[] = [];
    for (const [from, to] of this.#ranges) {
      const range: Range = [Math.max(from, first), Math.min(to, last)];
      if (range[0] <= range[1]) ranges.push(range);
    }
    return new UidSet(ranges);
  }

  /** Its UIDs that are not in the other set. */
  without(other: UidSet): UidSet {
    const ranges: Range[] = [];
    let at = 0;
    for (const [first, last] of this.#ranges) {
      let from = first;
      while ((other.#ranges[at]?.[1] ?? Number.POSITIVE_INFINITY) < from) at++;
      for (let next = at; from <= last; next++) {
        const [cutFirst, cutLast] = other.#ranges[next] ?? [Number.POSITIVE_INFINITY, 0];
        if (cutFirst > last) {
          ranges.push([from, last]);
          break;
        }
        if (cutFirst > from) ranges.push([from, cutFirst - 1]);
        from = cutLast + 1;
      }
    }
    return new UidSet(ranges);
  }

  /** The smallest `limit` of them. */
  *take(limit = Number.POSITIVE_INFINITY): Generator<number> {
    let left = limit;
    for (const [first, last] of this.#ranges) {
      for (let uid = first; uid <= last; uid++) {
        if (left-- <= 0) return;
        yield uid;
      }
    }
  }

  /** The largest `limit` of them, the largest first. */
  *takeLast(limit: number): Generator<number> {
    let left = limit;
    for (const [first, last] of this.#ranges.toReversed()) {
      for (let uid = last; uid >= first; uid--) {
        if (left-- <= 0) return;
        yield uid;
      }
    }
  }

  /** In the form of IMAP, cut into texts that each fit into one command. */
  *texts(): Generator<string> {
    let text = '';
    for (const [first, last] of this.#ranges) {
      const range = first === last ? `${first}` : `${first}:${last}`;
      if (text.length + range.length + 1 > SET_TEXT_MAX) {
        yield text;
        text = range;
      } else text = text === '' ? range : `${text},${range}`;
    }
    if (text !== '') yield text;
  }
}
