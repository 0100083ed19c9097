/**
 * Which destination gets the next attempts: the fairness of the queue. It holds no deliveries, only the state of each
 * destination that has some: how many are under way, how many attempts failed in a row, when its earliest row is due.
 * So the database is asked for rows of one destination at a time, and never reads through the rows of a dead one.
 *
 *
 * - At most `perDestination` are under way at one destination. After 5 failures in a row it is one
 *   at a time until a success.
 * - Destinations with due rows take turns, and each gets its share of the free places.
 * - The last eighth of the places is for destinations that have nothing under way, so that a few
 *   slow ones together do not keep a new one waiting.
 *
 * Memory is limited: destinations that are due later than the horizon, and those beyond 10,000, are not kept; the
 * worker's look at the table finds them when they are due.
 */
import { LRUCache } from 'lru-cache';

const FAILURES_IN_A_ROW = 5;
const KNOWN_MAX = 10_000;
const FAILING_MAX = 10_000;
/** The part of all places that is reserved for destinations with nothing under way. */
const RESERVED = 1 / 8;

interface State {
  readonly destination: string;
  /** Attempts under way, including the places of a lease that is not done. */
  underWay: number;
  /** Rows are being leased right now. */
  leasing: boolean;
  /** When its earliest row is due, as far as is known; infinity where there is none. */
  due: number;
}

/** Places that are reserved for rows of a destination, to be leased now. */
export interface Batch {
  readonly destination: string;
  readonly places: number;
}

interface DestinationsOptions {
  /** Attempts under way in all. */
  readonly concurrency: number;
  readonly perDestination: number;
  /** Milliseconds; rows that are due later are not kept. */
  readonly horizon: number;
}

export class Destinations {
  readonly #options: DestinationsOptions;
  readonly #states = new Map<string, State>();
  /** With due rows and free places; in the order of their turns. */
  readonly #ready = new Set<State>();
  /** Due later. Entries that are out of date are ignored. */
  readonly #later = new DueHeap<State>();
  /** Failures in a row; the destinations that were used least recently are forgotten first. */
  readonly #failures = new LRUCache<string, number>({ max: FAILING_MAX });
  #underWay = 0;

  constructor(options: DestinationsOptions) {
    this.#options = options;
  }

  /** Whether no other destination is to be added for now. */
  get isFull(): boolean {
    return this.#states.size >= KNOWN_MAX;
  }

  /** Whether there is enough room to look for other destinations. */
  get hasRoom(): boolean {
    return this.#states.size < KNOWN_MAX / 2;
  }

  /** When the next row that is not due yet will be. */
  get nextDue(): number {
    return this.#later.earliest;
  }

