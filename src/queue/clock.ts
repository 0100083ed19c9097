/** Time as the queue sees it, and when the next attempt comes. */

/** So that tests need not wait for it. */
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

/** How much later than its time an attempt may come, as a part of the delay. */
const JITTER = 0.1;
/** Longest delay that a receiver can ask for: a mistyped one must not bury a message. */
const RETRY_AFTER_MAX_S = 24 * 3600;

/**
 * Milliseconds until the next attempt, or undefined after the last one.
 *
 * Jitter only ever adds, so that a schedule is never shorter than it says; it keeps what failed
 * together from coming back together.
 *
 * @param delays seconds between each attempt and the next
 * @param attempts attempts made so far, at least one
 * @param retryAfterSeconds what the receiver asked for: a lower bound, at most a day
 * @param random from 0 to 1
 */
export function nextDelayMs(
  delays: readonly number[],
  attempts: number,
  retryAfterSeconds: number | undefined,
  random: () => number,
): number | undefined {
  const delay = delays[attempts - 1];
  if (delay === undefined) return undefined;
  const asked = Math.min(Math.max(retryAfterSeconds ?? 0, 0), RETRY_AFTER_MAX_S);
  return Math.round(Math.max(delay, asked) * (1 + JITTER * random()) * 1000);
}
