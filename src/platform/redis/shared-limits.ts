/** Limits on how often something is done, counted over all nodes. */
import { ErrorReply } from '@redis/client';
import type { Logger } from 'pino';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { type Limit, limitBy, limitInMemory, type OpenLimit } from '../net/net.ts';
import { Outage } from '../time/time.ts';
import { type Redis, RedisAway, type RedisClient } from './connection.ts';

/** Whether counting works: Redis may answer, but refuse commands because its memory is full. */
export class CountingState extends Outage {
  constructor(log: Pick<Logger, 'info' | 'warn'>) {
    super(
      (err) => log.warn({ err }, 'Redis refuses to count: each node applies the limits on its own'),
      () => log.info('Redis counts again: limits apply across all nodes'),
    );
  }

  override failed(error: unknown): void {
    // The connection itself logs that Redis does not answer.
    if (error instanceof ErrorReply) super.failed(error);
  }
}

/**
 * Opens limits that `rate-limiter-flexible` counts in Redis, under `<prefix>limit:<name>:<key>`. While Redis does not
 * answer, the memory of this node counts: the library's own insurance limiter would keep every key that it ever saw.
 */
export function sharedLimits(redis: Redis, prefix: string, state: CountingState): OpenLimit {
  return (options) => {
    const { name, most, seconds } = options;
    const alone = limitInMemory(options);
    // The client is a new one after each lost connection.
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
        return await redis.ask((current) => {
          client = current;
          return by(together);
        });
      } catch (error) {
        state.failed(error);
        return by(alone);
      }
    };
    // A Redis that is full or a replica still answers what was counted before: that is not where a count is now.
    const recall: typeof count = (by) => (state.isOn ? by(alone) : count(by));
    return {
      take: (key, amount) =>
        count(async (limit) => {
          const usage = await limit.take(key, amount);
          if (limit === together) state.worked();
          return usage;
        }),
      giveBack: (key) => recall((limit) => limit.giveBack(key)),
      look: (key) => recall((limit) => limit.look(key)),
      async clear(key) {
        // Also clears what was counted here while Redis did not answer.
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
