import { write, writeSync } from 'node:fs';

/** Where the bytes go. Both ways may write a part only, and fail with the errors of write(2). */
export interface LogDestination {
  write(bytes: Uint8Array, done: (error: Error | null, written: number) => void): void;
  writeSync(bytes: Uint8Array): number;
}

/** Characters that are written together at most, and milliseconds that a line waits at most. */
const BATCH_MAX = 16_000;
const WAIT_MS = 100;
/** Characters that wait at most, give or take a line, while a write is under way or fails. */
const WAITING_MAX = 1_000_000;
/**
 * From a failed write to the next try, in milliseconds. A pipe takes 64 KB each time: with a longer
 * wait, a reader that fell behind once would stay behind, however fast it reads.
 */
const RETRY_MS = 20;
/** At the end of the process: for a write under way, then for a full pipe, in milliseconds. */
const END_WITHIN_MS = 200;
/** Pino's number for the level. */
export const WARN = 40;
const NOTHING: Uint8Array = new Uint8Array();

/**
 * Collects lines of the log and writes many at once: a write for each would take longer than the
 * request that it tells of.
 *
 * Whatever keeps them from being written (a full disk, a pipe that nobody reads) is tried again, and
 * never fails or holds up who logs: lines wait up to a bound, those beyond it are lost, and how many
 * is told in their place. (SonicBoom emits such an error, keeps its bytes, and ends the process by
 * trying forever.)
 */
export class LogLines {
  readonly #destination: LogDestination;
  /** Not yet handed on. */
  #lines = '';
  /** How many came after `#lines` and were not kept. */
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  /** What is being written: one write at a time, or the order would be the threads'. */
  #writing = NOTHING;
  #inFlight = false;
  #retry: NodeJS.Timeout | undefined;
  /** Whether lines are to go as soon as the write before has ended. */
  #due = false;
  #onSettled: (() => void) | undefined;

  constructor(destination: LogDestination = stdout()) {
    this.#destination = destination;
  }

  /** Takes one line, or several that belong together, with the line break at the end. */
  write(line: string): void {
    if (this.#lines.length >= WAITING_MAX) {
      this.#lost++;
      return;
    }
    this.#lines += line;
    if (this.#lines.length >= BATCH_MAX) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), WAIT_MS).unref();
  }

  /** Hands on what there is, without waiting until it is written. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#writing.length > 0) {
      this.#due = true;
      return;
    }
    this.#due = false;
    if (this.#lines === '') return;
    this.#writing = this.#take();
    this.#writeOn();
  }

  /** Writes the rest, after the write under way: for the end of the process. Gives up soon. */
  async end(): Promise<void> {
    if (this.#inFlight) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#onSettled = resolve;
      setTimeout(resolve, END_WITHIN_MS);
      await promise;
    }
    this.flushSync();
  }

  /**
   * Writes what is not being written yet, and gives up what cannot be: for a process that ends at
   * once. A write under way is left to its thread, which the process waits for.
   */
  flushSync(): void {
    let bytes = this.#inFlight ? NOTHING : this.#writing;
    if (!this.#inFlight) this.#writing = NOTHING;
    clearTimeout(this.#retry);
    // The second time takes the line that tells of lost ones.
    while (this.#lines !== '') bytes = Buffer.concat([bytes, this.#take()]);
    const giveUpAt = performance.now() + END_WITHIN_MS;
    while (bytes.length > 0) {
      try {
        bytes = bytes.subarray(this.#destination.writeSync(bytes));
      } catch (error) {
        const isFullPipe = error instanceof Error && 'code' in error && error.code === 'EAGAIN';
        if (!isFullPipe || performance.now() > giveUpAt) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      }
    }
  }

  #take(): Uint8Array {
    const bytes = Buffer.from(this.#lines);
    const lost = this.#lost;
    this.#lines = '';
    this.#lost = 0;
    if (lost > 0) {
      const told = { level: WARN, time: Date.now(), lines: lost, msg: 'log lines were lost' };
      this.write(`${JSON.stringify(told)}\n`);
    }
    return bytes;
  }

  #writeOn(): void {
    this.#inFlight = true;
    this.#destination.write(this.#writing, (error, written) => {
      this.#inFlight = false;
      if (!error) this.#writing = this.#writing.subarray(written);
      if (this.#onSettled) this.#onSettled();
      else if (error) this.#retry = setTimeout(() => this.#writeOn(), RETRY_MS).unref();
      else if (this.#writing.length > 0) this.#writeOn();
      else if (this.#due) this.flush();
    });
  }
}

/** Stdout, such that nobody who stops reading it, and no full disk, ends or holds up the process. */
function stdout(): LogDestination {
  // Node makes a pipe or socket non-blocking when it makes its stream. A write to a full one then
  // fails; else it would hold a thread, for which process.exit() waits. The listeners are for what
  // Node itself writes there, its warnings above all.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const { fd } = process.stdout;
  return {
    write: (bytes, done) => write(fd, bytes, done),
    writeSync: (bytes) => writeSync(fd, bytes),
  };
}
