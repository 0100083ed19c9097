/**
 * Requests that never reach a route: bytes that are not HTTP, and URLs that cannot be decoded. They
 * are answered with the same body as every other failure.
 */
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { Refusal } from '../errors/errors.ts';
import { problemOf } from './answer-errors.ts';

/** What Node's HTTP parser reports, by its code. */
const brokenStatus: Readonly<Record<string, { status: number; detail: string }>> = {
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, detail: 'the request took too long to arrive' },
  HPE_HEADER_OVERFLOW: { status: 431, detail: 'the header fields are too large' },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, detail: 'the chunk extensions are too large' },
};

/** Answers bytes that are no HTTP request (RFC 9112 section 2.2) and closes the connection. */
export function answerBrokenRequest(
  error: Error & { code?: string },
  socket: Socket,
  logger: Logger,
): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  const requestId = randomUUID();
  const { status, detail } = brokenStatus[error.code ?? ''] ?? {
    status: 400,
    detail: 'the request is not HTTP/1.1',
  };
  logger.info({ status, requestId, ip: socket.remoteAddress, code: error.code }, 'broken request');
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify(problemOf(new Refusal('invalid_request', detail), requestId, status));
  socket.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'content-type: application/json; charset=utf-8',
      `content-length: ${Buffer.byteLength(body)}`,
      `x-request-id: ${requestId}`,
      'x-content-type-options: nosniff',
      'cache-control: no-store',
      'connection: close',
      '',
      body,
    ].join('\r\n'),
  );
  // What the client still sends is of no use; without this a reader of nothing keeps the socket.
  socket.resume();
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** How long a client may take to read why it was cut off. */
const LINGER_MS = 2_000;

/** An id that a caller may choose: it comes back in a header, the log and the body. */
const harmlessId = /^[A-Za-z0-9._:-]{1,64}$/;

/** The id of a request: the caller's own where it is harmless, else a new one. */
export function requestIdOf(raw: IncomingMessage): string {
  const given = raw.headers['x-request-id'];
  return typeof given === 'string' && harmlessId.test(given) ? given : randomUUID();
}

/**
 * Refuses text in the URL that cannot be kept or decoded: NUL, and percent signs in the query that
 * are no UTF-8 (RFC 3986 section 2.5). The router has seen to the path by itself.
 */
export function judgeUrl(request: FastifyRequest): Refusal | undefined {
  const url = request.raw.url ?? '';
  if (!url.includes('%')) return undefined;
  if (url.includes('%00')) return new Refusal('invalid_request', 'the URL has a NUL character');
  const start = url.indexOf('?');
  if (start === -1) return undefined;
  try {
    decodeURIComponent(url.slice(start + 1));
    return undefined;
  } catch {
    return new Refusal('invalid_request', 'the query is not valid percent-encoded UTF-8');
  }
}
