/**
 * Slots that are held for a while, counted over all nodes: connections of a client, sockets of an account, attempts at
 * a receiver.
 *
 * Each key is a hash: how many slots each node holds, and until when, by the clock of Redis. A node renews its slots
 * three times in each lease. So nothing leaks: slots of a killed node, or slots that were released while Redis did
 * not answer, end after {@link LEASE_MS}.
 */
import type { SharedSlots } from '../net/net.ts';
import { Repeat } from '../time/time.ts';
import type { Redis } from './connection.ts';
import type { CountingState } from './shared-limits.ts';

const LEASE_MS = 20_000;
/** Renewals in one lease. */
const RENEWALS = 3;
/** Keys that one command renews: it blocks Redis for less than a millisecond. */
const KEYS_AT_A_TIME = 100;

/**
 * KEYS[1]; node, slots that it already holds, wanted, most, lease in ms. Returns how many were granted. Counts of
 * other nodes whose lease has ended are removed.
 */
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local others = 0
local rows = redis.call('HGETALL', KEYS[1])
for i = 1, #rows, 2 do
  if rows[i] ~= ARGV[1] then
    local count, ends = string.match(rows[i + 1], '^(%d+) (%d+)$')
    if ends and tonumber(ends) > now then others = others + tonumber(count)
    else redis.call('HDEL', KEYS[1], rows[i]) end
  end
end
local held = tonumber(ARGV[2])
local taken = math.max(0, math.min(tonumber(ARGV[3]), tonumber(ARGV[4]) - others - held))
if taken > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %d', held + taken, now + ARGV[5]))
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return taken`;

/** KEYS; node, lease in ms, then the count of each key. */
const HOLD = `
local t = redis.call('TIME')
local ends = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2]
for i, key in ipairs(KEYS) do
  if ARGV[i + 2] == '0' then redis.call('HDEL', key, ARGV[1])
  else
    redis.call('HSET', key, ARGV[1], string.format('%d %d', tonumber(ARGV[i + 2]), ends))
    redis.call('PEXPIRE', key, ARGV[2])
  end
end`;

interface RedisSlotsOptions {
  readonly redis: Redis;
  /** Of all keys of this store. */
  readonly prefix: string;
  /** Name of this node, new at each start. */
  readonly node: string;
  readonly state: CountingState;
  /** 20 seconds where left out. */
  readonly leaseMs?: number;
}

export class RedisSlots implements SharedSlots {
  readonly #options: RedisSlotsOptions;
  readonly #leaseMs: number;
  /** The slots that this node holds. */
  readonly #held = new Map<string, number>();
  /** Keys with released slots that Redis does not know of yet. */
  readonly #given = new Set<string>();
  #isTelling = false;
  readonly #renewals: Repeat;

  constructor(options: RedisSlotsOptions) {
    this.#options = options;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    const task = () => this.#hold([...this.#held.keys()]);
    this.#renewals = new Repeat({ everyMs: this.#leaseMs / RENEWALS, task });
  }

  async take(key: string, wanted: number, most: number): Promise<number> {
    const { redis, prefix, node, state } = this.#options;
    // Counted before the answer: of two calls at the same time the second has to include the first.
    const held = this.#add(key, wanted);
    let taken = wanted;
    if (redis.answers) {
      try {
        const given = [node, held, wanted, most, this.#leaseMs].map(String);
        const answer = await redis.ask((client) =>
          client.eval(TAKE, { keys: [`${prefix}held:${key}`], arguments: given }),
        );
        taken = Math.min(Math.max(Number(answer) || 0, 0), wanted);
        // To refuse, it writes nothing.
        if (taken > 0) state.worked();
      } catch (error) {
        // Then each node applies its own limit.
        state.failed(error);
      }
    }
    // Redis may have been told of them while they were asked for.
    if (taken < wanted) this.give(key, wanted - taken);
    return taken;
  }

  give(key: string, amount: number): void {
    this.#add(key, -amount);
    this.#given.add(key);
    void this.#tellSoon();
  }

  start(): void {
    this.#renewals.start();
    // Redis may have lost its memory.
    this.#options.redis.onConnected(() => void this.#renewals.run());
  }

  /** Releases all slots. */
  async stop(): Promise<void> {
    await this.#renewals.stop();
    const keys = [...this.#held.keys()];
    this.#held.clear();
    await this.#hold(keys);
  }

  /** @returns how many were held before */
  #add(key: string, amount: number): number {
    const before = this.#held.get(key) ?? 0;
    const after = Math.max(0, before + amount);
    if (after === 0) this.#held.delete(key);
    else this.#held.set(key, after);
    return before;
  }

  /** Releases of one turn of the event loop are sent in one command. */
  async #tellSoon(): Promise<void> {
    if (this.#isTelling) return;
    this.#isTelling = true;
    await new Promise((resolve) => setImmediate(resolve));
    this.#isTelling = false;
    const keys = [...this.#given];
    this.#given.clear();
    await this.#hold(keys);
  }

  async #hold(keys: readonly string[]): Promise<void> {
    const { redis, prefix, node, state } = this.#options;
    for (let at = 0; at < keys.length && redis.answers; at += KEYS_AT_A_TIME) {
      const some = keys.slice(at, at + KEYS_AT_A_TIME);
      try {
        await redis.ask((client) => {
          const counts = some.map((key) => this.#held.get(key) ?? 0);
          return client.eval(HOLD, {
            keys: some.map((key) => `${prefix}held:${key}`),
            arguments: [node, this.#leaseMs, ...counts].map(String),
          });
        });
      } catch (error) {
        // Sent again at the next renewal, or ended by the lease.
        state.failed(error);
      }
    }
  }
}
