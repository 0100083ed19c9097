/** Finds rows that the worker was not told of: of an earlier run, of other nodes, and those that were due later. */
import type { Database } from '../../platform/database/database.ts';
import { type Clock, LOOK_MS, type QueueLog } from './work-options.ts';
import { findWaiting, type Waiting } from './worker-rows.ts';

const DESTINATIONS_AT_A_TIME = 500;
/** The wait after an error of the database. */
const RETRY_MS = 1_000;

interface LookoutOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: QueueLog;
  readonly kind: string;
  found(waiting: readonly Waiting[]): void;
  /** Whether there is no room for more destinations: then the look stops. */
  isFull(): boolean;
  /** Remembers a task until it ends. */
  track(task: Promise<void>): void;
}

export class Lookout {
  readonly #options: LookoutOptions;
  readonly #intervalMs: number;
  /** Where the look continues; undefined where it has read everything. */
  #after: string | undefined;
  #looking = false;
  #isOutdated = false;
  #stopped = false;
  /** Whether the last look failed: an outage is one line of the log, however long it lasts. */
  #isFailing = false;
  #disarm: () => void = () => {};

  constructor(options: LookoutOptions) {
    this.#options = options;
    this.#intervalMs = LOOK_MS[options.database.engine];
  }

  /** Milliseconds: a row that is due later than this is found by a later look, in time. */
  get horizon(): number {
    return 2 * this.#intervalMs;
  }

  /** Whether the last look stopped before its end. */
  get isHalfway(): boolean {
    return this.#after !== undefined && !this.#looking;
  }

  stop(): void {
    this.#stopped = true;
    this.#disarm();
  }

  /** Looks now, from where the last look stopped, and then every few seconds. */
  look(): void {
    if (!this.#looking && !this.#stopped) this.#options.track(this.#look());
  }

  /** The same from the beginning, also during a look: the rows that it has read may have changed. */
  lookAnew(): void {
    this.#after = undefined;
    this.#isOutdated = this.#looking;
    this.look();
  }

  async #look(): Promise<void> {
    const { clock, log, kind } = this.#options;
    this.#looking = true;
    this.#disarm();
    let again = this.#intervalMs;
    try {
      while ((await this.#page()) && !this.#options.isFull() && !this.#stopped) {
        // Between two pages other work gets a turn: on SQLite a query holds the thread.
        await new Promise((resolve) => setImmediate(resolve));
      }
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) {
        log.error({ err: error, kind }, 'could not read the queue: trying again every second');
      }
      this.#isFailing = true;
      again = RETRY_MS;
    }
    this.#looking = false;
    if (this.#isOutdated) this.lookAnew();
    else if (!this.#stopped) this.#disarm = clock.after(again, () => this.look());
  }

  /** @returns whether there may be more */
  async #page(): Promise<boolean> {
    const { database, kind } = this.#options;
    const waiting = await findWaiting(
      database.read,
      kind,
      this.#after ?? '',
      DESTINATIONS_AT_A_TIME,
    );
    this.#after = waiting.length < DESTINATIONS_AT_A_TIME ? undefined : waiting.at(-1)?.destination;
    this.#options.found(waiting);
    return this.#after !== undefined;
  }
}
