/** The files of large bodies that no row names any more: kept for a while, then removed. */
import type { Logger } from 'pino';
import type { Database } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type BodyStore, type Sweep, sweepOrphans, sweepQuarantine } from './body-store.ts';

/**
 * Free bytes of the disk below which files that nothing names are not kept: an account that stores and removes
 * large mail again and again fills no disk with them.
 */
const KEEP_ABOVE_BYTES = 1024 * 1024 * 1024;

export interface BodyFilesOptions {
  readonly database: Database;
  readonly store: BodyStore;
  /** How long a file stays after nothing names it any more; 0: it is removed at once. */
  readonly keepMs: number;
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'> | undefined;
  readonly now: () => EpochMs;
  /** Whether the store answers, and belongs to the database. */
  readonly isOurs: () => Promise<boolean>;
  /** Does it where the store answers and belongs to the database, and notes where it does not answer. */
  readonly whileUp: (act: () => Promise<unknown>) => Promise<void>;
}

export class BodyFiles {
  readonly #options: BodyFilesOptions;

  constructor(options: BodyFilesOptions) {
    this.#options = options;
  }

  /**
   * Removes files that `Bodies.release` returned, once they were kept for `BODY_KEEP_HOURS`: until then they are
   * in quarantine. The sweep finds those that a failure leaves.
   */
  async remove(files: readonly string[]): Promise<void> {
    if (files.length === 0) return;
    await this.#options.whileUp(async () => {
      const isKept = this.#options.keepMs > 0 && !(await this.#isDiskLow());
      if (isKept) await this.#options.store.quarantine(files, this.#options.now());
      else await this.#options.store.remove(files);
    });
  }

  /** A bucket has no disk of ours. */
  async #isDiskLow(): Promise<boolean> {
    const { store } = this.#options;
    return !store.isRemote && (await store.freeBytes()) < KEEP_ABOVE_BYTES;
  }

  /**
   * Finds files that no row names and that are not in quarantine, and moves them there. It looks at every file.
   *
   * @param signal ends it early
   * @returns how many it moved
   */
  async sweep(signal: AbortSignal): Promise<number> {
    if (!(await this.#options.isOurs())) return 0;
    const quarantined = await sweepOrphans(this.#sweep(signal), this.#options.now());
    if (quarantined > 0) {
      this.#options.log?.warn(
        { store: this.#options.store.location, quarantined },
        'body files without a message were moved to quarantine: they are removed after BODY_KEEP_HOURS',
      );
    }
    return quarantined;
  }

  /**
   * Removes files that are in quarantine for longer than `BODY_KEEP_HOURS`, where the disk is nearly full all of them.
   * Those that a row names again are moved back.
   *
   * @param signal ends it early
   */
  async expire(signal: AbortSignal): Promise<{ restored: number; removed: number }> {
    const nothing = { restored: 0, removed: 0 };
    if (!(await this.#options.isOurs())) return nothing;
    const isLow = await this.#isDiskLow();
    const before = isLow ? this.#options.now() : this.#options.now() - this.#options.keepMs;
    const swept = await sweepQuarantine(this.#sweep(signal), before);
    const files = { store: this.#options.store.location, ...swept };
    if (swept.restored > 0) {
      this.#options.log?.warn(
        files,
        'body files in quarantine that a message names again were moved back',
      );
    }
    if (isLow && swept.removed > 0) {
      this.#options.log?.warn(
        files,
        'the disk is nearly full: body files that nothing names were removed before BODY_KEEP_HOURS were over',
      );
    }
    return swept;
  }

  /** The same at once, where the disk is nearly full. */
  async relieveDisk(signal: AbortSignal): Promise<void> {
    if (await this.#isDiskLow()) await this.expire(signal);
  }

  #sweep(signal: AbortSignal): Sweep {
    return { database: this.#options.database, store: this.#options.store, signal };
  }
}
