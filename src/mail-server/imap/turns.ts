interface Waiting {
  readonly key: number;
  readonly start: () => void;
}

/**
 * Runs so many tasks at once, of one key one at a time, and the others after them, in the order in
 * which they came.
 */
export class Turns {
  readonly #atOnce: number;
  readonly #running = new Set<number>();
  #waiting: Waiting[] = [];

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /**
   * @param signal whoever waits leaves the line on it; a task that runs has to heed it by itself
   * @throws the signal's reason where it comes before the turn: then the task never runs
   */
  async run<T>(key: number, task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    if (this.#running.size < this.#atOnce && !this.#running.has(key)) this.#running.add(key);
    else await this.#wait(key, signal);
    try {
      // Between being given the turn and being here, too, the signal may have come.
      signal.throwIfAborted();
      return await task();
    } finally {
      this.#running.delete(key);
      const next = this.#waiting.find((one) => !this.#running.has(one.key));
      // The place goes to the next in line without becoming free in between.
      if (next) {
        this.#leave(next);
        this.#running.add(next.key);
        next.start();
      }
    }
  }

  #wait(key: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.#leave(waiting);
        reject(signal.reason);
      };
      const start = () => {
        signal.removeEventListener('abort', giveUp);
        resolve();
      };
      const waiting: Waiting = { key, start };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#waiting.push(waiting);
    });
  }

  #leave(waiting: Waiting): void {
    this.#waiting = this.#waiting.filter((one) => one !== waiting);
  }
}
