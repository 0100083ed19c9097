/**
 * Requests that never reach a route: bytes that are not HTTP, and URLs that cannot be decoded. They
 * are answered with the same body as every other failure.
 */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { answerOnSocket, answerProblem } from '../../platform/net/net.ts';

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
  const refusal = new Refusal('invalid_request', detail);
  answerOnSocket(socket, answerProblem(refusal, requestId, undefined, status), requestId);
}

/**
 * Refuses text in the URL that cannot be stored or decoded: NUL, and percent-encoded text in the query that is not
 * UTF-8 (RFC 3986 section 2.5). The router has checked the path itself.
 */
export function judgeUrl(request: FastifyRequest): Refusal | undefined {
  const url = request.raw.url ?? '';
  if (!url.includes('%')) return undefined;
  for (const [name, text] of Object.entries(request.params ?? {})) {
    if (hasNul(String(text))) return invalidField(name === '*' ? 'path' : name, NO_NUL);
  }
  const start = url.indexOf('?');
  if (start === -1) return undefined;
  for (const pair of url.slice(start + 1).split('&')) {
    const parts = pair.split('=').map(decode);
    const field = parts[0] || 'query';
    if (parts.includes(undefined)) return invalidField(field, 'must be percent-encoded UTF-8');
    if (parts.some(hasNul)) return invalidField(field, NO_NUL);
  }
  return undefined;
}

const NO_NUL = 'must have no NUL characters';

const hasNul = (text: string | undefined) => text?.includes('\0') === true;

/** @returns undefined where it cannot be decoded */
function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
