/** Finds rows that the worker was not told of: of an earlier run, of other nodes, and those that were due later. */
import type { Database } from '../../platform/database/database.ts';
import { Outage } from '../../platform/time/time.ts';
import { type Clock, LOOK_MS, type QueueLog } from './work-options.ts';
import { findWaiting, type LanePosition, type Waiting } from './worker-rows.ts';

const LANES_AT_A_TIME = 500;
/** The wait after an error of the database. */
const RETRY_MS = 1_000;
const FIRST: LanePosition = { sender: '', destination: '' };

interface QueuePollerOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: QueueLog;
  readonly kind: string;
  /** @returns false where there is no room for the lane */
  found(waiting: Waiting): boolean;
  /** Whether there is room for more lanes of a sender. */
  hasRoomFor(sender: string): boolean;
  /** Called after each page, and at the end. */
  onPage(): void;
  /** Remembers a task until it ends. */
  track(task: Promise<void>): void;
}

export class QueuePoller {
  readonly #options: QueuePollerOptions;
  readonly #intervalMs: number;
  /** Senders with lanes that there was no room for. */
  readonly #left = new Set<string>();
  #looking = false;
  #stopped = false;
  readonly #outage: Outage;
  #disarm: () => void = () => {};

  constructor(options: QueuePollerOptions) {
    this.#options = options;
    this.#intervalMs = LOOK_MS[options.database.engine];
    const { log, kind } = options;
    this.#outage = new Outage((err) =>
      log.error({ err, kind }, 'could not read the queue: retry in 1 s'),
    );
  }

  /** Milliseconds: a row that is due later than this is found by a later look, in time. */
  get horizon(): number {
    return 2 * this.#intervalMs;
  }

  stop(): void {
    this.#stopped = true;
    this.#disarm();
  }

  /** Looks now, and then every few seconds. */
  look(): void {
    if (this.#looking || this.#stopped) return;
    this.#disarm();
    this.#looking = true;
    this.#options.track(this.#run());
  }

  /** There was no room for a lane of this sender; {@link goOn} finds it. */
  leave(sender: string): void {
    this.#left.add(sender);
  }

  /** Looks again where a sender has room for lanes that were left. */
  goOn(): void {
    const { hasRoomFor } = this.#options;
    if (!this.#looking && this.#left.values().some((sender) => hasRoomFor(sender))) this.look();
  }

  async #run(): Promise<void> {
    const { clock, onPage } = this.#options;
    let nextMs = this.#intervalMs;
    try {
      await this.#lookThrough();
      this.#outage.worked();
    } catch (error) {
      this.#outage.failed(error);
      nextMs = RETRY_MS;
    }
    this.#looking = false;
    if (this.#stopped) return;
    this.#disarm = clock.after(nextMs, () => this.look());
    onPage();
  }

  async #lookThrough(): Promise<void> {
    const { database, kind } = this.#options;
    let after: LanePosition | undefined = FIRST;
    // Lanes that are left from now on may come before what is read.
    this.#left.clear();
    while (after && !this.#stopped) {
      const lanes: Waiting[] = await findWaiting(database.read, kind, after, LANES_AT_A_TIME);
      const last: Waiting | undefined = lanes.length < LANES_AT_A_TIME ? undefined : lanes.at(-1);
      const full = new Set<string>();
      for (const lane of lanes) {
        if (full.has(lane.sender) || this.#options.found(lane)) continue;
        full.add(lane.sender);
        this.leave(lane.sender);
      }
      // The other lanes of a sender without room are passed over.
      after = last && full.has(last.sender) ? { ...last, destination: null } : last;
      await this.#turn();
    }
  }

  /** Between two pages other work gets a turn: on SQLite a query holds the thread. */
  async #turn(): Promise<void> {
    this.#options.onPage();
    await new Promise((resolve) => setImmediate(resolve));
  }
}
