import type { Connection } from './connection.ts';

/** A connection in use. */
export interface Lease {
  readonly connection: Connection;
  readonly release: () => void;
}

/** A reader that pauses for longer than this releases its connection. */
const PAUSE_MS = 200;
/** So does a reader that has held it for this long: others of the account wait for it. */
const KEPT_MS = 1_000;

/**
 * Holds the connection for one reader between its commands, as long as it reads without a pause. If others used it in
 * between, the server would read the message from its start again.
 */
export class ReaderHold {
  #lease: Lease | undefined;
  #pause: NodeJS.Timeout | undefined;
  #until = 0;

  /** Releases the connection. */
  end(): void {
    this.#take()?.release();
  }

  /** @returns the held connection, for its next use */
  take(): Lease | undefined {
    const lease = this.#take();
    if (lease?.connection.isOpen) return lease;
    lease?.release();
    return undefined;
  }

  #take(): Lease | undefined {
    const lease = this.#lease;
    this.#lease = undefined;
    clearTimeout(this.#pause);
    return lease;
  }

  /** Holds a connection after a use. @param isFirst whether it was not held before */
  put(lease: Lease, isFirst: boolean): void {
    const now = performance.now();
    if (isFirst) this.#until = now + KEPT_MS;
    if (!lease.connection.isOpen || now > this.#until) {
      lease.release();
      return;
    }
    this.#lease = lease;
    this.#pause = setTimeout(() => this.end(), PAUSE_MS).unref();
  }
}
