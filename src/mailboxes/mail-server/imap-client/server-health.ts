/**
 * Whether to try another connection to the server: after failures it is not used for longer and longer times, so that
 * requests fail at once instead of each waiting for a server that is down.
 */
import { within } from '../../../platform/time/time.ts';
import { ImapFailure } from './failure.ts';

const FIRST_REST_MS = 250;
const LONGEST_REST_MS = 5_000;
/** How long others wait for the result of the one attempt under way. */
const PATIENCE_MS = 2_000;

export class ServerHealth {
  readonly #now: () => number;
  #failures = 0;
  #restUntil = 0;
  #probe: Promise<void> | undefined;
  /** When the last command succeeded; 0 for never. */
  lastSuccess = 0;

  /** @param now milliseconds of a monotonic clock */
  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * Runs one attempt to connect. After a failure only one attempt at a time is made, for which others wait a moment,
   * and none while the server rests.
   *
   * @throws ImapFailure `resting` where no attempt is made
   */
  async attempt<T>(connect: () => Promise<T>): Promise<T> {
    if (this.#failures === 0) return this.#connect(connect);
    if (this.#now() < this.#restUntil) throw this.#resting();
    if (this.#probe) {
      await within(this.#probe, PATIENCE_MS, undefined);
      if (this.#failures > 0) throw this.#resting();
      return this.#connect(connect);
    }
    const attempt = this.#connect(connect);
    const end = () => {
      this.#probe = undefined;
    };
    this.#probe = attempt.then(end, end);
    return attempt;
  }

  /** A random time, so that requests that were refused together do not come back together. */
  #resting(): ImapFailure {
    const rest = Math.max(0, this.#restUntil - this.#now()) / 1000;
    return new ImapFailure('resting', { retryAfter: rest + 1 + 4 * Math.random() });
  }

  async #connect<T>(connect: () => Promise<T>): Promise<T> {
    try {
      const connected = await connect();
      this.succeeded();
      return connected;
    } catch (error) {
      if (error instanceof ImapFailure && error.concernsServer) this.#failed(error);
      // A server that refuses a login is up.
      else this.succeeded();
      throw error;
    }
  }

  succeeded(): void {
    this.#failures = 0;
    this.lastSuccess = this.#now();
  }

  #failed({ kind }: ImapFailure): void {
    const longer = FIRST_REST_MS * 2 ** Math.min(this.#failures, 10);
    // After a single dropped connection, one retry may come at once.
    const isSingle = kind === 'dropped' && this.#failures === 0;
    const rest = isSingle ? 0 : Math.min(longer, LONGEST_REST_MS);
    this.#failures++;
    // Random, so that nodes that lost the server together do not come back together.
    this.#restUntil = this.#now() + rest * (0.75 + Math.random() / 2);
  }
}
