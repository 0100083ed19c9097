/** Time as the queue sees it, so that tests need not wait for it. */
export interface Clock {
  /** Milliseconds since 1970; may be set to another time. */
  now(): number;
  /** Milliseconds since some instant; only ever goes on. */
  monotonic(): number;
  /**
   * Runs something once, after so many milliseconds, whatever the clock is set to meanwhile.
   *
   * @returns takes it back
   */
  after(ms: number, run: () => void): () => void;
}

/** Real time. Its timers do not keep the process running. */
export const systemClock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves after so many milliseconds. */
export function wait(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}
