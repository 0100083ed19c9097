/**
 * How often somebody may do something in a time: requests of a client, failed logins of an account.
 * A limit counts under a key, in a window of fixed length that begins with the first count.
 */
import { LRUCache } from 'lru-cache';
import type { LimitFunction } from 'p-limit';
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';

interface LimitOptions {
  /** Tells limits apart that are counted in one place. */
  readonly name: string;
  /** How often, in one window; at least 1. */
  readonly most: number;
  /** Length of a window. */
  readonly seconds: number;
}

/** Where a key stands in its window. */
export interface Usage {
  readonly most: number;
  readonly remaining: number;
  /** Whether it was counted more often than it may. */
  readonly exceeded: boolean;
  /** Seconds until the window ends and nothing is counted any more. */
  readonly resetSeconds: number;
}

export interface Limit {
  /** Counts one. What exceeds the limit is counted too, and does not make the window longer. */
  take(key: string): Promise<Usage>;
  /** Takes one count back, of something that turned out not to count. */
  giveBack(key: string): Promise<void>;
  /** Where a key stands, without counting. */
  look(key: string): Promise<Usage>;
  /** Forgets what was counted. */
  clear(key: string): Promise<void>;
}

/** Opens a limit. Compose decides where limits are counted, and hands this to the parts. */
export type OpenLimit = (options: LimitOptions) => Limit;

/**
 * Keys that one limit remembers, some 40 MB at most. Beyond that the key that was not used for the
 * longest time starts anew. Whoever wants that needs as many networks or account names.
 */
const KEYS_MAX = 100_000;

/** Counts in the memory of this process: each node counts by itself, a restart forgets. */
export const limitInMemory: OpenLimit = ({ name, most, seconds }) => {
  const limiter = new RateLimiterMemory({ keyPrefix: name, points: most, duration: seconds });
  const keys = new LRUCache<string, true>({
    max: KEYS_MAX,
    dispose: (_, key, reason) => {
      if (reason === 'evict') void limiter.delete(key);
    },
  });
  const usageOf = (result: RateLimiterRes | null): Usage => {
    // The library may still hold a window that is over.
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
    async take(key) {
      keys.set(key, true);
      // Unlike `consume` it does not throw where the limit is exceeded.
      return usageOf(await limiter.penalty(key));
    },
    async giveBack(key) {
      // A reward where nothing is counted would count below zero.
      if ((await limiter.get(key)) !== null) await limiter.reward(key);
    },
    look: async (key) => usageOf(await limiter.get(key)),
    async clear(key) {
      keys.delete(key);
      await limiter.delete(key);
    },
  };
};

/**
 * Waits for a place of a limit and works in it.
 *
 * @param signal ends the waiting: the work then never runs; work that runs has to heed it by itself
 * @throws the signal's reason where it ended the waiting; what the work throws
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
      // Whoever left has been told already; the place goes to the next in line.
      if (!signal.aborted) await work().then(resolve, reject);
    });
  });
}
