/** Whether the file of the database can be read and written: the log has a line when it cannot, and one when it can again. */
import { Outage } from '../../time/time.ts';
import type { WarningLog } from './checkpoints.ts';

/** Logged when it begins. */
const FAILING =
  'the file of the database cannot be read or written: mail is deferred and requests are answered 503 until it can; look at the disk, its mount, the owner of the folder, and other programs that have the file open';
/** Another page may be read and written meanwhile: the disk works again when none failed for so long. */
const WORKS_MS = 10_000;

export class FileHealth {
  readonly #outage: Outage;
  readonly #tryWrite: () => Promise<unknown>;
  #failedAt = 0;
  #next: NodeJS.Timeout | undefined;

  /** @param tryWrite changes a row */
  constructor(log: WarningLog | undefined, tryWrite: () => Promise<unknown>) {
    this.#tryWrite = tryWrite;
    this.#outage = new Outage(
      (err) => log?.warn({ err }, FAILING),
      (seconds, failures) => log?.warn({ seconds, failures }, 'the database can be written again'),
    );
  }

  get isFailing(): boolean {
    return this.#outage.isOn;
  }

  failed(error: Error): void {
    this.#failedAt = performance.now();
    this.#outage.failed(error);
    clearTimeout(this.#next);
    // While it is not ready there may be no requests, and so nobody else who finds that it works. Timers may be a little early.
    this.#next = setTimeout(() => void this.#tryWrite().catch(() => {}), WORKS_MS + 100).unref();
  }

  /** Something was written, and is on the disk. */
  written(): void {
    if (performance.now() - this.#failedAt >= WORKS_MS) this.#outage.worked();
  }

  close(): void {
    clearTimeout(this.#next);
  }
}
