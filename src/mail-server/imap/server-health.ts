/**
 * Whether the server is worth another connection: after failures it is left alone for longer and
 * longer, so that requests fail at once instead of each waiting for a server that is down.
 */
import { ImapFailure } from './failure.ts';

const FIRST_REST_MS = 250;
const LONGEST_REST_MS = 15_000;

export class ServerHealth {
  readonly #now: () => number;
  #failures = 0;
  #restUntil = 0;
  #probing = false;
  #lastSuccess = 0;

  /** @param now milliseconds that only grow */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** When the server last did what it was asked; 0 for never. */
  get lastSuccess(): number {
    return this.#lastSuccess;
  }

  /**
   * Runs one attempt to connect. After a failure only one attempt at a time is made, and none while
   * the server rests.
   *
   * @throws ImapFailure `resting` where no attempt is made
   */
  async attempt<T>(connect: () => Promise<T>): Promise<T> {
    const rest = this.#restUntil - this.#now();
    if (this.#failures > 0 && (rest > 0 || this.#probing)) {
      throw new ImapFailure('resting', { retryAfter: Math.max(1, rest / 1000) });
    }
    const isProbe = this.#failures > 0;
    if (isProbe) this.#probing = true;
    try {
      const connected = await connect();
      this.succeeded();
      return connected;
    } catch (error) {
      if (error instanceof ImapFailure && error.concernsServer) this.#failed(error);
      else if (isProbe) this.succeeded();
      throw error;
    } finally {
      if (isProbe) this.#probing = false;
    }
  }

  succeeded(): void {
    this.#failures = 0;
    this.#lastSuccess = this.#now();
  }

  #failed({ kind }: ImapFailure): void {
    const longer = FIRST_REST_MS * 2 ** Math.min(this.#failures, 10);
    // One that was dropped may be tried again at once: once.
    const isSingle = kind === 'dropped' && this.#failures === 0;
    const rest = isSingle ? 0 : Math.min(longer, LONGEST_REST_MS);
    this.#failures++;
    // Nodes that lost the server together do not come back together.
    this.#restUntil = this.#now() + rest * (0.75 + Math.random() / 2);
  }
}
