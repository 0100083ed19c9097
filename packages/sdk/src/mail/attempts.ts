/** What failed, and when it is tried again: one thing alone, or everything while the server cannot be reached. */
import { ApiError, endsSession, isAway } from '../errors.ts';
import { type Platform, pauseAfter } from './platform.ts';
import { SessionEnded } from './server.ts';

export class Attempts {
  readonly #platform: Platform;
  readonly #retries = new Map<string, { readonly failures: number; readonly at: number }>();
  #failures = 0;
  /** By the platform's ticks, as all times here: before it nothing is tried. */
  restUntil = 0;
  isOffline = false;
  hasWorked = false;

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  may(key: string): boolean {
    return (this.#retries.get(key)?.at ?? 0) <= this.#platform.ticks();
  }

  /** When the next of those that failed is tried again. */
  next(): number {
    const now = this.#platform.ticks();
    return Math.min(...[...this.#retries.values()].map(({ at }) => at).filter((at) => at > now));
  }

  worked(key: string): void {
    this.#retries.delete(key);
    this.reached();
    this.hasWorked = true;
  }

  /** There is a network again. */
  reached(): void {
    this.#failures = 0;
    this.restUntil = 0;
    this.isOffline = false;
  }

  /** The user, or the network, says that it is worth a try. */
  forget(): void {
    this.#retries.clear();
    this.#failures = 0;
    this.restUntil = 0;
  }

  /** @returns why nothing is tried any more, where the session is over */
  failed(key: string, error: unknown): string | undefined {
    if (error instanceof SessionEnded) return error.message;
    const answer = error instanceof ApiError ? error : undefined;
    if (answer && endsSession(answer)) return answer.code;
    // All of this tab waits already.
    if (answer?.status === 429) return undefined;
    const now = this.#platform.ticks();
    const asked = 1000 * (answer?.retryAfter ?? 0);
    if (isAway(error)) {
      this.isOffline = true;
      const wait = Math.max(asked, pauseAfter(this.#failures++, this.#platform));
      this.restUntil = Math.max(this.restUntil, now + wait);
    } else {
      const failures = (this.#retries.get(key)?.failures ?? 0) + 1;
      const wait = Math.max(asked, 500, pauseAfter(failures, this.#platform));
      this.#retries.set(key, { failures, at: now + wait });
    }
    return undefined;
  }
}
