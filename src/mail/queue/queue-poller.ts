/** Finds rows that the worker was not told of: of an earlier run, of other nodes, and those that were due later. */
import type { Database } from '../../platform/database/database.ts';
import { Outage } from '../../platform/time/time.ts';
import type { Lane } from './parties.ts';
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
  /** Senders with lanes that there was no room for, and the first destination of these. */
  readonly #left = new Map<string, string>();
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
    this.#start(async () => {
      await this.#lookThrough();
      return this.#intervalMs;
    });
  }

  /** There was no room for a lane; {@link goOn} reads it. */
  leave({ sender, destination }: Lane): void {
    const first = this.#left.get(sender);
    if (first === undefined || destination < first) this.#left.set(sender, destination);
  }

  /** Reads on for a sender who has room again, where lanes were left. */
  goOn(): void {
    if (this.#looking || this.#stopped || this.#left.size === 0) return;
    for (const [sender, destination] of this.#left) {
      if (!this.#options.hasRoomFor(sender)) continue;
      this.#start(async () => {
        await this.#readOn(sender, destination);
        return undefined;
      });
      return;
    }
  }

  /** @param look returns after how many milliseconds the next one comes, if it decides that */
  #start(look: () => Promise<number | undefined>): void {
    this.#looking = true;
    this.#options.track(this.#run(look));
  }

  async #run(look: () => Promise<number | undefined>): Promise<void> {
    const { clock, onPage } = this.#options;
    let again: number | undefined;
    try {
      again = await look();
      this.#outage.worked();
    } catch (error) {
      this.#outage.failed(error);
      again = RETRY_MS;
    }
    this.#looking = false;
    if (this.#stopped) return;
    if (again !== undefined) {
      this.#disarm();
      this.#disarm = clock.after(again, () => this.look());
    }
    onPage();
  }

  async #lookThrough(): Promise<void> {
    let after: LanePosition | undefined = FIRST;
    while (after && !this.#stopped) {
      const { lanes, last }: LanePage = await this.#page(after);
      const full = new Set<string>();
      for (const lane of lanes) {
        if (full.has(lane.sender) || this.#options.found(lane)) continue;
        full.add(lane.sender);
        this.leave(lane);
      }
      // The other lanes of a sender without room are passed over.
      after = last && full.has(last.sender) ? { ...last, destination: null } : last;
      await this.#turn();
    }
  }

  async #readOn(sender: string, destination: string): Promise<void> {
    let after: LanePosition = { sender, destination };
    // Lanes that are left from now on may come before what is read.
    this.#left.delete(sender);
    while (!this.#stopped) {
      const { lanes, last }: LanePage = await this.#page(after);
      for (const lane of lanes) {
        if (lane.sender !== sender || this.#options.found(lane)) continue;
        this.leave(lane);
        return;
      }
      if (last?.sender !== sender) return;
      after = last;
      await this.#turn();
    }
  }

  async #page(after: LanePosition): Promise<LanePage> {
    const { database, kind } = this.#options;
    const lanes = await findWaiting(database.read, kind, after, LANES_AT_A_TIME);
    return { lanes, last: lanes.length < LANES_AT_A_TIME ? undefined : lanes.at(-1) };
  }

  /** Between two pages other work gets a turn: on SQLite a query holds the thread. */
  async #turn(): Promise<void> {
    this.#options.onPage();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

interface LanePage {
  readonly lanes: readonly Waiting[];
  /** The last lane, where there may be more. */
  readonly last: Lane | undefined;
}
