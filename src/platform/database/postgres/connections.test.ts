/** Connections that are being made when a server gives no answer, and at the end. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { atEnd } from '../../../../test/support/at-end.ts';
import { Connections } from './connections.ts';

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

const ready = message('Z', Buffer.from('I'));
const login = Buffer.concat([message('R', Buffer.alloc(4)), ready]);
const column = Buffer.from(
  '\0\x01transaction_read_only\0\0\0\0\0\0\0\0\0\0\x19\0\0\0\0\0\0\0\0',
  'latin1',
);
const answer = Buffer.concat([
  message('1', Buffer.alloc(0)),
  message('2', Buffer.alloc(0)),
  message('T', column),
  message('D', Buffer.from('\0\x01\0\0\0\x03off')),
  message('C', Buffer.from('SELECT 1\0')),
  ready,
]);
const ended = message('E', Buffer.from('SFATAL\0C57P01\0Mterminating connection\0\0'));

/** Stands for PostgreSQL: says when it lets somebody in, what it answers then, and whether it does. */
class Server {
  letsIn: Promise<void> = Promise.resolve();
  hangs = false;
  says: Buffer = answer;
  readonly sockets = new Set<Socket>();
  readonly #listener = createServer((socket) => {
    this.sockets.add(socket.on('error', () => {}));
    socket.once('data', () => {
      void this.letsIn.then(() => socket.write(login));
      socket.on('data', () => {
        if (!this.hangs) socket.write(this.says);
      });
    });
  });

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  async start(): Promise<this> {
    atEnd(() => this.stop());
    this.#listener.listen(0, '127.0.0.1');
    await once(this.#listener, 'listening');
    return this;
  }

  stop(): void {
    this.#listener.close();
    for (const socket of this.sockets) socket.destroy();
  }
}

const server = await new Server().start();
const never = Promise.withResolvers<void>().promise;

/** What the errors of connections that broke had besides their message. */
const broken: string[][] = [];

const connect = (...servers: Server[]) =>
  new Connections({
    urls: servers.map(({ port }) => `postgres://u@127.0.0.1:${port}/mail`),
    poolSize: 5,
    timeoutMs: 1_000,
    onBroken: (error) => broken.push(Object.keys(error)),
  });

test('a query without an answer does not end connections that are being made to the only host', async () => {
  const connections = connect(server);
  const held = await connections.acquire();
  server.hangs = true;
  const unanswered = assert.rejects(held.query('select 1'), /gave no answer/);
  // Till shortly before that, so that the wait for the next one is not over.
  await pause(1_700);
  const entry = Promise.withResolvers<void>();
  Object.assign(server, { hangs: false, letsIn: entry.promise });
  const acquiring = connections.acquire();
  await unanswered;
  entry.resolve();
  (await acquiring).release();
  held.release();
  await connections.close();
});

test('at the start a host that lets nobody in is left for the next one', async () => {
  const other = await new Server().start();
  server.letsIn = never;
  const connections = connect(server, other);
  const lease = await connections.acquire();
  lease.release();
  assert.equal(other.sockets.size, 1);
  await connections.close();
});

test('a host that lets in late is not left for another one, and its connection is used', async () => {
  const entry = Promise.withResolvers<void>();
  const other = await new Server().start();
  other.letsIn = never;
  const connections = connect(server, other);
  server.letsIn = Promise.resolve();
  const held = await connections.acquire();
  server.letsIn = entry.promise;
  await assert.rejects(connections.acquire(), /accepted no connection/);
  // Nobody else is let in.
  server.letsIn = never;
  entry.resolve();
  // What was sent may come after the first one has looked for it.
  const lease = await connections.acquire().catch(() => connections.acquire());
  lease.release();
  held.release();
  assert.equal(other.sockets.size, 0);
  await connections.close();
});

test('a host that ends a connection late is left', async () => {
  const other = await new Server().start();
  const connections = connect(server, other);
  server.letsIn = Promise.resolve();
  const held = await connections.acquire();
  server.letsIn = never;
  await assert.rejects(connections.acquire(), /accepted no connection/);
  for (const socket of server.sockets) socket.destroy();
  const lease = await connections.acquire().catch(() => connections.acquire());
  lease.release();
  held.release();
  assert.equal(other.sockets.size, 1);
  await connections.close();
});

test('each connection that breaks is told once, without what belongs to it', async () => {
  const other = await new Server().start();
  const connections = connect(other);
  const leases = [await connections.acquire(), await connections.acquire()];
  for (const lease of leases) lease.release();
  broken.length = 0;
  const held = await connections.acquire();
  for (const socket of other.sockets) socket.destroy();
  while (broken.length < 2) await pause(10);
  await pause(100);
  held.release();
  await connections.close();
  // The pool adds the client to errors of idle ones, with its statements.
  assert.deepEqual(broken, [[], []]);
});

test('a connection that its server ends is not used again, also before it has closed it', async () => {
  const other = await new Server().start();
  const connections = connect(other);
  const held = await connections.acquire();
  other.says = ended;
  await assert.rejects(held.query('select 1'), { code: '57P01' });
  held.release();
  other.says = answer;
  (await connections.acquire()).release();
  assert.equal(other.sockets.size, 2);
  await connections.close();
});

// The pool itself would wait for 10 s.
test('the end does not wait for a server that lets nobody in', { timeout: 8_000 }, async () => {
  server.letsIn = never;
  const connections = connect(server);
  await assert.rejects(connections.acquire(), /accepted no connection/);
  await connections.close();
});
