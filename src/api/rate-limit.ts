/**
 * The rate limit: so many requests per minute for each client, over all routes together, refused
 * requests and unknown paths included. Kept in this process: each node counts by itself.
 *
 * The counting is our own, since that of `@fastify/rate-limit` takes a promise for each request and
 * knows no request that Fastify has not seen, as those for the WebSocket.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../errors/errors.ts';
import { addressOf, clientKey, type NetworkTest } from '../net/net.ts';
import type { Admission, LimitBucket, RateLimits } from './server.ts';

const WINDOW_MS = 60_000;
/** How much larger the budgets of the mail server and of signed links are. */
const OWN_BUCKET_FACTOR = 10;
/**
 * Clients remembered at once in each bucket, some 20 MB at most. Beyond it the one whose minute
 * began first starts anew, which a sender needs as many networks for.
 */
const CLIENTS_MAX = 100_000;

/** One client's minute. */
interface Window {
  count: number;
  readonly endsAt: number;
}

/** What is left of a client's minute after a request. */
interface Charge {
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until the budget is whole again. */
  readonly reset: number;
  readonly exceeded: boolean;
}

class Bucket {
  readonly #limit: number;
  /** By client. All minutes are equally long, so that the order of insertion is that of their ends. */
  readonly #windows = new Map<string, Window>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  take(client: string): Charge {
    const now = Date.now();
    const window = this.#windowOf(client, now);
    window.count++;
    return {
      limit: this.#limit,
      remaining: Math.max(0, this.#limit - window.count),
      reset: Math.ceil((window.endsAt - now) / 1000),
      exceeded: window.count > this.#limit,
    };
  }

  #windowOf(client: string, now: number): Window {
    const current = this.#windows.get(client);
    // A clock that was set back must not lock anybody out for longer than a minute.
    if (current && now < current.endsAt && current.endsAt - now <= WINDOW_MS) return current;
    this.#windows.delete(client);
    const [oldest] = this.#windows.keys();
    if (this.#windows.size >= CLIENTS_MAX && oldest !== undefined) this.#windows.delete(oldest);
    const window = { count: 0, endsAt: now + WINDOW_MS };
    this.#windows.set(client, window);
    return window;
  }
}

/** Charges requests to their clients' budgets. */
export class RequestLimits implements RateLimits {
  readonly #buckets: Readonly<Record<LimitBucket, Bucket>>;
  readonly #isTrusted: NetworkTest;

  /** @param perMinute requests of one client in a minute, at least 1 */
  constructor(perMinute: number, isTrusted: NetworkTest) {
    this.#buckets = {
      requests: new Bucket(perMinute),
      mailserver: new Bucket(perMinute * OWN_BUCKET_FACTOR),
      links: new Bucket(perMinute * OWN_BUCKET_FACTOR),
    };
    this.#isTrusted = isTrusted;
  }

  async take(bucket: LimitBucket, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const refusal = this.charge(bucket, request, reply);
    if (refusal) throw refusal;
  }

  /** As {@link take}, without a promise. */
  charge(bucket: LimitBucket, request: FastifyRequest, reply: FastifyReply): Refusal | undefined {
    const charge = this.#charge(bucket, request.raw);
    for (const [name, value] of Object.entries(headersOf(charge))) reply.header(name, value);
    if (!charge.exceeded) return undefined;
    return new Refusal('rate_limited', `at most ${charge.limit} requests are taken in a minute`, {
      retryAfter: charge.reset,
    });
  }

  /** Charges a request that no route sees, one for a WebSocket. */
  admit(request: IncomingMessage): Admission {
    const charge = this.#charge('requests', request);
    const headers = headersOf(charge);
    if (!charge.exceeded) return { allowed: true, headers };
    return { allowed: false, retryAfter: charge.reset, headers };
  }

  #charge(bucket: LimitBucket, request: IncomingMessage): Charge {
    return this.#buckets[bucket].take(clientKey(addressOf(request, this.#isTrusted)));
  }
}

function headersOf({ limit, remaining, reset }: Charge): Record<string, string> {
  return {
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(remaining),
    'x-ratelimit-reset': String(reset),
  };
}
