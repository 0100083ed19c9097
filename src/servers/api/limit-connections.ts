import type { Server } from 'node:http';
import type { Logger } from 'pino';
import { clientKey, type NetworkTest, StrangerShares } from '../../platform/net/net.ts';

export interface ConnectionLimits {
  /** Connections of one client at a time. */
  readonly perClient: number;
  /** Connections of all clients at a time. */
  readonly inAll: number;
}

const LOG_EVERY_MS = 60_000;

/**
 * Closes connections above the limits as they come, so that nobody uses all file descriptors. A connection that became
 * a WebSocket counts as well.
 *
 * @param isExempt addresses whose connections do not count
 */
export function limitConnections(
  server: Server,
  { perClient, inAll }: ConnectionLimits,
  isExempt: NetworkTest,
  logger: Logger,
): void {
  const shares = new StrangerShares(inAll);
  let loggedAt = Number.NEGATIVE_INFINITY;
  server.on('connection', (socket) => {
    const address = socket.remoteAddress ?? '';
    if (isExempt(address)) return;
    const giveBack = shares.hold(clientKey(address), perClient);
    if (giveBack) {
      socket.once('close', giveBack);
      return;
    }
    socket.destroy();
    const now = performance.now();
    if (now - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now;
    logger.warn(
      { ip: address, connections: shares.taken },
      'HTTP connection closed: too many connections of this client (HTTP_MAX_PER_IP) or in all (HTTP_MAX_CONNECTIONS)',
    );
  });
}
