/**
 * How often something may be done in a time, such as requests of a client or failed logins of an account: a limit counts
 * under a key, in a window of fixed length that begins with the first count. And how much may be done at once: slots and
 * turns, of which no party gets all.
 */
import { LRUCache } from 'lru-cache';
import pLimit, { type LimitFunction } from 'p-limit';
import {
  type RateLimiterAbstract,
  RateLimiterMemory,
  type RateLimiterRes,
} from 'rate-limiter-flexible';
import { entries } from '../memory/memory.ts';

export interface LimitOptions {
  /** Distinguishes limits that are counted in one place. */
  readonly name: string;
  /** The most counts in one window; at least 1. */
  readonly most: number;
  /** Length of a window. */
  readonly seconds: number;
}

/** The state of a key in its window. */
export interface Usage {
  readonly most: number;
  readonly remaining: number;
  /** Whether the count is above the limit. */
  readonly exceeded: boolean;
  /** Seconds until the window ends and the count is 0 again. */
  readonly resetSeconds: number;
}

export interface Limit {
  /** Counts one, or more. Counts above the limit are counted too, and do not make the window longer. */
  take(key: string, amount?: number): Promise<Usage>;
  /** Subtracts one count, for something that turned out not to count. */
  giveBack(key: string): Promise<void>;
  /** The state of a key, without counting. */
  look(key: string): Promise<Usage>;
  /** Resets the count. */
  clear(key: string): Promise<void>;
}

/** Opens a limit. Compose decides where limits are counted, and passes this to the parts. */
export type OpenLimit = (options: LimitOptions) => Limit;

/**
 * The most keys of one limit, some 40 MB. Above that, the least recently used key starts again from 0: to use this, an
 * attacker needs as many networks or account names.
 */
const KEYS_MAX = 100_000;

/** The counter of a limit: in this process, or in a store that several nodes share. */
type Counter = Pick<RateLimiterAbstract, 'penalty' | 'reward' | 'get' | 'delete'>;

/** A limit on a counter of the library. Errors of the counter are thrown. */
export function limitBy(counter: Counter, { most, seconds }: LimitOptions): Limit {
  const usageOf = (result: RateLimiterRes | null): Usage => {
    // The library may still return a window that has ended.
    const isOver = result === null || result.msBeforeNext <= 0;
    const count = isOver ? 0 : result.consumedPoints;
    const left = isOver ? 0 : Math.ceil(result.msBeforeNext / 1000);
    return {
      most,
      remaining: Math.max(0, most - count),
      exceeded: count > most,
      // Also where the clock was set back.
      resetSeconds: Math.min(left, seconds),
    };
  };
  return {
    // Unlike `consume`, it does not throw above the limit.
    take: async (key, amount = 1) => usageOf(await counter.penalty(key, amount)),
    async giveBack(key) {
      // A reward where nothing is counted would give a negative count.
      if ((await counter.get(key)) !== null) await counter.reward(key);
    },
    look: async (key) => usageOf(await counter.get(key)),
    async clear(key) {
      await counter.delete(key);
    },
  };
}

/** Counts in the memory of this process: each node counts by itself, and a restart clears it. */
export const limitInMemory: OpenLimit = (options) => {
  const { name, most, seconds } = options;
  const counter = new RateLimiterMemory({ keyPrefix: name, points: most, duration: seconds });
  const limit = limitBy(counter, options);
  const keys = new LRUCache<string, true>({
    ...entries(KEYS_MAX),
    dispose: (_, key, reason) => {
      if (reason === 'evict') void counter.delete(key);
    },
  });
  return {
    ...limit,
    async take(key, amount) {
      keys.set(key, true);
      return limit.take(key, amount);
    },
    async clear(key) {
      keys.delete(key);
      await limit.clear(key);
    },
  };
};

/**
 * Slots that are held for a while, counted over all nodes: connections of a client, sockets of an account. The holder
 * also counts its own slots: this counts those of all nodes together.
 */
export interface SharedSlots {
  /**
   * Takes slots, as many as there are.
   *
   * @param wanted at least 1
   * @param most how many all nodes together may hold under the key
   * @returns how many were taken, 0 to `wanted`
   */
  take(key: string, wanted: number, most: number): Promise<number>;
  /** Gives slots back. */
  give(key: string, amount: number): void;
}

/**
 * Waits for a slot of a limit, and works in it.
 *
 * @param signal ends the wait: then the work never runs; running work has to check the signal itself
 * @throws the signal's reason where it ended the wait; any error of the work
 */
export function runInTurn<Value>(
  limit: LimitFunction,
  signal: AbortSignal,
  work: () => Promise<Value>,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    void limit(async () => {
      signal.removeEventListener('abort', leave);
      // An aborted caller has its error already; the slot goes to the next in line.
      // Work that throws at once has failed, too.
      if (!signal.aborted) await Promise.try(work).then(resolve, reject);
    });
  });
}

/** Waits for work, but not longer than until the signal. @throws the signal's reason where that comes first */
export function inTime<Value>(signal: AbortSignal, work: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/* Turns at something that is limited, of which no party gets all: an account, a domain, a client. */

/** Who a task is for. */
export interface Party {
  /** Distinguishes it from all other parties, of other kinds too: `account 7`, `acme.test`. */
  readonly name: string;
  /** How many of its tasks run at once. */
  readonly most: number;
}

interface Line {
  readonly name: string;
  readonly limit: LimitFunction;
  tasks: number;
}

/** Runs a bounded number of tasks at once, in all and of each party. The others wait in the order in which they came. */
export class Turns {
  readonly #all: LimitFunction;
  readonly #parties = new Map<string, Line>();

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
  async run<T>(parties: readonly Party[], task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const lines = parties.map(({ name, most }) => {
      const line = this.#parties.get(name) ?? { name, limit: pLimit(most), tasks: 0 };
      this.#parties.set(name, line);
      line.tasks++;
      return line;
    });
    // A task that waits for a party takes no slot from others.
    const inTurn = [...lines.map(({ limit }) => limit), this.#all].reduceRight(
      (next, limit) => () => runInTurn(limit, signal, next),
      task,
    );
    try {
      return await inTurn();
    } finally {
      for (const line of lines) if (--line.tasks === 0) this.#parties.delete(line.name);
    }
  }
}
