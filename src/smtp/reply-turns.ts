/**
 * Lets replies leave together at the end of a turn of the event loop. The first wakes the peer, or the
 * network card's interrupt the next machine; the others find it awake. A connection that is alone waits
 * for nothing.
 */
export class ReplyTurns {
  #waiting: (() => void)[] = [];

  /** Calls `flush` when all that has come in this turn has been handled. */
  join(flush: () => void): void {
    if (this.#waiting.push(flush) === 1) setImmediate(() => this.#flushAll());
  }

  #flushAll(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const flush of waiting) flush();
  }
}
