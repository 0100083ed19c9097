/** What the server gives a file of routes (who calls, limits, types), and what a route declares of itself. */
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
import type { ErrorCode } from '../../platform/errors/errors.ts';
import type { Admission } from '../../platform/net/net.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';
import type { Actor } from '../../tenants/audit/audit.ts';
import type { Owner, Whose } from '../../tenants/domains/domains.ts';
import type { Caller } from './authenticate.ts';

/** The owner of the API key or console, for the audit log. */
export function actorOf(request: FastifyRequest): Actor {
  return { actor: request.caller?.actor ?? '', requestId: request.id };
}

/** Whose things a call is about, as far as its API key may see them; `key-scope.ts` has checked it. */
export function ownerOf({ owner }: FastifyRequest): Owner {
  if (!owner) throw new Error('a route of operators has no owner');
  return owner;
}

/** The account, for what is only read: that need not be done where the client closes its connection in the meantime. */
export function forReading<User extends object>(user: User, { raw }: FastifyRequest) {
  return { ...user, hasLeft: () => raw.socket.destroyed };
}

/**
 * A store as the routes have it: its functions take the owner of the request, since the text of a `user_id` alone would
 * leave out the organization that a key is bound to.
 */
export type Owned<Store> = {
  readonly [Name in keyof Store]: Store[Name] extends (...given: infer Given) => infer Answer
    ? Given extends readonly [infer First, ...infer Rest]
      ? Whose extends First
        ? (owner: Owner, ...rest: Rest) => Answer
        : First extends { readonly userId: string }
          ? (about: First & Owner, ...rest: Rest) => Answer
          : Store[Name]
      : Store[Name]
    : Store[Name];
};

/** The Fastify instance, with the types of a route's TypeBox schema in its handler. */
export type Api = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/**
 * The budget that a request is charged to: `requests` is the common one; valid mail server batches and valid links
 * to a message's source have one of their own, ten times as large.
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

/** What the server offers the routes. */
export interface RouteTools {
  readonly limits: RateLimits;
  /**
   * Finds the account that `Authorization: Bearer` opens (RFC 6750 section 2.1).
   *
   * @param mailbox name of a mailbox that is to be read with it
   * @throws Refusal unauthorized without a valid token, account_inactive
   */
  authenticateMail(request: FastifyRequest, mailbox?: string): Promise<MailAccess>;
}

/** A group of routes; all of them share the errors, limits and log of the server. */
export type RouteGroup = (app: Api, tools: RouteTools) => void;

/** The cookie in which a browser keeps a remembered login. */
export const LOGIN_COOKIE = 'postroom_login';

/** The console's session. */
export const CONSOLE_COOKIE = 'postroom-console';

/** The credentials that operations need, for the API description: by the section of the path (`describe-api.ts`). */
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
 * Marks a schema that stands for the named one, only in the API description: a shape that contains itself has no other
 * way to say so.
 */
export const SAME_SHAPE = 'x-same-shape';

declare module 'fastify' {
  interface FastifyInstance {
    /** Charges a request for an upgrade, which no route sees, to its client's budget. */
    admitUpgrade(request: IncomingMessage): Promise<Admission>;
  }
  interface FastifyRequest {
    /** Undefined for routes without an API key. */
    caller: Caller | undefined;
    /** The address that it comes from, by the trusted proxies' X-Forwarded-For; what Fastify says of it keeps a port. */
    readonly clientAddress: string;
    /** Whose token came with the request. */
    account: MailAccess | undefined;
    /** Whose things the call is about; undefined for routes of operators, and without an API key. */
    owner: Owner | undefined;
  }
  interface FastifyContextConfig {
    /** The refusals of this route, for the API description; those of every route are added. */
    refusals?: readonly ErrorCode[];
    /**
     * How the route is charged: `none` does not count, `own` charges by itself with `limits.take`; by default the
     * request counts before anything else is checked.
     */
    charge?: 'none' | 'own';
    /** False where a request changes nothing that could be done twice: it takes no `Idempotency-Key`. */
    takesKey?: false;
    /** True where a method other than GET writes nothing to the database: no full disk prevents it. */
    onlyReads?: true;
    /** Where the call names its user; found by `key-scope.ts`. */
    ownerIn?: 'body' | 'query';
    /** True where a method other than GET changes nothing but the caller's own login: then a key that only reads may. */
    isForReadOnly?: true;
    /** False where an answer has a secret: its compressed length would reveal it. */
    compress?: false;
  }
}
