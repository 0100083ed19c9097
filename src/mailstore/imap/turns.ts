/** Runs so many tasks at once, and the others after them, in the order in which they came. */
export class Turns {
  readonly #atOnce: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#atOnce) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#running++;
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      // The place goes to the next in line without becoming free in between.
      if (next) next();
      else this.#running--;
    }
  }
}
