/**
 * A set of 64-bit digests, each with the second it was added in: 12 bytes a slot in flat arrays,
 * since a million small objects would keep the garbage collector busy for good.
 *
 * It grows by whole tables, so that no insertion ever waits for a table to be copied, and shrinks by
 * whole tables, when all they hold is too old.
 */

/** Digests of the first table; each further one holds so many times as many, up to the largest. */
const FIRST_CAPACITY = 4_096;
const GROWTH = 4;
const LARGEST_CAPACITY = 1_048_576;

/** Time of a digest that was taken back: always too old. Empty slots have 0. */
const TAKEN_BACK = 1;

/** Open addressing with linear probing, half full at most. */
class Table {
  readonly capacity: number;
  readonly #mask: number;
  readonly #slots: Uint32Array;
  used = 0;
  /** The latest second in it. */
  newest = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#mask = 2 * capacity - 1;
    // Three numbers a slot: high half, low half, second.
    this.#slots = new Uint32Array(3 * 2 * capacity);
  }

  /** When the digest was added; 0 where it is not here. */
  timeOf(high: number, low: number): number {
    return this.#slots[this.#find(high, low) + 2] ?? 0;
  }

  set(high: number, low: number, time: number): void {
    const at = this.#find(high, low);
    if (this.#slots[at + 2] === 0) this.used++;
    this.#slots[at] = high;
    this.#slots[at + 1] = low;
    this.#slots[at + 2] = time;
    if (time > this.newest) this.newest = time;
  }

  /** Where the digest is, or the empty slot where it would be. */
  #find(high: number, low: number): number {
    const slots = this.#slots;
    for (let slot = low & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const at = 3 * slot;
      if (slots[at + 2] === 0 || (slots[at] === high && slots[at + 1] === low)) return at;
    }
  }
}

export class RecentDigests {
  #tables: Table[] = [];
  /** Of all tables, digests that are too old included. */
  #used = 0;

  get size(): number {
    return this.#used;
  }

  /** Whether the digest was added after a second. */
  has(high: number, low: number, after: number): boolean {
    // Repeats come soon: the last table first.
    for (let index = this.#tables.length - 1; index >= 0; index--) {
      if ((this.#tables[index]?.timeOf(high, low) ?? 0) > after) return true;
    }
    return false;
  }

  add(high: number, low: number, time: number): void {
    let table = this.#tables.at(-1);
    if (!table || table.used >= table.capacity) {
      table = new Table(
        Math.min(table ? GROWTH * table.capacity : FIRST_CAPACITY, LARGEST_CAPACITY),
      );
      this.#tables.push(table);
    }
    this.#used -= table.used;
    table.set(high, low, time);
    this.#used += table.used;
  }

  /** Takes back what was added. */
  remove(high: number, low: number): void {
    for (const table of this.#tables) {
      if (table.timeOf(high, low) > 0) table.set(high, low, TAKEN_BACK);
    }
  }

  /** Gives the memory back of tables in which nothing was added after a second. */
  forget(until: number): void {
    this.#tables = this.#tables.filter(({ newest }) => newest > until);
    this.#used = this.#tables.reduce((sum, { used }) => sum + used, 0);
  }
}
