/**
 * The rate limit: requests per minute of each client, over all routes together, including refused requests and unknown
 * paths.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  type Admission,
  addressOf,
  clientKey,
  type Limit,
  type NetworkTest,
  type OpenLimit,
  type Usage,
} from '../../platform/net/net.ts';
import type { LimitBucket, RateLimits } from './route-tools.ts';

const WINDOW_SECONDS = 60;
/** How much larger the budgets of the mail server and of signed links are. */
const OWN_BUCKET_FACTOR = 10;

/** Charges requests to their clients' budgets. */
export class RequestLimits implements RateLimits {
  readonly #buckets: Readonly<Record<LimitBucket, Limit>>;
  readonly #isTrusted: NetworkTest;

  /** @param perMinute requests of one client in a minute, at least 1 */
  constructor(perMinute: number, openLimit: OpenLimit, isTrusted: NetworkTest) {
    const open = (name: LimitBucket, most: number) =>
      openLimit({ name, most, seconds: WINDOW_SECONDS });
    this.#buckets = {
      requests: open('requests', perMinute),
      mailserver: open('mailserver', perMinute * OWN_BUCKET_FACTOR),
      links: open('links', perMinute * OWN_BUCKET_FACTOR),
    };
    this.#isTrusted = isTrusted;
  }

  async take(bucket: LimitBucket, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const refusal = await this.charge(bucket, request, reply);
    if (refusal) throw refusal;
  }

  /** Like {@link take}, but the refusal is returned. */
  async charge(
    bucket: LimitBucket,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<Refusal | undefined> {
    const usage = await this.#take(bucket, request.raw);
    reply.headers(headersOf(usage));
    if (!usage.exceeded) return undefined;
    return new Refusal(
      'rate_limited',
      `this client may make ${usage.most} requests in a minute: try again in ${usage.resetSeconds} s`,
      {
        retryAfter: usage.resetSeconds,
      },
    );
  }

  /** Charges a request that no route sees: one for a WebSocket. */
  async admit(request: IncomingMessage): Promise<Admission> {
    const usage = await this.#take('requests', request);
    const headers = headersOf(usage);
    if (!usage.exceeded) return { allowed: true, headers };
    return { allowed: false, retryAfter: usage.resetSeconds, headers };
  }

  #take(bucket: LimitBucket, request: IncomingMessage): Promise<Usage> {
    return this.#buckets[bucket].take(clientKey(addressOf(request, this.#isTrusted)));
  }
}

function headersOf({ most, remaining, resetSeconds }: Usage): Record<string, string> {
  return {
    'x-ratelimit-limit': String(most),
    'x-ratelimit-remaining': String(remaining),
    'x-ratelimit-reset': String(resetSeconds),
  };
}
