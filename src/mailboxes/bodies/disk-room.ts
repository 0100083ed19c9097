/**
 * The free space of the disk that mail is written to, of two the lesser one. {@link FREE_BYTES_LEFT} of it are kept free of
 * mail, so that accepted mail can still be read, marked, removed and delivered.
 *
 * Only a measurement changes the state and writes the log, so that a full disk is one line when it begins and one when
 * it is over: with the first message, or look at the health, that finds room.
 */
import type { Logger } from 'pino';
import { isStorageFull } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { Outage } from '../../platform/time/time.ts';

/** Bytes of the disk that are kept free of mail. */
export const FREE_BYTES_LEFT = 64 * 1024 * 1024;
/** Bytes that are free above these when the disk counts as full no more: it does not go back and forth. */
const MARGIN = 16 * 1024 * 1024;
/** Milliseconds for which the measured free space is used. */
const MEASURED_MS = 1_000;

export interface DiskRoomOptions {
  /** Measures the free space. */
  readonly freeBytes: () => Promise<number>;
  /** What is deferred while there is none, for the log. */
  readonly deferred: string;
  readonly log?: Pick<Logger, 'info' | 'error'> | undefined;
}

export class DiskRoom {
  readonly #options: DiskRoomOptions;
  #measured = { at: Number.NEGATIVE_INFINITY, bytes: Promise.resolve(0) };
  readonly #outage: Outage<void>;
  #freeBytes = 0;

  constructor(options: DiskRoomOptions) {
    this.#options = options;
    const { deferred, log } = options;
    this.#outage = new Outage(
      () =>
        log?.error(
          { freeBytes: this.#freeBytes, keptFree: FREE_BYTES_LEFT },
          `the disk of DATA_DIR, or that of its bodies, is full: ${deferred} is deferred until there is space`,
        ),
      () =>
        log?.info(
          { freeBytes: this.#freeBytes },
          `the disk has space again: ${deferred} is accepted`,
        ),
    );
  }

  /** The free bytes, by a measurement of at most a second ago. @throws the file system's error */
  free(): Promise<number> {
    const at = performance.now();
    if (at - this.#measured.at >= MEASURED_MS) this.#measured = { at, bytes: this.#measure() };
    return this.#measured.bytes;
  }

  /** Whether the disk is full, by such a measurement. @throws the file system's error */
  async isFull(): Promise<boolean> {
    await this.free();
    return this.#outage.isOn;
  }

  async #measure(): Promise<number> {
    const bytes = await this.#options.freeBytes();
    this.#freeBytes = bytes;
    if (bytes >= FREE_BYTES_LEFT + (this.#outage.isOn ? MARGIN : 0)) this.#outage.worked();
    else this.#outage.failed();
    return bytes;
  }
}

export function noSpace(cause: unknown): Refusal {
  return new Refusal('storage_full', 'there is no space left for this message', { cause });
}

/** Throws an error on; where the disk is full, as the refusal storage_full. */
export function throwOrRefuse(error: unknown): never {
  throw isStorageFull(error) ? noSpace(error) : error;
}
