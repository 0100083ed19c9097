/**
 * Which destination gets the next attempts: the fairness of the queue. Holds no deliveries, only
 * what is known of each destination that has some: how many are under way, how many attempts failed
 * in a row, when its earliest row is due. So the database is asked for rows of one destination at a
 * time, never through the rows of a dead one.
 *
 * - At most `perDestination` are under way at one destination. After 5 failures in a row it is one
 *   at a time until a success.
 * - Destinations that have something due take turns, each getting its share of what is free.
 * - The last eighth of the places is for destinations that have nothing under way, so that a few
 *   slow ones together do not keep a new one waiting.
 *
 * Memory is bounded: of destinations due later than the horizon, and of more than 10,000 at a time,
 * nothing is kept; the worker's look at the table finds them when their time has come.
 */
import { LRUCache } from 'lru-cache';

const FAILURES_IN_A_ROW = 5;
const KNOWN_MAX = 10_000;
const FAILING_MAX = 10_000;
/** What part of all places is kept for destinations with nothing under way. */
const RESERVED = 1 / 8;

interface State {
  readonly destination: string;
  /** Attempts under way, places that a lease may fill included. */
  underWay: number;
  /** Rows are being leased right now. */
  leasing: boolean;
  /** When its earliest row can be taken, as far as is known; infinity where there is none. */
  due: number;
}

/** Places that were taken for rows of a destination, to be leased now. */
export interface Batch {
  readonly destination: string;
  readonly places: number;
}

interface DestinationsOptions {
  /** Attempts under way in all. */
  readonly concurrency: number;
  readonly perDestination: number;
  /** Milliseconds; what is due later is not kept. */
  readonly horizon: number;
}

export class Destinations {
  readonly #options: DestinationsOptions;
  readonly #states = new Map<string, State>();
  /** Due, with places free; in the order of their turns. */
  readonly #ready = new Set<State>();
  /** Due later. May hold entries that were overtaken: those count for nothing. */
  readonly #later = new DueHeap<State>();
  /** Failures in a row, of those that failed last; the longest unseen are forgotten first. */
  readonly #failures = new LRUCache<string, number>({ max: FAILING_MAX });
  #underWay = 0;

  constructor(options: DestinationsOptions) {
    this.#options = options;
  }

  /** Whether no other destination is to be added for now. */
  get isFull(): boolean {
    return this.#states.size >= KNOWN_MAX;
  }

  /** Whether so much room is left that it is worth a look for others. */
  get hasRoom(): boolean {
    return this.#states.size < KNOWN_MAX / 2;
  }

  /** When something is due next, of what is not due already. */
  get nextDue(): number {
    return this.#later.earliest;
  }

  /** A row of the destination can be taken from `due` on; forgotten where there is no room. */
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
   * Takes places for the destination whose turn it is; undefined where none can have any.
   *
   * @param isTight whether memory is: then only one place, and for those with nothing under way
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
   * @param leased rows that were leased; the other places are free again
   * @param due when the next row of the destination can be taken, where one is known
   */
  leased({ destination, places }: Batch, leased: number, due: number | undefined, now: number) {
    const state = this.#stateOf(destination);
    state.leasing = false;
    this.#occupy(state, leased - places);
    // Without one known: what came in meanwhile has been noted by `expect`.
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
    // A permanent failure is an answer: the receiver is not dead.
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

  /** Puts a state where it belongs by now. */
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

  /** Overtaken entries must not pile up. */
  #tidy(): void {
    if (this.#later.size <= 4 * this.#states.size + 1_000) return;
    this.#later.keep((state, due) => state.due === due && this.#isKnown(state));
  }

  #isKnown(state: State): boolean {
    return this.#states.get(state.destination) === state;
  }
}

/* Things ordered by the time they are due: a binary heap. */

interface Entry<T> {
  readonly due: number;
  readonly item: T;
}

export class DueHeap<T> {
  #entries: Entry<T>[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** The earliest time; no time at all (infinity) where it is empty. */
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

  /** Takes the earliest out. */
  pop(): T | undefined {
    const first = this.#entries[0];
    const last = this.#entries.pop();
    if (first && last && first !== last) this.#sink(last);
    return first?.item;
  }

  /** Keeps only the entries that still mean something. */
  keep(isCurrent: (item: T, due: number) => boolean): void {
    // A sorted array is a heap.
    this.#entries = this.#entries
      .filter(({ item, due }) => isCurrent(item, due))
      .sort((a, b) => a.due - b.due);
  }

  /** Puts an entry in the place of the first. */
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
