/**
 * Looks whether the nodes that share the database share this Redis as well. Where REDIS_URL of one names another
 * server, such as `localhost` on each machine, everything works, but each node hears of the changes of the
 * others only once a minute, and limits apply to each alone.
 */
import type { Logger } from 'pino';
import type { Redis } from './connection.ts';

/** Another node that runs. */
interface OtherNode {
  readonly id: string;
  readonly host: string;
}

interface SeenNodesOptions {
  readonly redis: Redis;
  /** Of all keys of this store. */
  readonly prefix: string;
  /** Id of this node. */
  readonly node: string;
  readonly listOthers: () => Promise<readonly OtherNode[]>;
  /** Milliseconds for which a node counts as seen; longer than several looks. */
  readonly keptMs: number;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export class SeenNodes {
  readonly #options: SeenNodesOptions;
  /** How many looks in a row did not see a node. */
  readonly #misses = new Map<string, number>();

  constructor(options: SeenNodesOptions) {
    this.#options = options;
    // It may have lost its memory again, and others connect later than this node.
    options.redis.onConnected(() => this.#misses.clear());
  }

  /** Tells Redis that this node is there, and the log which ones are not. Nothing is said while Redis is away. */
  async look(): Promise<void> {
    const { redis, prefix, node, keptMs, listOthers } = this.#options;
    const key = (id: string) => `${prefix}node:${id}`;
    const others = await listOthers();
    const seen = await redis
      .ask(async (client) => {
        await client.set(key(node), '', { expiration: { type: 'PX', value: keptMs } });
        return others.length > 0 ? await client.mGet(others.map(({ id }) => key(id))) : [];
      })
      // That it is away or full is said where it is noticed.
      .catch(() => undefined);
    if (!seen) return this.#misses.clear();
    for (const [at, other] of others.entries()) this.#judge(other, typeof seen[at] === 'string');
    const ids = new Set(others.map(({ id }) => id));
    for (const id of this.#misses.keys()) if (!ids.has(id)) this.#misses.delete(id);
  }

  #judge({ id, host }: OtherNode, isSeen: boolean): void {
    const { log } = this.#options;
    const misses = this.#misses.get(id) ?? 0;
    if (isSeen) {
      this.#misses.delete(id);
      if (misses >= 2) log.info({ node: host }, 'the other node uses the same Redis again');
      return;
    }
    this.#misses.set(id, misses + 1);
    // One that has just started, or that Redis forgot, is there at the next look.
    if (misses !== 1) return;
    log.warn(
      { node: host },
      'another node does not use the Redis of this node: it cannot reach it, or its REDIS_URL names another server; until that is corrected, changes between the two are read once a minute, and limits apply to each alone',
    );
  }
}
