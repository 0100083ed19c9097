/**
 * HTTP requests and refusals that the API and the WebSocket channel have in common: the
 * body of an error answer, ids of requests, and the token of a caller.
 */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { answerOf, type ErrorCode, type FieldError, Refusal } from '../errors/errors.ts';

/** The body of every error answer: the members of RFC 9457 section 3.1 and a stable code. */
interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorCode;
  readonly errors?: readonly FieldError[];
  readonly oldest?: string;
  readonly request_id: string;
}

/** The answer to a refused request, without fields that only some answers have. */
interface ProblemAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The rate limit's answer to a request that no route sees. */
export interface Admission {
  readonly allowed: boolean;
  /** Seconds after which it may be allowed. */
  readonly retryAfter?: number;
  /** Fields for the answer: `x-ratelimit-*`. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * The page that explains each code, with an anchor for each (`docs/.vitepress/row-anchors.ts`). RFC 9457 section 3.1.1
 * allows relative references: this one leads to the server that answers, whatever its name is.
 */
export const ERRORS_PAGE = '/docs/reference/errors';

/** Seconds after which a call that got a 503 may be tried again. */
const RETRY_AFTER = 5;

/**
 * The answer to a request that is refused.
 *
 * @param accept the Accept field of the request
 * @param status other than the code's own for the few failures of HTTP itself
 */
export function answerProblem(
  refusal: Refusal,
  requestId: string,
  accept?: string,
  status = answerOf(refusal.code).http,
): ProblemAnswer {
  const { http, title } = answerOf(refusal.code);
  const problem: Problem = {
    type: status === http ? `${ERRORS_PAGE}#${refusal.code}` : 'about:blank',
    title: status === http ? title : (STATUS_CODES[status] ?? title),
    status,
    detail: refusal.message,
    code: refusal.code,
    ...(refusal.errors && { errors: refusal.errors }),
    ...(refusal.oldest !== undefined && { oldest: refusal.oldest }),
    request_id: requestId,
  };
  const retryAfter = refusal.retryAfter ?? (status === 503 ? RETRY_AFTER : undefined);
  return {
    status,
    headers: {
      'content-type': `${acceptWeight(accept, PROBLEM_TYPE) > 0 ? PROBLEM_TYPE : 'application/json'}; charset=utf-8`,
      ...(retryAfter !== undefined && { 'retry-after': String(Math.ceil(retryAfter)) }),
    },
    body: JSON.stringify(problem),
  };
}

const PROBLEM_TYPE = 'application/problem+json';

/**
 * The weight that Accept gives a media type by its name, 0 to 1 (RFC 9110 section 12.5.1); 0 also where it does not name
 * the type.
 */
export function acceptWeight(accept: string | undefined, type: string): number {
  for (const range of (accept ?? '').toLowerCase().split(',')) {
    const [name, ...parameters] = range.split(';').map((part) => part.trim());
    if (name !== type) continue;
    const weight = parameters.find((one) => one.startsWith('q='));
    const value = weight === undefined ? 1 : Number(weight.slice(2));
    return value >= 0 && value <= 1 ? value : 0;
  }
  return 0;
}

/** How long a client may take to read the refusal. */
const LINGER_MS = 2_000;

/**
 * Answers on a socket, where there is no response object, and closes the connection.
 *
 * @param more header fields of this answer
 */
export function answerOnSocket(
  socket: Duplex,
  { status, headers, body }: ProblemAnswer,
  requestId: string,
  more: Readonly<Record<string, string>> = {},
): void {
  if (socket.destroyed) return;
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const fields: Record<string, string> = {
    date: new Date().toUTCString(),
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    'x-request-id': requestId,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
    connection: 'close',
    ...more,
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, ...lines, '', body].join('\r\n'));
  // The rest from the client is dropped; without this, a client that we do not read from keeps the socket.
  socket.resume();
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** An id that a caller may choose: it is returned in a header, the log and the body. */
const HARMLESS_ID = /^[A-Za-z0-9._:-]{1,64}$/;

/** The id of a request: the caller's own where it is harmless, else a new one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && HARMLESS_ID.test(given) ? given : randomUUID();
}

/** How often a request has a header field. For some, such as Host, Node keeps only the first. */
export function countField({ rawHeaders }: IncomingMessage, name: string): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const field = rawHeaders[at];
    if (field?.length === name.length && field.toLowerCase() === name) count++;
  }
  return count;
}

/** `Bearer <b64token>`; the scheme in any case (RFC 9110 section 11.1, RFC 6750 section 2.1). */
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i;

/**
 * The token of the Authorization field, or undefined where there is no such field.
 *
 * @throws Refusal unauthorized where it is not a Bearer token, or there are two such fields: another program in front
 *   may have checked the other one
 */
export function readBearer(request: IncomingMessage): string | undefined {
  const field = request.headers.authorization;
  if (field === undefined) return undefined;
  if (countField(request, 'authorization') > 1) {
    throw new Refusal('unauthorized', 'the request has two headers Authorization');
  }
  const token = BEARER.exec(field)?.[1];
  if (token !== undefined) return token;
  throw new Refusal('unauthorized', 'the header Authorization is not "Bearer <token>"');
}

/** The challenge of a 401 where a mailbox token is wanted (RFC 9110 section 11.6.1). */
export function bearerChallenge(hasToken: boolean): string {
  // RFC 6750 section 3.1: no error code where the request has no token at all.
  return hasToken ? 'Bearer realm="postroom", error="invalid_token"' : 'Bearer realm="postroom"';
}
