/**
 * One line for each answered request: method, route, status, time, id, address. Never a header, a query or a body:
 * they contain credentials and mail. A request that failed or was slow is logged at info, all others at debug, since
 * apps sync all day.
 */
import { type FastifyReply, type FastifyRequest, LogController } from 'fastify';
import type { Logger } from 'pino';
import { addressOf, type NetworkTest } from '../../platform/net/net.ts';

/** Called for each answered request. */
export type OnAnswered = (answered: {
  readonly method: string;
  /** The pattern of the route; undefined where there is none. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}) => void;

const PATH_MAX = 200;
/** Milliseconds from which a request is slow. */
const SLOW_MS = 1_000;

/**
 * Writes our line where Fastify writes its own, so that it needs no hook. All other log lines of Fastify for a
 * request are left out; our error handler logs failures.
 */
export class RequestLog extends LogController {
  readonly #logger: Logger;
  readonly #isTrusted: NetworkTest;
  readonly #onAnswered: OnAnswered;

  constructor(logger: Logger, isTrusted: NetworkTest, onAnswered: OnAnswered = () => {}) {
    super({ disableRequestLogging: true });
    this.#logger = logger;
    this.#isTrusted = isTrusted;
    this.#onAnswered = onAnswered;
  }

  override requestCompleted(
    error: Error | null | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void {
    this.#onAnswered({
      method: request.method,
      route: request.routeOptions.url,
      status: reply.statusCode,
      ms: reply.elapsedTime,
    });
    const failed = error !== null && error !== undefined;
    // A balancer asks each second, and the log says once what is not ready; who follows events waits for them.
    const { url: route } = request.routeOptions;
    const isSlow = reply.elapsedTime >= SLOW_MS && route !== '/v2/events';
    const isNoted = failed || (route !== '/readyz' && (reply.statusCode >= 400 || isSlow));
    const level = isNoted ? 'info' : 'debug';
    if (!this.#logger.isLevelEnabled(level)) return;
    const line = {
      method: request.method,
      // The pattern keeps ids and names of users out of the log.
      path: request.routeOptions.url ?? pathOf(request),
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 10) / 10,
      requestId: request.id,
      ip: addressOf(request.raw, this.#isTrusted),
    };
    if (failed)
      this.#logger.info(
        { ...line, error: error.message },
        'the client ended the connection before the answer was complete',
      );
    else this.#logger[level](line, 'request');
  }
}

/** The path of a request as it came, without the query. */
export function pathOf(request: FastifyRequest): string {
  const url = request.raw.url ?? '';
  const end = url.indexOf('?');
  return (end === -1 ? url : url.slice(0, end)).slice(0, PATH_MAX);
}
