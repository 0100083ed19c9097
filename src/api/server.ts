/**
 * What a file of routes needs to know of the server it plugs into.
 */
import type { IncomingMessage } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify';
import type { MailAccess } from '../accounts/accounts.ts';
import type { Actor } from '../audit/audit.ts';
import type { ErrorCode } from '../errors/errors.ts';

/** Counts what goes with a deletion, by names for the audit log. */
export interface ContentsCounter {
  ofDomain(domainId: number): Promise<Readonly<Record<string, number>>>;
  ofAccount(accountId: number): Promise<Readonly<Record<string, number>>>;
}

/** Who calls with an API key or the console, for the audit log. */
export function actorOf(request: FastifyRequest): Actor {
  return { actor: request.actor, requestId: request.id };
}

/** The Fastify instance, with the types of a route's TypeBox schema in its handler. */
export type Api = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/**
 * Whose budget a request is charged to: `requests` is everybody's; valid mail server batches and
 * valid links to a message's source have one of their own, ten times as large.
 */
export type LimitBucket = 'requests' | 'mailserver' | 'links';

export interface RateLimits {
  /**
   * Charges one request to its client's budget and sets the `x-ratelimit-*` headers.
   *
   * @throws Refusal rate_limited when the budget of this minute is spent
   */
  take(bucket: LimitBucket, request: FastifyRequest, reply: FastifyReply): Promise<void>;
}

/** What the rate limit says of a request that no route sees. */
export interface Admission {
  readonly allowed: boolean;
  /** Seconds after which it may be allowed. */
  readonly retryAfter?: number;
  /** Fields for the answer: `x-ratelimit-*`. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** What the server lends to the routes. */
export interface RouteTools {
  readonly limits: RateLimits;
  /**
   * Finds whose mailbox `Authorization: Bearer` opens (RFC 6750 section 2.1).
   *
   * @throws Refusal unauthorized without a token or with one that is not good, account_inactive
   */
  authenticateMail(request: FastifyRequest): Promise<MailAccess>;
}

/** A group of routes; all of them share the errors, limits and log of the server. */
export type RouteGroup = (app: Api, tools: RouteTools) => void;

/** Where a browser keeps a login that it remembers. */
export const LOGIN_COOKIE = 'postroom_login';

/** The console's session. */
export const CONSOLE_COOKIE = 'postroom-console';

/** The credential that an operation takes, for the API description. */
export const credentials = {
  apiKey: [{ apiKey: [] }],
  /** Of the operator alone: the key, or the console's cookie. */
  operator: [{ apiKey: [] }, { console: [] }],
  console: [{ console: [] }],
  bearer: [{ bearer: [] }],
  signature: [{ signature: [] }],
  cookie: [{ cookie: [] }],
  none: [],
};

/**
 * Marks a schema that stands for the named one, in the API description alone: a shape that has itself within has
 * no other way to say so.
 */
export const SAME_SHAPE = 'x-same-shape';

declare module 'fastify' {
  interface FastifyInstance {
    /** Charges a request for an upgrade, which no route sees, to its client's budget. */
    admitUpgrade(request: IncomingMessage): Promise<Admission>;
  }
  interface FastifyRequest {
    /** Whose API key opened /v2, as the audit log names it; empty for routes that ask for none. */
    actor: string;
  }
  interface FastifyContextConfig {
    /** Refusals of this route's own, for the API description; those every route has are added. */
    refusals?: readonly ErrorCode[];
    /**
     * How the route is charged: `none` is free, `own` charges by itself with `limits.take`; left
     * out, the request counts before anything else is looked at.
     */
    charge?: 'none' | 'own';
    /** False where an answer has a secret: its compressed length would tell of it. */
    compress?: false;
  }
}
