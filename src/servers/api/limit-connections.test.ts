import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { pino } from 'pino';
import { atEnd } from '../../../test/support/at-end.ts';
import { limitConnections } from './limit-connections.ts';

const PROXY = '127.0.0.99';

/** A server on all loopback addresses, of which only the proxy's is exempt. */
async function start() {
  const server = createServer((_request, response) => response.end('hello'));
  const logLines: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line) => logLines.push(line) });
  limitConnections(server, { perClient: 2, inAll: 5 }, (address) => address === PROXY, logger);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  atEnd(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  /** Connects, and returns whether a request is answered; the connection stays open. */
  async function open(localAddress: string): Promise<Socket | undefined> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    sockets.push(socket);
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    const answered = once(socket, 'data').then(() => true);
    const closed = once(socket, 'close').then(() => false);
    socket.on('error', () => {});
    return (await Promise.race([answered, closed.catch(() => false)]).catch(() => false))
      ? socket
      : undefined;
  }
  return { open, logLines };
}

test('connections are limited for a client, and for all clients together', async () => {
  const { open, logLines } = await start();
  const first = await open('127.0.0.1');
  assert.ok(first && (await open('127.0.0.1')));
  assert.equal(await open('127.0.0.1'), undefined);
  assert.equal(await open('127.0.0.1'), undefined);
  assert.equal(logLines.length, 1, 'one line a minute');
  assert.ok(await open('127.0.0.2'), 'another client');
  first.destroy();
  await once(first, 'close');
  // The server may notice the end a moment later.
  while (!(await open('127.0.0.1')));
  assert.ok((await open('127.0.0.3')) && (await open('127.0.0.4')));
  assert.equal(await open('127.0.0.5'), undefined, 'the last place of all is taken');
  for (let n = 0; n < 4; n++) assert.ok(await open(PROXY), 'a proxy is never turned away');
});
