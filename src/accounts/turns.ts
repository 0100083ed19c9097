import { Refusal } from '../errors/errors.ts';

/** Runs so many tasks at once; others wait in line, up to a limit. */
export class Turns {
  readonly #atOnce: number;
  readonly #waitingMax: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(atOnce: number, waitingMax: number) {
    this.#atOnce = atOnce;
    this.#waitingMax = waitingMax;
  }

  /** @throws Refusal unavailable where too many wait already */
  async run<T>(task: () => Promise<T>): Promise<T> {
    await this.#begin();
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      // The place goes to the next in line without becoming free in between.
      if (next) next();
      else this.#running--;
    }
  }

  #begin(): Promise<void> {
    if (this.#running < this.#atOnce) {
      this.#running++;
      return Promise.resolve();
    }
    if (this.#waiting.length >= this.#waitingMax) {
      throw new Refusal('unavailable', 'too many passwords are being checked', { retryAfter: 5 });
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
