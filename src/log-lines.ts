/** Where lines go; a SonicBoom of pino's is one. */
export interface LogDestination {
  write(text: string): unknown;
  flushSync(): void;
}

/** Characters that are written together at most, and milliseconds that a line waits at most. */
const BATCH_MAX = 16_000;
const WAIT_MS = 100;

/**
 * Collects lines of the log and writes many at once: a write for each would take longer than the
 * request that it tells of. (SonicBoom's own buffer measures all of itself again for every line.)
 */
export class LogLines {
  readonly #destination: LogDestination;
  #lines = '';
  #timer: NodeJS.Timeout | undefined;

  constructor(destination: LogDestination) {
    this.#destination = destination;
  }

  write(line: string): void {
    this.#lines += line;
    if (this.#lines.length >= BATCH_MAX) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), WAIT_MS).unref();
  }

  /** Hands on what there is, without waiting until it is written. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#lines === '') return;
    const lines = this.#lines;
    this.#lines = '';
    this.#destination.write(lines);
  }

  /** Returns when everything is written: for the end of the process. */
  flushSync(): void {
    this.flush();
    this.#destination.flushSync();
  }
}
