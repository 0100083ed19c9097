/**
 * One connection to Redis, made again whenever it is lost.
 *
 * It serves commands and subscriptions (RESP 3). A ping tests it each second; a connection without an answer is
 * dropped, and a new one is tried with growing waits.
 */
import { isIP } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient, ErrorReply } from '@redis/client';
import type { Logger } from 'pino';
import { Outage } from '../time/time.ts';

/** The address of Redis, and the login. */
export interface RedisServer {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly user: string | undefined;
  readonly password: string | undefined;
  /** Number of the database, from 0. */
  readonly database: number;
}

/** How long a command may take, in milliseconds; on a local network it takes one or two. */
const ANSWER_MS = 100;
const CONNECT_MS = 2_000;
const PING_EVERY_MS = 1_000;
/** A ping that takes longer ends the connection. */
const PING_MS = 2_000;
const WAIT_MS = { first: 100, most: 5_000 };

/** A wrong password or database; other errors, such as LOADING, pass by themselves. */
const REFUSALS = /^(?:WRONGPASS|NOAUTH|NOPERM|ERR (?!max number of clients))/;

/** Redis does not answer now. */
export class RedisAway extends Error {
  override readonly name = 'RedisAway';
}

/** Redis answers, and refuses the login: the operator has to fix REDIS_URL. */
export class RedisRefuses extends Error {
  override readonly name = 'RedisRefuses';
}

function newClient({ host, port, tls, user, password, database }: RedisServer) {
  const common = { host, port, connectTimeout: CONNECT_MS, reconnectStrategy: false } as const;
  // Node sends a server name (RFC 6066 section 3) only where it gets one.
  const secure = { ...common, tls: true, ...(isIP(host) === 0 && { servername: host }) } as const;
  return createClient({
    socket: tls ? secure : common,
    RESP: 3,
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    database,
    ...(user !== undefined && { username: user }),
    ...(password !== undefined && { password }),
  });
}

export type RedisClient = ReturnType<typeof newClient>;

/** What an operator has to know of a Redis server. */
export interface RedisFacts {
  /** Undefined where our user may not read facts. */
  readonly version: string | undefined;
  /** Whether it refuses to write, since it copies another server. */
  readonly isReplica: boolean;
  /** Whether it refuses to write until memory is free. */
  readonly isFull: boolean;
}

/**
 * Connects once, and asks for an answer.
 *
 * @throws RedisRefuses where it refuses our login, RedisAway or the error of the connection where it does not answer
 */
export async function inspectRedis(server: RedisServer): Promise<RedisFacts> {
  const client = newClient(server);
  const over = new AbortController();
  client.on('error', (error) => over.abort(error));
  try {
    await inTime(client.connect(), CONNECT_MS, over.signal);
    await inTime(client.ping(), PING_MS, over.signal);
    const told = await inTime(client.info(), PING_MS, over.signal).catch((error: unknown) => {
      if (isRefusal(error)) return '';
      throw error;
    });
    return readFacts(told);
  } catch (error) {
    throw plain(error);
  } finally {
    if (client.isOpen) client.destroy();
  }
}

/** @param info the answer to INFO, a line `name:value` for each fact */
function readFacts(info: string): RedisFacts {
  const facts = new Map(
    info.split('\r\n').map((line): [string, string] => {
      const at = line.indexOf(':');
      return [line.slice(0, at), line.slice(at + 1)];
    }),
  );
  const most = Number(facts.get('maxmemory') ?? 0);
  return {
    version: facts.get('redis_version'),
    isReplica: facts.get('role') === 'slave',
    // With another policy it forgets old keys instead.
    isFull:
      facts.get('maxmemory_policy') === 'noeviction' &&
      most > 0 &&
      Number(facts.get('used_memory')) >= most,
  };
}

function isRefusal(error: unknown): error is ErrorReply {
  return error instanceof ErrorReply && REFUSALS.test(error.message);
}

/** The text of the library where the first octet of an answer is none of RESP. */
const NO_ANSWER_OF_REDIS = /^Unknown RESP type /;
/** The text of OpenSSL where the first octets of an answer are none of TLS. */
const NO_TLS = /wrong version number/;

/**
 * Makes a refusal a RedisRefuses without secrets: a server before version 6 repeats the arguments of the unknown
 * command HELLO, and the password is one of them. Whoever speaks another protocol refuses, too: that does not pass.
 */
function plain(error: unknown): unknown {
  const { message } = error instanceof Error ? error : { message: '' };
  if (NO_ANSWER_OF_REDIS.test(message)) return new RedisRefuses('a server that is no Redis');
  if (NO_TLS.test(message)) {
    return new RedisRefuses('a server without TLS: does its URL begin with redis:?');
  }
  if (!isRefusal(error)) return error;
  return new RedisRefuses(error.message.replace(/, with args beginning with: .*/s, ''));
}

type OnMessage = (text: string) => void;

interface RedisOptions {
  readonly server: RedisServer;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** {@link ANSWER_MS} where left out. */
  readonly answerMs?: number;
}

export class Redis {
  readonly #server: RedisServer;
  readonly #answerMs: number;
  readonly #log: RedisOptions['log'];
  readonly #subscriptions = new Map<string, OnMessage>();
  readonly #whenConnected: (() => void)[] = [];
  readonly #whenAnswering: (() => void)[] = [];
  readonly #stopping = new AbortController();
  /** The client that is connected and subscribed. */
  #client: RedisClient | undefined;
  /** Whether a command got no answer in time, and none got one since. */
  #isSlow = false;
  #running: Promise<void> = Promise.resolve();

