/** How often something is done, counted over all nodes. */
import { ErrorReply } from '@redis/client';
import type { Logger } from 'pino';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { type Limit, limitBy, limitInMemory, type OpenLimit } from '../net/net.ts';
import { type Redis, RedisAway, type RedisClient } from './connection.ts';

/** Told how commands that count fare: Redis may answer, and refuse them because its memory is full. */
export class CountingState {
  readonly #log: Pick<Logger, 'info' | 'warn'>;
  #isRefused = false;

  constructor(log: Pick<Logger, 'info' | 'warn'>) {
    this.#log = log;
  }

  worked(): void {
    if (!this.#isRefused) return;
    this.#isRefused = false;
    this.#log.info('Redis counts again: limits apply across all nodes');
  }

  failed(error: unknown): void {
    // That Redis is away is said where it is noticed.
    if (this.#isRefused || !(error instanceof ErrorReply)) return;
    this.#isRefused = true;
    this.#log.warn(
      { err: error },
      'Redis refuses to count: each node applies the limits on its own',
    );
  }
}

/**
 * Opens limits that are counted in Redis by `rate-limiter-flexible`, under `<prefix>limit:<name>:<key>`. What
 * Redis does not answer is counted in the memory of this node: the library's own insurance would keep every
 * key there that it ever saw.
 */
export function sharedLimits(redis: Redis, prefix: string, state: CountingState): OpenLimit {
  return (options) => {
    const { name, most, seconds } = options;
    const alone = limitInMemory(options);
    // The connection is another one after each time that it was lost.
    let client: RedisClient | undefined;
    const store = {
      eval: (...given: Parameters<RedisClient['eval']>) => connected(client).eval(...given),
      multi: () => connected(client).multi(),
      del: (key: string) => connected(client).del(key),
    };
    const counter = new RateLimiterRedis({
      storeClient: store,
      useRedisPackage: true,
      keyPrefix: `${prefix}limit:${name}`,
      points: most,
      duration: seconds,
    });
    const together = limitBy(counter, options);
    const count = async <Value>(by: (limit: Limit) => Promise<Value>): Promise<Value> => {
      if (!redis.answers) return by(alone);
      try {
        const value = await redis.ask((current) => {
          client = current;
          return by(together);
        });
        state.worked();
        return value;
      } catch (error) {
        state.failed(error);
        return by(alone);
      }
    };
    return {
      take: (key) => count((limit) => limit.take(key)),
      giveBack: (key) => count((limit) => limit.giveBack(key)),
      look: (key) => count((limit) => limit.look(key)),
      async clear(key) {
        // What was counted here while Redis was away is over as well.
        await alone.clear(key);
        await count((limit) => limit.clear(key));
      },
    };
  };
}

function connected(client: RedisClient | undefined): RedisClient {
  if (!client) throw new RedisAway('Redis is not connected');
  return client;
}
