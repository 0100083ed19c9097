/**
 * How many lookups the resolver has left unanswered lately. A resolver has limits, too: Dnsmasq refuses all questions while
 * it waits for 150 answers, and waits for each about ten seconds. Lookups of names whose servers never answer fill it, and
 * it then looks like one that is dead.
 */

/** Seconds for which a lookup is counted: a resolver may work at it for that long after we have given it up. */
const LATELY = 15;
/** A power of two above it. */
const SECONDS = 16;
/** So many may fill a resolver. A machine whose DNS is away, and which gets little mail, does not come to so many. */
const MANY = 50;
/** Of each second: which one it is, and the number of lookups. */
const CELLS = 2;

/** Counts in memory that threads share, since all ask the same resolver. */
export class Unanswered {
  readonly #cells: Int32Array<SharedArrayBuffer>;
  readonly #now: () => number;

  /** @param now milliseconds on a clock that is the same in all threads */
  constructor(
    memory: SharedArrayBuffer = Unanswered.memory(),
    now = () => performance.timeOrigin + performance.now(),
  ) {
    this.#cells = new Int32Array(memory);
    this.#now = now;
  }

  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer(SECONDS * CELLS * Int32Array.BYTES_PER_ELEMENT);
  }

  add(): void {
    const second = this.#second();
    const at = (second % SECONDS) * CELLS;
    // Where two threads begin a second together, one lookup may not be counted.
    if (Atomics.exchange(this.#cells, at, second) !== second) Atomics.store(this.#cells, at + 1, 0);
    Atomics.add(this.#cells, at + 1, 1);
  }

  /** Whether they are so many that they may have filled the resolver. */
  areMany(): boolean {
    const second = this.#second();
    let sum = 0;
    for (let at = 0; at < this.#cells.length; at += CELLS) {
      const age = second - Atomics.load(this.#cells, at);
      if (age >= 0 && age <= LATELY) sum += Atomics.load(this.#cells, at + 1);
    }
    return sum >= MANY;
  }

  #second(): number {
    return Math.floor(this.#now() / 1_000) % 2 ** 31;
  }
}
