import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** Has a server listen on a free port of loopback; answers which. */
export async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP server');
  return address.port;
}

/** A port that was free a moment ago, for a process that has to be told its port. */
export async function findFreePort(): Promise<number> {
  const server = createServer();
  const port = await portOf(server);
  server.close();
  await once(server, 'close');
  return port;
}
