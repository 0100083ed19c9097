import pLimit, { type LimitFunction } from 'p-limit';
import { runInTurn } from '../../net/net.ts';

/**
 * Runs a bounded number of tasks at once, and one at a time of each key. The others wait in the order in which
 * they came.
 */
export class Turns {
  readonly #all: LimitFunction;
  readonly #keys = new Map<number, { readonly limit: LimitFunction; tasks: number }>();

  constructor(atOnce: number) {
    this.#all = pLimit(atOnce);
  }

  /**
   * @param signal whoever waits leaves the line on it; a task that runs has to heed it by itself
   * @throws the signal's reason where it comes before the turn: then the task never runs
   */
  async run<T>(key: number, task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const own = this.#keys.get(key) ?? { limit: pLimit(1), tasks: 0 };
    this.#keys.set(key, own);
    own.tasks++;
    try {
      // A task that waits for its key takes no place from others.
      return await runInTurn(own.limit, signal, () => runInTurn(this.#all, signal, task));
    } finally {
      if (--own.tasks === 0) this.#keys.delete(key);
    }
  }
}
