/** HTTP and HTTPS receivers on loopback that do as the test says. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { after } from 'node:test';

export interface Received {
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

export interface Receiver {
  readonly origin: string;
  readonly port: number;
  readonly received: Received[];
  /** TCP connections so far. */
  readonly connections: () => number;
}

const servers: Server[] = [];

after(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

type Tls = { readonly key: string; readonly cert: string };

/**
 * Starts a receiver that reads each request to its end, records it, and then answers.
 *
 * @param answer ends the response, or leaves it open
 */
export async function startReceiver(answer: RequestListener, tls?: Tls): Promise<Receiver> {
  const received: Received[] = [];
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => {});
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      received.push({ request, body: Buffer.concat(chunks) });
      answer(request, response);
    });
  };
  const server = tls ? createTlsServer(tls, listener) : createServer(listener);
  let connections = 0;
  server.on(tls ? 'secureConnection' : 'connection', () => {
    connections++;
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const origin = `${tls ? 'https' : 'http'}://127.0.0.1:${port}`;
  return { origin, port, received, connections: () => connections };
}
