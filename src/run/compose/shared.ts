/** What several nodes share over Redis: changes, limits, held slots. */
import pLimit from 'p-limit';
import type { Logger } from 'pino';
import { databaseStoreId } from '../../mailboxes/bodies/bodies.ts';
import { SharedChanges } from '../../mailboxes/changes/changes.ts';
import type { ImapMailstore } from '../../mailboxes/mail-server/mail-server.ts';
import type { EmbeddedMailstore, MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import type { Nodes } from '../../platform/nodes/nodes.ts';
import { Outage, Repeat } from '../../platform/time/time.ts';
import type { MailboxTip, SharedState } from '../../servers/realtime/realtime.ts';
import { findAccess } from '../../tenants/accounts/accounts.ts';
import { type Config, ConfigError } from '../config/config.ts';

/** How often a node reads changes that it got no event for, give or take a fifth, in milliseconds. */
const LOOK_EVERY_MS = 50_000;

/** For how many of these reads a node counts as one that uses the same Redis. */
const LOOKS_KEPT = 4;

/** Times that tests override. */
export interface SharedTiming {
  /** Milliseconds between two reads of what other nodes changed; once a minute by default. */
  readonly lookEveryMs?: number;
  /** Milliseconds that Redis may take to answer; the default is in `redis/`. */
  readonly answerMs?: number;
}

/** So few that a mail server has connections left for others. */
const ACCOUNTS_ASKED_AT_ONCE = 4;

export type Shared = NonNullable<Awaited<ReturnType<typeof openShared>>>;

interface SharedOptions {
  readonly config: Pick<Config, 'redis'>;
  readonly database: Database;
  readonly logger: Logger;
  readonly nodes: Pick<Nodes, 'id' | 'list'>;
  readonly timing?: SharedTiming | undefined;
}

/**
 * Connects to the Redis of REDIS_URL. If it does not answer, everything runs and the connection is tried again: until
 * then this node counts alone.
 *
 * @returns undefined for a single node, which has none
 * @throws ConfigError where Redis refuses the login
 */
export async function openShared({
  config: { redis: server },
  database,
  logger,
  nodes,
  timing: { lookEveryMs = LOOK_EVERY_MS, answerMs } = {},
}: SharedOptions) {
  if (!server) return undefined;
  // Loaded here: a single node starts without the client.
  const { CountingState, Redis, RedisSlots, RedisRefuses, SeenNodes, sharedLimits } = await import(
    '../../platform/redis/redis.ts'
  );
  const prefix = `postroom:${await databaseStoreId(database)}:`;
  const channel = `${prefix}changes`;
  const node = nodes.id;
  /** Changes that were sent to other nodes, came from them, or were invalid; since the start. */
  const counts = { sent: 0, received: 0, refused: 0 };
  const redis = new Redis({ server, log: logger, ...(answerMs !== undefined && { answerMs }) });
  const changes = new SharedChanges({
    node,
    log: logger,
    wire: {
      get isOpen() {
        return redis.answers;
      },
      send: (text) => redis.ask((client) => client.publish(channel, text)),
    },
    count: (result, amount) => {
      counts[result] += amount;
    },
  });
  redis.subscribe(channel, (text) => changes.receive(text));
  let onText = (_text: string) => {};
  redis.subscribe(`${prefix}questions`, (text) => onText(text));
  redis.onAnswering(() => void changes.flush());
  const state = new CountingState(logger);
  const slots = new RedisSlots({ redis, prefix, node, state });
  const listOthers = async () =>
    (await nodes.list()).filter(({ id, isRunning }) => isRunning && id !== node);
  const keptMs = LOOKS_KEPT * lookEveryMs;
  const seen = new SeenNodes({ redis, prefix, node, listOthers, keptMs, log: logger });
  const poller = new Poller(logger, lookEveryMs);
  redis.onConnected(() => poller.lookNow());
  await redis.start().catch((error: unknown) => {
    if (!(error instanceof RedisRefuses)) throw error;
    const line = `REDIS_URL: expected a Redis that Postroom can log in to, got "${error.message}"`;
    throw new ConfigError([line], { cause: error });
  });
  slots.start();
  return {
    changes,
    openLimit: sharedLimits(redis, prefix, state),
    slots,
    /** Where nodes ask each other what each of them has open. */
    wire: {
      send: (text: string) => redis.ask((client) => client.publish(`${prefix}questions`, text)),
      listen: (listener: (text: string) => void) => {
        onText = listener;
      },
    },
    counts,
    isUp: () => redis.answers,
    /**
     * Runs `look` again and again until `stop`: once a minute, and after each connection to Redis (`afterGap`). It finds
     * changes that this node got no event for.
     */
    pollWith: (look: (afterGap: boolean) => Promise<void>) =>
      poller.start(async (afterGap) => {
        await look(afterGap);
        await seen.look();
      }),
    /** Sends the remaining changes to the other nodes, and disconnects from Redis. */
    async stop() {
      await poller.stop();
      await Promise.all([slots.stop(), changes.flush()]);
      await redis.stop();
    },
  };
}

/** Reads what this node got no event for: again and again, and at once after a gap of events. */
export class Poller {
  readonly #outage: Outage;
  readonly #everyMs: number;
  #repeat: Repeat | undefined;
  /** Until a look succeeded: a failed one found nothing of what was missed. */
  #isGap = false;

  constructor(logger: Pick<Logger, 'error'>, everyMs: number) {
    this.#outage = new Outage((err) =>
      logger.error({ err }, 'could not read the changes of other nodes: retry in 60 s'),
    );
    this.#everyMs = everyMs;
  }

  start(look: (afterGap: boolean) => Promise<void>): void {
    const task = async () => {
      const afterGap = this.#isGap;
      this.#isGap = false;
      await look(afterGap).catch((error: unknown) => {
        this.#isGap ||= afterGap;
        throw error;
      });
    };
    // Random, so that nodes that started together do not all read at the same time.
    this.#repeat = new Repeat({ everyMs: this.#everyMs, jitter: 0.4, task, outage: this.#outage });
    if (this.#isGap) void this.#repeat.run();
    else this.#repeat.start();
  }

  lookNow(): void {
    this.#isGap = true;
    void this.#repeat?.run();
  }

  async stop(): Promise<void> {
    await this.#repeat?.stop();
  }
}

/**
 * What other nodes may have changed without an event here. A mail server is asked only after a gap: it needs one
 * request for each account.
 */
export function sharedState(
  database: Database,
  embedded: EmbeddedMailstore,
  imap: ImapMailstore | undefined,
): SharedState {
  const ofServer = async (users: readonly MailUser[]) => {
    const tips = new Map<number, readonly MailboxTip[]>();
    const ask = async (user: MailUser) => {
      const found = await imap?.listMailboxes(user).catch(() => undefined);
      if (found) tips.set(user.accountId, found);
    };
    const inTurn = pLimit(ACCOUNTS_ASKED_AT_ONCE);
    await inTurn.map(users, ask);
    return tips;
  };
  return {
    accessOf: (ids) => findAccess(database.read, ids),
    tipsOf: async (users, afterGap) => {
      if (imap) return afterGap ? ofServer(users) : new Map();
      return embedded.tipsOf(users.map(({ accountId }) => accountId));
    },
  };
}
