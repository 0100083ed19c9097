/**
 * Whether a store of bodies answers, and takes bodies. It is tested when a request failed, when a caller wants to
 * know, and as long as it does not answer. Only this test changes the state and writes the log, so that an outage is
 * one line when it begins and one when it ends.
 */
import type { Logger } from 'pino';
import { Refusal } from '../../platform/errors/errors.ts';
import { Outage, within } from '../../platform/time/time.ts';
import { asUnavailable, type StoreUnavailable } from './body-store.ts';

/** Milliseconds for which a result holds, and between two tests while there is no answer. */
const TEST_EVERY_MS = 2_000;
/** Milliseconds that a caller waits: after that the store counts as not answering. */
const ANSWER_MS = 1_000;

export interface StoreHealthOptions {
  /** Makes a request that a working store answers. @throws StoreUnavailable */
  readonly test: () => Promise<unknown>;
  readonly log?: Pick<Logger, 'info' | 'warn' | 'error'> | undefined;
}

export class StoreHealth {
  readonly #options: StoreHealthOptions;
  readonly #outage: Outage<StoreUnavailable>;
  /** It answers, and takes no bodies: it is full, for example, or may only be read. */
  readonly #uploads: Outage<StoreUnavailable>;
  #wasAsked = false;
  #tookTrial = false;
  #testing: Promise<StoreUnavailable | undefined> | undefined;
  #testedAt = Number.NEGATIVE_INFINITY;
  #next: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: StoreHealthOptions) {
    this.#options = options;
    const { log } = options;
    this.#outage = new Outage(
      ({ message, isRefusal }) => {
        // The start is refused with it: nothing goes on until the store answers.
        if (isRefusal && !this.#wasAsked) return;
        log?.error(
          `${message}: until the body store answers, mail above 64 KiB is deferred and cannot be read; smaller mail is not affected`,
        );
      },
      () =>
        log?.info('the body store answers again: mail above 64 KiB is accepted and readable again'),
    );
    this.#uploads = new Outage(
      ({ message }) =>
        log?.warn(
          `a body could not be stored: ${message}; its mail is deferred, and no other failure is logged until one is stored`,
        ),
      () => log?.info('bodies are stored again'),
    );
  }

  /** Whether it answered the last test. */
  get isUp(): boolean {
    return !this.#outage.isOn;
  }

  /** Whether it answers, and did not take the last body. */
  get isRefusing(): boolean {
    return this.#uploads.isOn;
  }

  /** Whether it took a body on trial. */
  get tookTrial(): boolean {
    return this.#tookTrial;
  }

  /** Whether it was ever tested. */
  get wasAsked(): boolean {
    return this.#wasAsked;
  }

  /**
   * Whether it answers, by a test of at most {@link TEST_EVERY_MS} ago, or by one that ends within {@link ANSWER_MS}. A test
   * that fails by the database says nothing about the store: the last state holds.
   */
  async answers(): Promise<boolean> {
    if (!this.#testing && performance.now() - this.#testedAt < TEST_EVERY_MS) return this.isUp;
    const isUp = () => this.isUp;
    return within(this.test().then(isUp, isUp), ANSWER_MS, false);
  }

  /** Reports a failed request: if the store answers the test, that one failure is logged. */
  suspect(error: StoreUnavailable): void {
    this.#unlessAway(() =>
      this.#options.log?.warn(`a request for a body failed: ${error.message}`),
    );
  }

  /** Reports a failed upload: if the store answers the test, the first one of an outage is logged. Ignores other errors. */
  refused(error: unknown): void {
    const away = asUnavailable(error);
    if (away) this.#unlessAway(() => this.#uploads.failed(away));
  }

  /** Reports what becomes of a body on trial. */
  async tried(trial: Promise<void>): Promise<void> {
    await trial.then(
      () => {
        this.#tookTrial = true;
        this.accepted();
      },
      (error: unknown) => this.refused(error),
    );
  }

  /** Reports that it took a body. */
  accepted(): void {
    this.#uploads.worked();
  }

  #unlessAway(report: () => void): void {
    this.test().then((away) => {
      if (!away) report();
    }, this.#explain);
  }

  /** Logs why a test that nobody waits for failed by itself, such as by the database. */
  readonly #explain = (err: unknown) =>
    this.#options.log?.error({ err }, 'the body store could not be tested');

  /**
   * Tests the store; callers at the same time share one test.
   *
   * @returns why it does not answer
   */
  test(): Promise<StoreUnavailable | undefined> {
    this.#testing ??= this.#test().finally(() => {
      this.#testing = undefined;
    });
    return this.#testing;
  }

  /** Stops testing. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#next);
  }

  async #test(): Promise<StoreUnavailable | undefined> {
    try {
      await this.#options.test();
      this.#wasAsked = true;
      this.#outage.worked();
      return undefined;
    } catch (error) {
      const away = asUnavailable(error);
      if (!away) throw error;
      this.#outage.failed(away);
      this.#wasAsked = true;
      this.#testLater();
      return away;
    } finally {
      this.#testedAt = performance.now();
    }
  }

  #testLater(): void {
    clearTimeout(this.#next);
    if (this.#isClosed) return;
    this.#next = setTimeout(() => void this.test().catch(this.#explain), TEST_EVERY_MS).unref();
  }
}

/* What callers get meanwhile. */

export function refuseToKeep(): Refusal {
  return new Refusal('unavailable', 'no mail above 64 KiB can be kept right now');
}

export function refuseToRead(): Refusal {
  return new Refusal('unavailable', 'the source of this message cannot be read right now');
}
