/** An HTTP proxy in front of one server, that makes it fail as servers and networks do. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What becomes of a request. */
export type Fault =
  /** The server never sees it. */
  | { readonly answer: number }
  /** The server never sees it, and nobody answers. */
  | 'silent'
  | 'reset'
  /** So much of the request goes to the server, then both connections end. */
  | { readonly cutRequest: number }
  /** So much of the answer's body comes back, then the connection ends or falls silent. */
  | { readonly cutAnswer: number; readonly then: 'end' | 'silence' }
  /** The server does what it is asked, and nobody hears of it. */
  | 'lose answer'
  /** One octet of the answer's body is another. */
  | 'damage';

export interface FaultProxy {
  readonly url: string;
  /** Decides about each request; undefined: it is passed on. */
  fault: ((method: string, path: string) => Fault | undefined) | undefined;
  close(): Promise<void>;
}

/** @param target port of the server on loopback */
export async function startFaultProxy(target: number): Promise<FaultProxy> {
  const server = createServer((client, answer) => {
    const fault = proxy.fault?.(client.method ?? '', client.url ?? '');
    if (fault === 'silent') client.resume();
    else if (fault === 'reset') client.destroy();
    else if (typeof fault === 'object' && 'answer' in fault) {
      client.resume();
      client.once('end', () => answer.writeHead(fault.answer).end());
    } else passOn(target, client, answer, fault);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const proxy: FaultProxy = {
    url: `http://127.0.0.1:${port}`,
    fault: undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return proxy;
}

function passOn(
  port: number,
  client: IncomingMessage,
  answer: ServerResponse,
  fault: Fault | undefined,
): void {
  const { method, url: path, headers } = client;
  const onward = request({ host: '127.0.0.1', port, method, path, headers }, (reply) => {
    if (fault === 'lose answer') {
      reply.resume();
      return;
    }
    answer.writeHead(reply.statusCode ?? 502, reply.headers);
    answer.flushHeaders();
    sendBody(reply, answer, fault);
  });
  const end = () => {
    onward.destroy();
    client.destroy();
  };
  onward.on('error', end);
  client.on('error', end);
  if (typeof fault !== 'object' || !('cutRequest' in fault)) {
    client.pipe(onward);
    return;
  }
  let left = fault.cutRequest;
  client.on('data', (chunk: Buffer) => {
    onward.write(chunk.subarray(0, left));
    left -= chunk.length;
    if (left <= 0) end();
  });
}

function sendBody(reply: IncomingMessage, answer: ServerResponse, fault: Fault | undefined): void {
  reply.on('error', () => answer.destroy());
  if (fault === 'damage') {
    reply.once('data', (chunk: Buffer) => {
      chunk[0] = (chunk[0] ?? 0) ^ 1;
    });
  }
  if (typeof fault !== 'object' || !('cutAnswer' in fault)) {
    reply.pipe(answer);
    return;
  }
  let left = fault.cutAnswer;
  reply.on('data', (chunk: Buffer) => {
    if (left > 0) answer.write(chunk.subarray(0, left));
    left -= chunk.length;
    if (left <= 0 && fault.then === 'end') answer.destroy();
  });
}
