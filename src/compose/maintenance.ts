/** What has to be done now and then, whatever the load. */
import type { Logger } from 'pino';
import type { Bodies } from '../bodies/bodies.ts';
import type { Queue } from '../queue/queue.ts';

export interface MaintenanceOptions {
  readonly bodies: Bodies;
  /** Forgets removals that were kept for longer than that; says how many. */
  readonly pruneTombstones: (keptMs: number) => Promise<number>;
  readonly queue: Queue;
  readonly logger: Logger;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Several deletions in a row are swept up after at once. */
const SOON_MS = 1_000;
/** A client that was away for longer starts anew. */
const TOMBSTONES_KEPT_MS = 30 * DAY_MS;

/** Operators see what became of a delivery for as long; links to its source end after 7 days. */
const DELIVERIES_KEPT_MS = 30 * DAY_MS;

/**
 * Runs the sweeps at the start, every hour, and soon after a deletion, and looks through the files of
 * bodies at the start and every day; one run at a time. A run that fails is tried again at its next
 * time.
 */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  readonly #stopping = new AbortController();
  #hourly: NodeJS.Timeout | undefined;
  #daily: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  start(): void {
    this.#hourly = setInterval(() => this.#enqueue(() => this.#sweep()), HOUR_MS).unref();
    this.#daily = setInterval(() => this.#enqueue(() => this.#sweepFiles()), DAY_MS).unref();
    this.sweepSoon();
    this.#enqueue(() => this.#sweepFiles());
  }

  /** An account is gone with its mail: what lay in its bodies is to go, too. */
  sweepSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#enqueue(() => this.#sweep());
    }, SOON_MS).unref();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#hourly);
    clearInterval(this.#daily);
    clearTimeout(this.#soon);
    await this.#running;
  }

  #enqueue(run: () => Promise<void>): void {
    this.#running = this.#running.then(async () => {
      if (this.#stopping.signal.aborted) return;
      try {
        await run();
      } catch (error) {
        this.#options.logger.error({ err: error }, 'maintenance failed; it is tried again later');
      }
    });
  }

  async #sweep(): Promise<void> {
    const { bodies, pruneTombstones, queue, logger } = this.#options;
    const tombstones = await pruneTombstones(TOMBSTONES_KEPT_MS);
    const deliveries = await queue.prune(Date.now() - DELIVERIES_KEPT_MS);
    const orphans = await bodies.sweepRows();
    if (tombstones + deliveries + orphans > 0) {
      logger.info({ tombstones, deliveries, orphans }, 'maintenance done');
    }
  }

  async #sweepFiles(): Promise<void> {
    await this.#options.bodies.sweepFiles(this.#stopping.signal);
  }
}
