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

  async run<T>(key: number, task: () => Promise<T>): Promise<T> {
    if (this.#running.size < this.#atOnce && !this.#running.has(key)) this.#running.add(key);
    else await new Promise<void>((start) => this.#waiting.push({ key, start }));
    try {
      return await task();
    } finally {
      this.#running.delete(key);
      const next = this.#waiting.find((one) => !this.#running.has(one.key));
      // The place goes to the next in line without becoming free in between.
      if (next) {
        this.#waiting = this.#waiting.filter((one) => one !== next);
        this.#running.add(next.key);
        next.start();
      }
    }
  }
}
