/**
 * Refusals at the upgrade: plain HTTP answers with the same body as everywhere else, written to the
 * socket since there is no response object for a request that asked for an upgrade.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorCode, Refusal } from '../errors/errors.ts';
import { answerOnSocket, answerProblem, bearerChallenge, requestIdOf } from '../net/net.ts';

/** What an answer has to carry because of its code. */
const OWN_HEADERS: Partial<Record<ErrorCode, Readonly<Record<string, string>>>> = {
  method_not_allowed: { allow: 'GET' },
  // RFC 9110 sections 7.8 and 15.5.22, RFC 6455 section 4.4: an Upgrade field is named by Connection.
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
