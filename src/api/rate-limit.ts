/**
 * The rate limit: so many requests per minute for each client, over all routes together, refused
 * requests and unknown paths included.
 */
import { isIP } from 'node:net';
import fastifyRateLimit, { normalizeIP } from '@fastify/rate-limit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../errors/errors.ts';
import type { Api, LimitBucket, RateLimits } from './server.ts';

const WINDOW_MS = 60_000;
/** How much larger the budgets of the mail server and of signed links are. */
const OWN_BUCKET_FACTOR = 10;
/**
 * Clients remembered at once in each bucket, some 20 MB at most. Beyond it the one seen longest ago
 * is forgotten, which a sender needs as many networks for.
 */
const CLIENTS_MAX = 100_000;
/** IPv6 hands one customer a /64, so that its addresses are one client (RFC 6177 section 2). */
const IPV6_PREFIX = 64;

const unlimited: RateLimits = { take: async () => {} };

/** The address a request counts for; a proxy we trust may still have passed on nonsense. */
function clientOf(request: FastifyRequest): string {
  const address = isIP(request.ip ?? '') === 0 ? request.raw.socket.remoteAddress : request.ip;
  return normalizeIP(address ?? '', IPV6_PREFIX);
}

/**
 * Builds the limits.
 *
 * @param perMinute requests of one client in a minute; 0 is no limit
 */
export function createRateLimits(app: Api, perMinute: number): RateLimits {
  if (perMinute === 0) return unlimited;
  const buckets = new Map<LimitBucket, Check>();
  app.register(fastifyRateLimit, { global: false });
  app.after(() => {
    for (const bucket of ['requests', 'mailserver', 'links'] as const) {
      const max = bucket === 'requests' ? perMinute : perMinute * OWN_BUCKET_FACTOR;
      const options = { max, timeWindow: WINDOW_MS, cache: CLIENTS_MAX, keyGenerator: clientOf };
      buckets.set(bucket, app.createRateLimit(options));
    }
  });
  return {
    async take(bucket, request, reply) {
      const state = await buckets.get(bucket)?.(request);
      if (!state || state.isAllowed) return;
      setHeaders(reply, state);
      if (!state.isExceeded) return;
      throw new Refusal('rate_limited', `at most ${state.max} requests are taken in a minute`, {
        retryAfter: Math.max(1, state.ttlInSeconds),
      });
    },
  };
}

type Check = ReturnType<Api['createRateLimit']>;

function setHeaders(
  reply: FastifyReply,
  state: { max: number; remaining: number; ttlInSeconds: number },
): void {
  reply.header('x-ratelimit-limit', state.max);
  reply.header('x-ratelimit-remaining', state.remaining);
  reply.header('x-ratelimit-reset', state.ttlInSeconds);
}
