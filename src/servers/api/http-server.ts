/**
 * The server of all routes: what happens to a request before and after its route.
 */
import type { IncomingMessage } from 'node:http';
import cors from '@fastify/cors';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { type FastifyBaseLogger, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { Logger } from 'pino';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  addressOf,
  countField,
  isLoopback,
  type NetworkTest,
  type OpenLimit,
  requestIdOf,
  testNetworks,
} from '../../platform/net/net.ts';
import { answerRefusal, notFound, toRefusal } from './answer-errors.ts';
import { answerBrokenRequest, judgeUrl } from './broken-requests.ts';
import { isPartOfPage } from './docs-files.ts';
import { type NotFoundPage, sendBusyPage, wantsPage } from './docs-pages.ts';
import { acceptJsonBodies } from './json-body.ts';
import { collectPaths } from './known-paths.ts';
import { type ConnectionLimits, limitConnections } from './limit-connections.ts';
import { RequestLimits } from './rate-limit.ts';
import { type OnAnswered, pathOf, RequestLog } from './request-log.ts';
import { beginInTurn, noteUpgrades } from './request-turns.ts';
import { compilersFactory, convertIntegers } from './route-schemas.ts';
import type { Api, RateLimits } from './route-tools.ts';
import { refuseSpellings } from './spellings.ts';
import { version } from './version.ts';

export interface ServerOptions {
  readonly logger: Logger;
  /** Called for each answered request, for metrics. */
  readonly onAnswered?: OnAnswered;
  /** Requests of one client in a minute, 0 for no limit. */
  readonly rateLimitPerMinute: number;
  /** Where requests are counted. */
  readonly openLimit: OpenLimit;
  /** Networks (`address/bits`) of proxies whose X-Forwarded-For counts. */
  readonly trustProxy: readonly string[];
  readonly connections: ConnectionLimits;
  /** Origins of browser apps that may read answers. */
  readonly corsOrigins: readonly string[];
  /** The most bytes of a request body, where a route sets nothing else. */
  readonly maxBody: number;
  /** The page for a browser at an unknown path; without it, the answer of other clients. */
  readonly notFoundPage: NotFoundPage | undefined;
  /**
   * Which upgrade requests go to the server's `upgrade` listener; others are answered as if they had not asked (RFC
   * 9110 section 7.8). By default none does.
   */
  readonly upgrades?: (request: IncomingMessage) => boolean;
}

/** A request that is not complete by then is cut off; a batch of 16 MiB needs about 1 Mbit/s. */
const REQUEST_TIMEOUT_MS = 120_000;
/** Longer than any header section that Node accepts, so that the route decides what is too long. */
const PATH_PARAMETER_MAX = 65_536;

/** Opens the server without routes. */
export function createServer(options: ServerOptions): { app: Api; limits: RateLimits } {
  const isTrusted = testNetworks(options.trustProxy);
  const { rateLimitPerMinute, openLimit } = options;
  const limits =
    rateLimitPerMinute === 0
      ? undefined
      : new RequestLimits(rateLimitPerMinute, openLimit, isTrusted);
  const log = new RequestLog(options.logger, isTrusted, options.onAnswered);
  const app = openServer(options, isTrusted, log, answerBadUrl);
  // A trusted proxy, or one on this machine, forwards the requests of many clients.
  const isExempt = (address: string) => isLoopback(address) || isTrusted(address);
  limitConnections(app.server, options.connections, isExempt, options.logger);
  beginInTurn(app.server, (request) => addressOf(request, isTrusted), options.logger);
  // Node answers any other expectation than 100-continue with a 417 without a body. To ignore it is allowed, too (RFC 9110
  // section 10.1.1).
  app.server.on('checkExpectation', (request, response) =>
    app.server.emit('request', request, response),
  );
  allowOrigins(app, options.corsOrigins);
  app.decorateRequest('caller', undefined);
  app.decorateRequest('owner', undefined);
  app.decorateRequest('account', undefined);
  app.decorateRequest('clientAddress', {
    getter() {
      return addressOf(this.raw, isTrusted);
    },
  });
  app.decorate('admitUpgrade', async (request) => limits?.admit(request) ?? { allowed: true });
  admitRequests(app, limits, collectPaths(app));
  acceptJsonBodies(app);
  convertIntegers(app);
  refuseSpellings(app);
  app.setErrorHandler(answerError);
  // Unknown paths were refused before; this is for a route that found nothing to serve.
  app.setNotFoundHandler(() => {
    throw notFound();
  });
  return { app, limits: limits ?? { take: async () => {} } };

  async function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply) {
    const refusal = (await chargeLate(request, reply)) ?? toRefusal(error, request);
    if (isUnwritable(error)) {
      for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
      setCommonHeaders(request, reply);
    }
    const { notFoundPage } = options;
    const { code, retryAfter } = wantsPage(request) ? refusal : {};
    if (code === 'route_not_found' && notFoundPage) notFoundPage(reply);
    else if (code === 'rate_limited' && retryAfter) sendBusyPage(reply, retryAfter);
    else answerRefusal(refusal, request, reply);
    return reply;
  }

  /** A route that charges by itself may have failed before it did. */
  async function chargeLate(request: FastifyRequest, reply: FastifyReply) {
    const isCharged = reply.hasHeader('x-ratelimit-limit');
    if (!limits || isCharged || request.routeOptions.config.charge !== 'own') return undefined;
    return limits.charge('requests', request, reply);
  }

  /** Fastify runs no hook for these: so the work of the hooks is done here. */
  function answerBadUrl(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    setCommonHeaders(request, reply);
    reply.raw.on('finish', () => log.requestCompleted(null, request, reply));
    const charged = limits?.charge('requests', request, reply) ?? Promise.resolve(undefined);
    charged
      .then((refusal) => answerError(refusal ?? error, request, reply))
      .catch((cause: unknown) => {
        // Not awaited: a failure must not end the process.
        options.logger.error(
          { err: cause, requestId: request.id },
          'a request failed unexpectedly and got no answer',
        );
        reply.raw.destroy();
      });
  }
}

