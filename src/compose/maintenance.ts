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
/** Several deletions in a row are swept up after at once. */
const SOON_MS = 1_000;
/** A client that was away for longer starts anew. */
const TOMBSTONES_KEPT_MS = 30 * 24 * HOUR_MS;

/** Operators see what became of a delivery for as long; links to its source end after 7 days. */
const DELIVERIES_KEPT_MS = 30 * 24 * HOUR_MS;

/**
 * Runs the sweeps at the start, every hour, and soon after a deletion; one run at a time. A run that
 * fails is tried again in the next hour.
 */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  #hourly: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  start(): void {
    this.#hourly = setInterval(() => this.#enqueue(), HOUR_MS);
    this.#hourly.unref();
    this.sweepSoon();
  }

  /** An account is gone with its mail: what lay in its bodies is to go, too. */
  sweepSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#enqueue();
    }, SOON_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#hourly);
    clearTimeout(this.#soon);
    await this.#running;
  }

  #enqueue(): void {
    this.#running = this.#running.then(() => this.#run());
  }

  async #run(): Promise<void> {
    const { bodies, pruneTombstones, queue, logger } = this.#options;
    try {
      const tombstones = await pruneTombstones(TOMBSTONES_KEPT_MS);
      const deliveries = await queue.prune(Date.now() - DELIVERIES_KEPT_MS);
      const orphans = await bodies.sweepRows();
      if (tombstones + deliveries + orphans > 0) {
        logger.info({ tombstones, deliveries, orphans }, 'maintenance done');
      }
    } catch (error) {
      logger.error({ err: error }, 'maintenance failed');
    }
  }
}
