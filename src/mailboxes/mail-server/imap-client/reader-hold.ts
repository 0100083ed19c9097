import type { Connection } from './connection.ts';

/** The connections and requests of one account. */
export interface Account {
  readonly id: number;
  readonly tenant: string;
  readonly idle: Pooled[];
  readonly busy: Set<Pooled>;
  opening: number;
  readonly unsubscribe: () => void;
}

export interface Pooled {
  readonly connection: Connection;
  readonly account: Account;
  idleTimer: NodeJS.Timeout | undefined;
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
  #pooled: Pooled | undefined;
  #release: () => void = () => undefined;
  #pause: NodeJS.Timeout | undefined;
  #until = 0;

  /** Releases the connection. */
  end(): void {
    if (this.#take()) this.#release();
  }

  /** @returns the held connection, for its next use */
  take(): Pooled | undefined {
    const pooled = this.#take();
    if (pooled?.connection.isOpen) return pooled;
    if (pooled) this.#release();
    return undefined;
  }

  #take(): Pooled | undefined {
    const pooled = this.#pooled;
    this.#pooled = undefined;
    clearTimeout(this.#pause);
    return pooled;
  }

  /** Holds a connection after a use. @param isFirst whether it was not held before */
  put(pooled: Pooled, isFirst: boolean, release: () => void): void {
    const now = performance.now();
    if (isFirst) this.#until = now + KEPT_MS;
    if (!pooled.connection.isOpen || now > this.#until) {
      release();
      return;
    }
    this.#pooled = pooled;
    this.#release = release;
    this.#pause = setTimeout(() => this.end(), PAUSE_MS).unref();
  }
}
