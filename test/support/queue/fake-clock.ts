/** A clock that moves only when a test says so. */
import type { Clock } from '../../../src/mail/queue/queue.ts';

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

/** Lets everything that is ready in this process run. */
export async function turns(count = 3): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** After this time a condition counts as never fulfilled. */
export const UNTIL_MS = 90_000;

/** Resolves when the condition holds. */
export async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + UNTIL_MS;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`never came true: ${condition}`);
    await turns(1);
  }
}

export class FakeClock implements Clock {
  #now = 0;
  /** Added to the time that has passed. */
  #set = Date.UTC(2026, 0, 1);
  readonly #timers = new Set<Timer>();

  now(): number {
    return this.#set + this.#now;
  }

  monotonic(): number {
    return this.#now;
  }

  /** Sets the clock forward, or back where negative; no time passes. */
  set(ms: number): void {
    this.#set += ms;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves the clock on, and runs each timer at its time with all that follows from it. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (!next) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.run();
      await turns();
    }
    this.#now = end;
    await turns();
  }
}
