import { type Connection, closings } from './connection.ts';

const TICK_SECONDS = 1;

/**
 * All connections, on one timer that ticks about every second: each tick pings one share of the
 * connections, so that a heartbeat of thousands is no burst, and ends those whose token is expired.
 * A token may be good for years, which no timer of its own could count (2^31 ms at most).
 */
export class Heartbeat {
  readonly #slots: Set<Connection>[];
  readonly #tickMs: number;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #current = 0;
  #size = 0;

  /** @param seconds between two pings of the same connection */
  constructor(seconds: number, now: () => number) {
    const slots = Math.max(1, Math.floor(seconds / TICK_SECONDS));
    this.#slots = Array.from({ length: slots }, () => new Set());
    this.#tickMs = (seconds / slots) * 1000;
    this.#now = now;
  }

  get size(): number {
    return this.#size;
  }

  /** The first ping comes after a whole heartbeat. */
  add(connection: Connection): void {
    connection.slot = this.#current;
    this.#slots[this.#current]?.add(connection);
    this.#size++;
    // Nothing is to be kept alive by it: the server's own socket does that.
    this.#timer ??= setInterval(() => this.#tick(), this.#tickMs).unref();
  }

  remove(connection: Connection): void {
    if (!this.#slots[connection.slot]?.delete(connection)) return;
    this.#size--;
    if (this.#size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  *[Symbol.iterator](): Generator<Connection> {
    for (const slot of this.#slots) yield* slot;
  }

  #tick(): void {
    this.#current = (this.#current + 1) % this.#slots.length;
    for (const connection of this.#slots[this.#current] ?? []) connection.beat();
    const now = this.#now();
    for (const connection of this) {
      if (connection.user.expiresAt <= now) connection.end(closings.expired);
    }
  }
}
