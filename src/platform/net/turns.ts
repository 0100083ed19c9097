/** Turns at something that is limited, of which no party gets all: an account, a domain, a client. */
import pLimit, { type LimitFunction } from 'p-limit';
import { runInTurn } from './limits.ts';

/** Who a task is for. */
export interface Party {
  /** Distinguishes it from all other parties, of other kinds too: `account 7`, `acme.test`. */
  readonly name: string;
  /** How many of its tasks run at once. */
  readonly most: number;
}

/** Runs a bounded number of tasks at once, in all and of each party. The others wait in the order in which they came. */
export class Turns {
  readonly #all: LimitFunction;
  readonly #parties = new Map<string, { readonly limit: LimitFunction; tasks: number }>();

  constructor(atOnce: number) {
    this.#all = pLimit(atOnce);
  }

  /** How many tasks of a party run or wait. */
  tasksOf(name: string): number {
    return this.#parties.get(name)?.tasks ?? 0;
  }

  /**
   * Runs a task when it is the turn of all its parties.
   *
   * @param parties the smallest first: an account before its domain
   * @param signal whoever waits leaves the line on it; a task that runs has to heed it by itself
   * @throws the signal's reason where it comes before the turn: then the task never runs
   */
  async run<T>(
    [party, ...others]: readonly Party[],
    task: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    if (!party) return runInTurn(this.#all, signal, task);
    const own = this.#parties.get(party.name) ?? { limit: pLimit(party.most), tasks: 0 };
    this.#parties.set(party.name, own);
    own.tasks++;
    try {
      // A task that waits for its party takes no slot from others.
      return await runInTurn(own.limit, signal, () => this.run(others, task, signal));
    } finally {
      if (--own.tasks === 0) this.#parties.delete(party.name);
    }
  }
}