  constructor({ server, log, answerMs = ANSWER_MS }: RedisOptions) {
    this.#server = server;
    this.#answerMs = answerMs;
    this.#log = log;
  }

  /** Whether commands are likely to be answered; if not, {@link ask} fails at once. */
  get answers(): boolean {
    return this.#client !== undefined && !this.#isSlow;
  }

  /** Listens to a channel; to be called before {@link start}. */
  subscribe(channel: string, listener: OnMessage): void {
    this.#subscriptions.set(channel, listener);
  }

  /** Called after each connection: what was published before it did not reach us. */
  onConnected(listener: () => void): void {
    this.#whenConnected.push(listener);
  }

  /** Called whenever commands are answered again. */
  onAnswering(listener: () => void): void {
    this.#whenAnswering.push(listener);
  }

  /**
   * Connects, and stays connected until {@link stop}. Redis may start later.
   *
   * @throws RedisRefuses where it refuses our login
   */
  async start(): Promise<void> {
    const { promise: tried, resolve, reject } = Promise.withResolvers<void>();
    this.#running = this.#stayConnected((error) => {
      if (error instanceof RedisRefuses) {
        this.#stopping.abort();
        reject(error);
      } else resolve();
    });
    await tried;
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new RedisAway('this node stops'));
    await this.#running;
  }

  /** Runs a command. @throws RedisAway where there is no answer in time, ErrorReply where the answer is an error */
  async ask<Value>(command: (client: RedisClient) => Promise<Value>): Promise<Value> {
    const client = this.#client;
    if (!client || this.#isSlow) throw new RedisAway('Redis does not answer');
    const work = command(client);
    // Also an answer that comes too late is one.
    void work.then(
      () => this.#answered(client),
      () => {},
    );
    try {
      return await inTime(work, this.#answerMs);
    } catch (error) {
      if (error instanceof RedisAway && this.#client === client) this.#isSlow = true;
      throw error;
    }
  }

  #answered(client: RedisClient): void {
    if (!this.#isSlow || this.#client !== client) return;
    this.#isSlow = false;
    for (const listener of this.#whenAnswering) listener();
  }

  /** @param tried called with the result of the first attempt to connect */
  async #stayConnected(tried: (error?: unknown) => void): Promise<void> {
    const { signal } = this.#stopping;
    const { host, port } = this.#server;
    const outage = new Outage(
      (err) =>
        this.#log.warn(
          { err, host, port },
          'there is no connection to Redis: this node applies limits on its own, and reads the changes of other nodes once a minute',
        ),
      (awaySeconds) =>
        this.#log.info(
          { host, port, awaySeconds },
          'the connection to Redis is back: nodes share changes and limits again',
        ),
    );
    // Mostly it was away before that: a password is changed by a restart.
    const refusal = new Outage((err) =>
      this.#log.warn(
        { err, host, port },
        'Redis refuses the login of this node: correct REDIS_URL and restart the node, or correct the password of Redis',
      ),
    );
    let failures = 0;
    let isFirst = true;
    while (!signal.aborted) {
      const error = await this.#serve(() => {
        tried();
        outage.worked();
        refusal.worked();
        failures = 0;
      });
      if (isFirst) tried(error);
      isFirst = false;
      if (signal.aborted) break;
      outage.failed(error);
      if (error instanceof RedisRefuses) refusal.failed(error);
      // Random, so that nodes that lost it together do not reconnect together.
      const wait =
        Math.min(WAIT_MS.first * 2 ** failures++, WAIT_MS.most) * (0.5 + Math.random() / 2);
      await pause(wait, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Holds one connection; resolves with what ended it. */
  async #serve(connected: () => void): Promise<unknown> {
    const client = newClient(this.#server);
    const lost = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, lost.signal]);
    client.on('error', (error) => lost.abort(error));
    client.on('end', () => lost.abort(new RedisAway('the connection was closed')));
    try {
      await inTime(this.#connect(client), CONNECT_MS, signal);
      this.#isSlow = false;
      this.#client = client;
      connected();
      for (const listener of [...this.#whenConnected, ...this.#whenAnswering]) listener();
      for (;;) {
        await pause(PING_EVERY_MS, undefined, { signal, ref: false });
        await inTime(client.ping(), PING_MS, signal);
        this.#answered(client);
      }
    } catch (error) {
      return plain(signal.aborted ? signal.reason : error);
    } finally {
      this.#client = undefined;
      if (client.isOpen) client.destroy();
    }
  }

  async #connect(client: RedisClient): Promise<void> {
    await client.connect();
    for (const [channel, listener] of this.#subscriptions) {
      await client.subscribe(channel, listener);
    }
  }
}

/** @throws RedisAway where it takes longer, the signal's reason where that comes first */
async function inTime<Value>(
  work: Promise<Value>,
  ms: number,
  signal?: AbortSignal,
): Promise<Value> {
  const { promise, reject } = Promise.withResolvers<never>();
  // Our own thread may have been busy: then the answer has arrived and is not read yet.
  const timer = setTimeout(
    () => setImmediate(reject, new RedisAway(`Redis did not answer in ${ms} ms`)),
    ms,
  );
  const leave = () => reject(signal?.reason);
  signal?.addEventListener('abort', leave, { once: true });
  // The loser of the race may fail later, when nobody waits for it.
  work.catch(() => {});
  try {
    signal?.throwIfAborted();
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', leave);
  }
}
