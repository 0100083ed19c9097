/** Time that moves only when a test says so. */

interface Timer {
  readonly id: number;
  readonly at: number;
  readonly run: () => void;
}

export class VirtualClock {
  #now: number;
  #last = 0;
  readonly #timers = new Map<number, Timer>();

  /** @param start milliseconds since 1970 */
  constructor(start: number = Date.UTC(2026, 0, 31, 12)) {
    this.#now = start;
  }

  /** Milliseconds since 1970. */
  readonly now = (): number => this.#now;

  readonly setTimeout = (run: () => void, ms = 0): number => {
    const id = ++this.#last;
    this.#timers.set(id, { id, at: this.#now + Math.max(0, ms), run });
    return id;
  };

  readonly clearTimeout = (id: number | undefined): void => {
    if (id !== undefined) this.#timers.delete(id);
  };

  /** Timers that have not run yet. */
  get waiting(): number {
    return this.#timers.size;
  }

  /** Moves on by so many milliseconds: each timer runs at its time, and what it starts goes on before the next one. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      await this.settled();
      const next = this.#next();
      if (!next || next.at > end) break;
      this.#now = next.at;
      this.#timers.delete(next.id);
      next.run();
    }
    this.#now = end;
  }

  /** Fulfilled once what goes on by itself waits for time: a store that takes its time is waited for here. */
  protected settled(): Promise<void> {
    return settle();
  }

  #next(): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers.values()) {
      if (!first || timer.at < first.at) first = timer;
    }
    return first;
  }
}

/** Fulfilled once all promises that wait only for each other have gone on. */
export function settle(): Promise<void> {
  const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => void };
  return new Promise((resolve) => {
    if (setImmediate) setImmediate(resolve);
    else setTimeout(resolve, 0);
  });
}
