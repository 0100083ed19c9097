/** The conditions for a request to become a WebSocket, the place of its token, and its refusals. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ErrorCode, Refusal } from '../../platform/errors/errors.ts';
import {
  answerOnSocket,
  answerProblem,
  bearerChallenge,
  countField,
  readBearer,
  requestIdOf,
} from '../../platform/net/net.ts';

const PATH = '/ws';

/** The subprotocol that the server selects, and the one that carries a browser's token. */
export const SUBPROTOCOL = 'postroom';
const TOKEN_PROTOCOL = 'bearer.';

/**
 * Whether an upgrade request asks for WebSocket. All others are answered as if they had not asked (RFC 9110 section
 * 7.8): Java's client and `curl --http2` offer `h2c` with every request.
 */
export function asksForWebSocket(request: IncomingMessage): boolean {
  const offers = request.headers.upgrade?.toLowerCase().split(',') ?? [];
  // RFC 9110 section 7.8: a protocol may come with a version after a slash.
  return offers.some((offer) => offer.trim().split('/', 1)[0] === 'websocket');
}

/**
 * Checks the handshake by RFC 6455 section 4.2.1, except its key and its lists, which the WebSocket library checks.
 *
 * @throws Refusal invalid_request, route_not_found, method_not_allowed, upgrade_required
 */
export function checkHandshake(request: IncomingMessage): void {
  // RFC 9112 section 3.2.
  if (countField(request, 'host') > 1) {
    throw new Refusal('invalid_request', 'the request has two headers Host');
  }
  if (pathOf(request.url ?? '') !== PATH) {
    throw new Refusal('route_not_found', 'there is nothing at this path');
  }
  if (request.method !== 'GET') throw new Refusal('method_not_allowed', 'the method must be GET');
  if (!asksForWebSocket(request)) {
    throw new Refusal('upgrade_required', 'this path speaks WebSocket only (RFC 6455)');
  }
  // RFC 6455 section 4.4: the answer names the version that is spoken here.
  if (request.headers['sec-websocket-version'] !== '13') {
    throw new Refusal('upgrade_required', 'only version 13 of WebSocket is supported');
  }
}

/** The path of a request target, which a proxy may send in absolute form (RFC 9112 section 3.2.2). */
function pathOf(target: string): string {
  if (target.startsWith('/')) return target.split('?', 1)[0] ?? '';
  return URL.canParse(target) ? new URL(target).pathname : '';
}

/**
 * The mailbox token of the request: from `Authorization`, else from the subprotocol `bearer.<JWT>`,
 * since browsers cannot set a header here. Never from the URL, which ends up in logs.
 *
 * @throws Refusal unauthorized where there is none, invalid_request
 */
export function readToken(request: IncomingMessage): string {
  const token = readBearer(request);
  if (token !== undefined) return token;
  const protocols = offeredProtocols(request);
  const tokens = protocols.filter((name) => name.startsWith(TOKEN_PROTOCOL));
  const [offered] = tokens;
  if (offered === undefined) {
    throw new Refusal(
      'unauthorized',
      'the request has neither the header Authorization nor the subprotocol bearer.<token>',
    );
  }
  // RFC 6455 section 4.1: a browser closes a connection if the server selects none of its offers, and the one with the
  // token is never sent back.
  if (tokens.length > 1 || !protocols.includes(SUBPROTOCOL)) {
    throw new Refusal(
      'invalid_request',
      `offer the subprotocols ${SUBPROTOCOL} and ${TOKEN_PROTOCOL}<token>, each once`,
    );
  }
  return offered.slice(TOKEN_PROTOCOL.length);
}

function offeredProtocols(request: IncomingMessage): string[] {
  const field = request.headers['sec-websocket-protocol'];
  return field === undefined ? [] : field.split(',').map((name) => name.trim());
}

/*
 * Refusals at the upgrade: plain HTTP answers with the same body as everywhere else, written to the
 * socket since there is no response object for a request that asked for an upgrade.
 */

/** Header fields that an answer must have because of its code. */
const OWN_HEADERS: Partial<Record<ErrorCode, Readonly<Record<string, string>>>> = {
  method_not_allowed: { allow: 'GET' },
  // RFC 9110 sections 7.8 and 15.5.22, RFC 6455 section 4.4: Connection must name the Upgrade field.
  upgrade_required: {
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    connection: 'upgrade, close',
  },
};

/**
 * Answers the request with a refusal and closes its connection.
 *
 * @param more fields of the answer, such as those of a rate limit
 */
export function refuseUpgrade(
  request: IncomingMessage,
  socket: Duplex,
  refusal: Refusal,
  more: Readonly<Record<string, string>> = {},
): void {
  const { headers } = request;
  const requestId = requestIdOf(request);
  const answer = answerProblem(refusal, requestId, headers.accept);
  const offersToken =
    headers.authorization !== undefined || headers['sec-websocket-protocol']?.includes('bearer.');
  answerOnSocket(socket, answer, requestId, {
    ...more,
    ...OWN_HEADERS[refusal.code],
    ...(answer.status === 401 && { 'www-authenticate': bearerChallenge(offersToken === true) }),
  });
}