  /** A row of the destination is due from `due` on; ignored where there is no room. */
  expect(destination: string, due: number, now: number): void {
    if (!this.isFull || this.#states.has(destination)) this.add(destination, due, now);
  }

  /** The same, whether there is room or not. */
  add(destination: string, due: number, now: number): void {
    if (due > now + this.#options.horizon) return;
    const state = this.#states.get(destination) ?? this.#addState(destination);
    if (due >= state.due) return;
    state.due = due;
    this.#place(state, now);
  }

  /**
   * Reserves places for the destination whose turn it is; undefined where none can have any.
   *
   * @param isTight whether memory is short: then only one place, for a destination with nothing under way
   */
  next(now: number, isTight = false): Batch | undefined {
    while (this.#later.earliest <= now) {
      const state = this.#later.pop();
      if (state && this.#states.get(state.destination) === state) this.#place(state, now);
    }
    const { concurrency } = this.#options;
    const free = concurrency - this.#underWay;
    if (free <= 0) return undefined;
    const shared = isTight ? 0 : Math.max(free - Math.floor(concurrency * RESERVED), 0);
    const share = Math.ceil(shared / this.#ready.size);
    for (const state of this.#ready) {
      const room = state.underWay === 0 ? Math.max(share, 1) : share;
      if (room === 0) continue;
      const places = Math.min(room, this.#capacity(state));
      this.#ready.delete(state);
      state.leasing = true;
      state.due = Number.POSITIVE_INFINITY;
      this.#occupy(state, places);
      return { destination: state.destination, places };
    }
    return undefined;
  }

  /**
   * The lease of a batch ended.
   *
   * @param leased the number of leased rows; the other places are free again
   * @param due when the next row of the destination is due, if known
   */
  leased({ destination, places }: Batch, leased: number, due: number | undefined, now: number) {
    const state = this.#stateOf(destination);
    state.leasing = false;
    this.#occupy(state, leased - places);
    // If it is not known: `expect` has noted rows that came in meanwhile.
    if (due !== undefined && due <= now + this.#options.horizon && due < state.due) state.due = due;
    this.#place(state, now);
  }

  /** An attempt ended; its place is free. */
  settled(
    destination: string,
    result: 'delivered' | 'temporary' | 'permanent' | 'held',
    now: number,
  ) {
    if (result === 'delivered') this.#failures.delete(destination);
    // A permanent failure is an answer, so the receiver is not dead.
    if (result === 'temporary') this.#countFailure(destination);
    const state = this.#stateOf(destination);
    this.#occupy(state, -1);
    this.#place(state, now);
  }

  #addState(destination: string): State {
    const state = { destination, underWay: 0, leasing: false, due: Number.POSITIVE_INFINITY };
    this.#states.set(destination, state);
    return state;
  }

  #countFailure(destination: string): void {
    this.#failures.set(destination, (this.#failures.get(destination) ?? 0) + 1);
  }

  #stateOf(destination: string): State {
    const state = this.#states.get(destination);
    if (!state) throw new Error('a destination with attempts under way is not known');
    return state;
  }

  #occupy(state: State, places: number): void {
    state.underWay += places;
    this.#underWay += places;
  }

  #capacity({ destination, underWay }: State): number {
    const failing = (this.#failures.peek(destination) ?? 0) >= FAILURES_IN_A_ROW;
    return (failing ? 1 : this.#options.perDestination) - underWay;
  }

  /** Moves a state to the collection it now belongs to. */
  #place(state: State, now: number): void {
    const canTake = !state.leasing && this.#capacity(state) > 0;
    if (canTake && state.due <= now) {
      this.#ready.add(state);
      return;
    }
    this.#ready.delete(state);
    if (state.due === Number.POSITIVE_INFINITY) {
      if (!state.leasing && state.underWay === 0) this.#states.delete(state.destination);
    } else if (state.due > now) {
      this.#later.push(state.due, state);
      this.#tidy();
    }
  }

  /** Removes entries that are out of date, so that they do not pile up. */
  #tidy(): void {
    if (this.#later.size <= 4 * this.#states.size + 1_000) return;
    this.#later.keep((state, due) => state.due === due && this.#isKnown(state));
  }

  #isKnown(state: State): boolean {
    return this.#states.get(state.destination) === state;
  }
}

/* Items in the order of their due times: a binary heap. */

interface Entry<T> {
  readonly due: number;
  readonly item: T;
}

export class DueHeap<T> {
  #entries: Entry<T>[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** The earliest time; infinity where it is empty. */
  get earliest(): number {
    return this.#entries[0]?.due ?? Number.POSITIVE_INFINITY;
  }

  push(due: number, item: T): void {
    const entry = { due, item };
    let at = this.#entries.length;
    this.#entries.push(entry);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = this.#entries[above];
      if (!parent || parent.due <= due) break;
      this.#entries[at] = parent;
      at = above;
    }
    this.#entries[at] = entry;
  }

  /** Removes and returns the earliest. */
  pop(): T | undefined {
    const first = this.#entries[0];
    const last = this.#entries.pop();
    if (first && last && first !== last) this.#sink(last);
    return first?.item;
  }

  /** Keeps only the entries that are up to date. */
  keep(isCurrent: (item: T, due: number) => boolean): void {
    // A sorted array is a heap.
    this.#entries = this.#entries
      .filter(({ item, due }) => isCurrent(item, due))
      .sort((a, b) => a.due - b.due);
  }

  /** Replaces the first entry, and restores the order. */
  #sink(entry: Entry<T>): void {
    let at = 0;
    for (;;) {
      const left = this.#entries[2 * at + 1];
      const right = this.#entries[2 * at + 2];
      if (!left) break;
      const isRight = right !== undefined && right.due < left.due;
      const child = isRight ? right : left;
      if (child.due >= entry.due) break;
      this.#entries[at] = child;
      at = 2 * at + (isRight ? 2 : 1);
    }
    this.#entries[at] = entry;
  }
}
