/** What has to be done now and then, whatever the load. */
import type { Logger } from 'pino';
import type { Bodies } from './bodies/bodies.ts';
import type { EmbeddedMailstore } from './mailstore/mailstore.ts';

export interface MaintenanceOptions {
  readonly bodies: Bodies;
  readonly mailstore: EmbeddedMailstore;
  readonly logger: Logger;
}

const HOUR_MS = 3_600_000;
/** A client that was away for longer starts anew. */
const TOMBSTONES_KEPT_MS = 30 * 24 * HOUR_MS;

/** Runs the sweeps every hour, one run at a time; a run that fails is tried again in the next hour. */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#running = this.#running.then(() => this.#run());
    }, HOUR_MS);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  async #run(): Promise<void> {
    const { bodies, mailstore, logger } = this.#options;
    try {
      const tombstones = await mailstore.pruneTombstones(TOMBSTONES_KEPT_MS);
      const orphans = await bodies.sweepRows();
      logger.info({ tombstones, orphans }, 'maintenance done');
    } catch (error) {
      logger.error({ err: error }, 'maintenance failed');
    }
  }
}
