/** Instants and spans of time, outages that are told once, work that is repeated, and promises with a deadline. */

export { type Done, type Step, untilDone } from './until-done.ts';

/** An instant: the milliseconds since 1970-01-01T00:00:00Z, as `Date.now()` has them. */
export type EpochMs = number;

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** When the span of time began that has an instant, such as its hour. Days are those of UTC. */
export function startOf(spanMs: number, at: EpochMs): EpochMs {
  return Math.floor(at / spanMs) * spanMs;
}

/**
 * Something that fails for a while: only its first failure is told, and its end.
 *
 * @typeParam Failure what is known of a failure
 */
export class Outage<Failure = unknown> {
  readonly #begins: (failure: Failure) => void;
  readonly #ends: (seconds: number, failures: number) => void;
  readonly #patienceMs: number;
  /** The first failure since it worked last. */
  #since: number | undefined;
  #failures = 0;
  #isOn = false;

  /**
   * @param begins called with the first failure, or the first when the patience is over
   * @param ends called with the first success after it, how many seconds it came after the failure, and how many there were
   * @param patienceMs how long everything has to fail before it is told, where single failures are usual
   */
  constructor(
    begins: (failure: Failure) => void,
    ends: (seconds: number, failures: number) => void = () => {},
    patienceMs = 0,
  ) {
    this.#begins = begins;
    this.#ends = ends;
    this.#patienceMs = patienceMs;
  }

  /** Whether it failed the last time, and its patience was over. */
  get isOn(): boolean {
    return this.#isOn;
  }

  failed(failure: Failure): void {
    this.#failures++;
    if (this.#isOn) return;
    const now = performance.now();
    this.#since ??= now;
    if (now - this.#since < this.#patienceMs) return;
    this.#isOn = true;
    this.#begins(failure);
  }

  worked(): void {
    const since = this.#since;
    if (since === undefined) return;
    const failures = this.#failures;
    this.#since = undefined;
    this.#failures = 0;
    if (!this.#isOn) return;
    this.#isOn = false;
    this.#ends(Math.round((performance.now() - since) / 1000), failures);
  }
}

/* Work that is done again and again, never twice at a time. Its pauses do not keep the process running. */

export interface RepeatOptions {
  /** Milliseconds between the end of one run and the begin of the next. */
  readonly everyMs: number;
  /** Rejects only where there is an `outage`. @param signal aborted by {@link Repeat.stop} */
  readonly task: (signal: AbortSignal) => Promise<unknown>;
  /** Told how each run ends. */
  readonly outage?: Outage;
  /** The part of a pause that is random, so that nodes that started together do not all work at the same time. */
  readonly jitter?: number;
}

export class Repeat {
  readonly #options: RepeatOptions;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  /** A run that was asked for, and has not begun. */
  #next: Promise<void> | undefined;

  constructor(options: RepeatOptions) {
    this.#options = options;
  }

  /** Begins with a pause. */
  start(): void {
    const { everyMs, jitter = 0 } = this.#options;
    clearTimeout(this.#timer);
    if (this.#stopping.signal.aborted) return;
    const ms = everyMs * (1 + jitter * (Math.random() - 0.5));
    this.#timer = setTimeout(() => void this.run(), ms).unref();
  }

  /** Runs now, or after the run that is under way; then again and again. Resolves when that run has ended. */
  run(): Promise<void> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      return this.#once();
    });
    this.#running = this.#next;
    return this.#next;
  }

  /** Runs now, and again and again until the signal. Resolves when the last run has ended. */
  async until(signal: AbortSignal): Promise<void> {
    const over = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => over.resolve(), { once: true });
    if (signal.aborted) return;
    void this.run();
    await over.promise;
    await this.stop();
  }

  /** Resolves when the run that is under way has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #once(): Promise<void> {
    const { task, outage } = this.#options;
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    try {
      await task(signal);
      outage?.worked();
    } catch (error) {
      if (!outage) throw error;
      outage.failed(error);
    }
    this.start();
  }
}

/** The value of a promise, or `late` where it takes more than so many milliseconds. */
export function within<Value, Late>(
  work: Promise<Value>,
  ms: number,
  late: Late,
): Promise<Value | Late> {
  const { promise, resolve } = Promise.withResolvers<Late>();
  const timer = setTimeout(resolve, ms, late);
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}