function openServer(
  options: ServerOptions,
  isTrusted: NetworkTest,
  logController: RequestLog,
  answerBadUrl: (error: Error, request: FastifyRequest, reply: FastifyReply) => void,
): Api {
  const logger: FastifyBaseLogger = options.logger;
  return fastify({
    loggerInstance: logger,
    // A child logger for each request costs more than all else that is done here.
    childLoggerFactory: (parent) => parent,
    logController,
    genReqId: requestIdOf,
    trustProxy: options.trustProxy.length > 0 ? isTrusted : false,
    bodyLimit: options.maxBody,
    // Node's own answer to a request without Host has no body; ours has one.
    http: {
      requireHostHeader: false,
      shouldUpgradeCallback: noteUpgrades(options.upgrades ?? (() => false)),
    },
    requestTimeout: REQUEST_TIMEOUT_MS,
    // A client that reads nothing of its answer for this long counts as gone.
    connectionTimeout: REQUEST_TIMEOUT_MS,
    routerOptions: { maxParamLength: PATH_PARAMETER_MAX },
    // A request that arrives during a stop is answered as long as there is something to answer it.
    return503OnClosing: false,
    schemaController: { compilersFactory },
    // Bodies are flat and small where no key is needed (MAIL_BODY_MAX): naming every wrong field costs no more than
    // reading them.
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: true,
        // TypeBox writes the schemas, and a test checks the document that is made of them. Checking them here first
        // compiles the schema of schemas, which takes as long as all of ours together.
        validateSchema: false,
        // With the schema in each error, a refusal says what belongs into an object or an array.
        verbose: true,
      },
    },
    clientErrorHandler: (error, socket) => answerBrokenRequest(error, socket, options.logger),
    frameworkErrors: answerBadUrl,
  }).withTypeProvider<TypeBoxTypeProvider>();
}

/** CORS answers only for browsers of the listed origins (https://fetch.spec.whatwg.org/#http-cors-protocol). */
function allowOrigins(app: Api, origins: readonly string[]): void {
  if (origins.length === 0) return;
  app.register(cors, {
    origin: [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT'],
    allowedHeaders: [
      'accept',
      'authorization',
      'content-type',
      'idempotency-key',
      'if-none-match',
      'if-range',
      'last-event-id',
      'range',
      'x-api-key',
      'x-postroom-client',
      'x-request-id',
    ],
    exposedHeaders: [
      'accept-ranges',
      'content-disposition',
      'content-length',
      'content-range',
      'etag',
      'retry-after',
      'www-authenticate',
      'x-postroom-version',
      'x-ratelimit-limit',
      'x-ratelimit-remaining',
      'x-ratelimit-reset',
      'x-request-id',
    ],
    maxAge: 86_400,
    strictPreflight: false,
  });
}

/** Before every route: charge the request, then refuse what no route would accept. */
function admitRequests(
  app: Api,
  limits: RequestLimits | undefined,
  describePaths: (path: string) => string,
): void {
  app.addHook('onRequest', async (request, reply) => {
    setCommonHeaders(request, reply);
    const spent = isFree(request) ? undefined : await limits?.charge('requests', request, reply);
    const refusal = spent ?? judge(app, request, reply, describePaths);
    if (refusal) throw refusal;
  });
}

function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  reply.header('x-postroom-version', version);
  reply.header('x-content-type-options', 'nosniff');
  reply.header('cache-control', 'no-store');
}

/** Whether a route set a header field that cannot be written: the answer must not contain it again. */
function isUnwritable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_INVALID_CHAR';
}

function isFree(request: FastifyRequest): boolean {
  if (request.routeOptions.config.charge !== undefined) return true;
  const reads = request.method === 'GET' || request.method === 'HEAD';
  const url = request.raw.url ?? '';
  return reads && isPartOfPage(url);
}

/** Before the body is read: nobody has to send one to an unknown path. */
function judge(
  app: Api,
  request: FastifyRequest,
  reply: FastifyReply,
  describePaths: (path: string) => string,
): Refusal | undefined {
  // RFC 9112 section 3.2: HTTP/1.1 has one Host, and no request has two, which programs in front and we could read
  // differently.
  const hosts = countField(request.raw, 'host');
  if (hosts > 1) return new Refusal('invalid_request', 'the request has two headers Host');
  if (hosts === 0 && request.raw.httpVersionMinor !== 0) {
    return new Refusal('invalid_request', 'the header Host is missing');
  }
  if (!request.is404) return judgeUrl(request);
  const path = pathOf(request);
  return notAllowed(app, path, request, reply) ?? notFound(describePaths(path));
}

/** 405 where the path accepts other methods (RFC 9110 section 15.5.6). */
function notAllowed(
  app: Api,
  path: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Refusal | undefined {
  const allowed = (['GET', 'HEAD', 'POST', 'PUT', 'DELETE'] as const).filter(
    (method) => method !== request.method && app.findRoute({ method, url: path }) !== null,
  );
  if (allowed.length === 0) return undefined;
  reply.header('allow', allowed.join(', '));
  return new Refusal('method_not_allowed', `the method must be ${allowed.join(' or ')}`);
}
