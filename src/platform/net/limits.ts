/**
 * How often something may be done in a time, such as requests of a client or failed logins of an account: a limit counts
 * under a key, in a window of fixed length that begins with the first count. What may be done at once: `turns.ts`.
 */
import { LRUCache } from 'lru-cache';
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
