import type { Server } from 'node:http';
import type { Socket } from 'node:net';
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
 * @returns ends a connection, and with it all of its client, where those count: what came on the others is not read any more
 */
export function limitConnections(
  server: Server,
  { perClient, inAll }: ConnectionLimits,
  isExempt: NetworkTest,
  logger: Logger,
): (socket: Socket) => void {
  const shares = new StrangerShares(inAll);
  const open = new Map<string, Set<Socket>>();
  const loggedAt = new Map<string, number>();
  const warn = (ip: string, text: string) => {
    const now = performance.now();
    if (now - (loggedAt.get(text) ?? Number.NEGATIVE_INFINITY) < LOG_EVERY_MS) return;
    loggedAt.set(text, now);
    logger.warn({ ip, connections: shares.taken }, text);
  };
  server.on('connection', (socket) => {
    const address = socket.remoteAddress ?? '';
    if (isExempt(address)) return;
    const client = clientKey(address);
    const giveBack = shares.hold(client, perClient);
    if (giveBack) {
      const ofClient = open.get(client) ?? new Set();
      open.set(client, ofClient.add(socket));
      socket.once('close', () => {
        giveBack();
        ofClient.delete(socket);
        if (ofClient.size === 0) open.delete(client);
      });
      return;
    }
    socket.destroy();
    warn(
      address,
      'HTTP connection closed: too many connections of this client (HTTP_MAX_PER_IP) or in all (HTTP_MAX_CONNECTIONS)',
    );
  });
  return (socket) => {
    const address = socket.remoteAddress ?? '';
    warn(address, 'HTTP connections of a client closed: it sent too many requests ahead on one');
    for (const one of [socket, ...(open.get(clientKey(address)) ?? [])]) one.destroy();
  };
}
