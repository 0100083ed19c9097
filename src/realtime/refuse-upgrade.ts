/**
 * Refusals at the upgrade: plain HTTP answers with the same body as everywhere else, written to the
 * socket since there is no response object for a request that asked for an upgrade.
 */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { answerOf, type ErrorCode, type Refusal } from '../errors/errors.ts';

/** How long a client may take to read why it was refused. */
const LINGER_MS = 2_000;
/** Seconds after which a call that met a 503 may be tried again. */
const RETRY_AFTER = 5;

/** An id that a caller may choose: it comes back in a header and in the body. */
const HARMLESS_ID = /^[A-Za-z0-9._:-]{1,64}$/;

/** What an answer has to carry because of its code. */
const OWN_HEADERS: Partial<Record<ErrorCode, Readonly<Record<string, string>>>> = {
  method_not_allowed: { allow: 'GET' },
  // RFC 9110 section 15.5.22, RFC 6455 section 4.4.
  upgrade_required: { upgrade: 'websocket', 'sec-websocket-version': '13' },
};

/**
 * Answers the request with a refusal and closes its connection.
 *
 * @param headers more fields of the answer, such as those of a rate limit
 */
export function refuseUpgrade(
  request: IncomingMessage,
  socket: Duplex,
  refusal: Refusal,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (socket.destroyed) return;
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(writeAnswer(request, refusal, headers));
  // What the client still sends is of no use; without this a reader of nothing keeps the socket.
  socket.resume();
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

function writeAnswer(
  request: IncomingMessage,
  refusal: Refusal,
  headers: Readonly<Record<string, string>>,
): string {
  const { http: status, title } = answerOf(refusal.code);
  const requestId = requestIdOf(request);
  const body = JSON.stringify({
    // RFC 9457 section 4.2.1: no more than the status code says; `code` is what tells them apart.
    type: 'about:blank',
    title,
    status,
    detail: refusal.message,
    code: refusal.code,
    request_id: requestId,
  });
  const retryAfter = refusal.retryAfter ?? (status === 503 ? RETRY_AFTER : undefined);
  const fields: Record<string, string> = {
    date: new Date().toUTCString(),
    'content-type': acceptsProblem(request.headers.accept)
      ? 'application/problem+json'
      : 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    'x-request-id': requestId,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
    // RFC 9110 section 7.8: an Upgrade field is named by Connection.
    connection: refusal.code === 'upgrade_required' ? 'upgrade, close' : 'close',
    ...headers,
    ...OWN_HEADERS[refusal.code],
    ...(status === 401 && { 'www-authenticate': challengeFor(request) }),
    ...(retryAfter !== undefined && { 'retry-after': String(Math.ceil(retryAfter)) }),
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, ...lines, '', body].join('\r\n');
}

/** The challenge that a 401 must carry (RFC 9110 section 11.6.1). */
function challengeFor({ headers }: IncomingMessage): string {
  const withToken =
    headers.authorization !== undefined || headers['sec-websocket-protocol']?.includes('bearer.');
  // RFC 6750 section 3.1: no error code where the request has no token at all.
  return withToken ? 'Bearer realm="postroom", error="invalid_token"' : 'Bearer realm="postroom"';
}

function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && HARMLESS_ID.test(given) ? given : randomUUID();
}

function acceptsProblem(accept: string | undefined): boolean {
  const range = accept
    ?.toLowerCase()
    .split(',')
    .map((part) => part.split(';').map((text) => text.trim()))
    .find(([type]) => type === 'application/problem+json');
  // RFC 9110 section 12.4.2: a weight of 0 means "not this".
  return range !== undefined && !range.some((text) => /^q=0(?:\.0{0,3})?$/.test(text));
}
