/**
 * How a failure is answered: one body everywhere, the members of RFC 9457 section 3.1 and a stable
 * code, built from the table of `errors/`.
 */
import { STATUS_CODES } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isStorageFull, isUnavailable } from '../database/database.ts';
import { answerOf, type ErrorCode, type FieldError, Refusal } from '../errors/errors.ts';
import { describeInvalid, isInvalid } from './describe-invalid.ts';

/** Seconds after which a call that met a 503 may be tried again. */
const RETRY_AFTER = 5;

/** The body of every error answer. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorCode;
  readonly errors?: readonly FieldError[];
  readonly request_id: string;
}

/** Failures that Fastify itself finds, by its code; others of its 4xx are `invalid_request`. */
const frameworkRefusals: Readonly<Record<string, () => Refusal>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: () => new Refusal('body_too_large', 'the body is too large'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new Refusal('unsupported_media_type', 'the body has a content type that is not taken here'),
  FST_ERR_CTP_EMPTY_JSON_BODY: () => new Refusal('invalid_request', 'the body is empty'),
  FST_ERR_CTP_INVALID_JSON_BODY: () => new Refusal('invalid_request', 'the body is not JSON'),
  FST_ERR_BAD_URL: () => new Refusal('invalid_request', 'the path is not a valid URL path'),
  FST_STATIC_FORBIDDEN_PATH: () => notFound(),
};

/** The refusal of a path that is not there. */
export function notFound(): Refusal {
  return new Refusal('route_not_found', 'there is nothing at this path');
}

/** Turns whatever was thrown into the refusal to answer with; `internal` stands for a bug. */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (isInvalid(error)) return describeInvalid(error);
  if (isUnavailable(error)) {
    return new Refusal('unavailable', 'the database cannot be reached right now', { cause: error });
  }
  if (isStorageFull(error)) {
    return new Refusal('storage_full', 'there is no space left', { cause: error });
  }
  if (error instanceof Error) {
    const known = 'code' in error ? frameworkRefusals[String(error.code)] : undefined;
    if (known) return known();
    const status = 'statusCode' in error ? error.statusCode : undefined;
    if (status === 404) return notFound();
    if (status === 416) {
      return new Refusal('range_not_satisfiable', 'the range lies outside the content');
    }
    if (typeof status === 'number' && status >= 400 && status < 500) {
      return new Refusal('invalid_request', 'the request is not valid', { cause: error });
    }
  }
  return new Refusal('internal', 'something failed on our side', { cause: error });
}

/**
 * The body for a refusal.
 *
 * @param status differs from the code's own for the few failures of HTTP itself
 */
export function problemOf(
  refusal: Refusal,
  requestId: string,
  status = answerOf(refusal.code).http,
): Problem {
  const { http, title } = answerOf(refusal.code);
  return {
    // RFC 9457 section 4.2.1: no more than the status code says; `code` is what tells them apart.
    type: 'about:blank',
    title: status === http ? title : (STATUS_CODES[status] ?? title),
    status,
    detail: refusal.message,
    code: refusal.code,
    ...(refusal.errors && { errors: refusal.errors }),
    request_id: requestId,
  };
}

/** Sends the answer for a refusal; logs it where it is our own failure. */
export function answerRefusal(
  refusal: Refusal,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const { http } = answerOf(refusal.code);
  if (refusal.cause !== undefined && answerOf(refusal.code).http >= 500) {
    request.log.error({ err: refusal.cause, requestId: request.id }, 'request failed');
  }
  // Fastify would close, with data unread, which resets the connection before the client has seen
  // why. Node reads on and drops what comes, for as long as a request may take.
  if (refusal.code === 'body_too_large') reply.removeHeader('connection');
  if (http === 401) reply.header('www-authenticate', challengeFor(request));
  const retryAfter = refusal.retryAfter ?? (http === 503 ? RETRY_AFTER : undefined);
  if (retryAfter !== undefined) reply.header('retry-after', String(Math.ceil(retryAfter)));
  reply
    .code(http)
    .type(
      `${acceptsProblem(request.headers.accept) ? problemType : 'application/json'}; charset=utf-8`,
    )
    .send(JSON.stringify(problemOf(refusal, request.id)));
}

const problemType = 'application/problem+json';

/** Whether an Accept field names the problem type and does not refuse it (RFC 9110 section 12.5.1). */
export function acceptsProblem(accept: string | undefined): boolean {
  if (!accept?.toLowerCase().includes(problemType)) return false;
  const range = accept
    .toLowerCase()
    .split(',')
    .map((part) => part.split(';').map((text) => text.trim()))
    .find(([type]) => type === problemType);
  return range !== undefined && !range.some((text) => /^q=0(?:\.0{0,3})?$/.test(text));
}

/** The challenge that a 401 must carry (RFC 9110 section 11.6.1). */
function challengeFor(request: FastifyRequest): string {
  const path = request.routeOptions.url ?? '';
  // Not registered schemes, but the field cannot be left out, and they name what is wanted.
  if (path.startsWith('/v2/')) return 'ApiKey realm="postroom", header="x-api-key"';
  if (path.startsWith('/hooks/')) {
    return 'HmacSha256 realm="postroom", header="x-mailserver-signature"';
  }
  // RFC 6750 section 3.1: no error code where the request has no token at all.
  return request.headers.authorization === undefined
    ? 'Bearer realm="postroom"'
    : 'Bearer realm="postroom", error="invalid_token"';
}
