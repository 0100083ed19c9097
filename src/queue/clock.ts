/** Time as the queue sees it, so that tests need not wait for it. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /**
   * Runs something once, after so many milliseconds.
   *
   * @returns takes it back
   */
  after(ms: number, run: () => void): () => void;
}

/** Real time. Its timers do not keep the process running. */
export const systemClock: Clock = {
  now: Date.now,
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
