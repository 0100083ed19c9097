/** Connections that are being made when a server gives no answer, and at the end. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
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

/** What PostgreSQL does now: when it lets somebody in, and whether it then gives no answer. */
const server = { letsIn: Promise.resolve(), hangs: false };
const sockets = new Set<Socket>();
const listener = createServer((socket) => {
  sockets.add(socket.on('error', () => {}));
  socket.once('data', () => {
    void server.letsIn.then(() => socket.write(login));
    socket.on('data', () => {
      if (!server.hangs) socket.write(answer);
    });
  });
});
after(() => {
  listener.close();
  for (const socket of sockets) socket.destroy();
});
listener.listen(0, '127.0.0.1');
await once(listener, 'listening');
const { port } = listener.address() as AddressInfo;

const connect = (...hosts: string[]) =>
  new Connections({
    urls: hosts.map((host) => `postgres://u@${host}:${port}/mail`),
    poolSize: 5,
    timeoutMs: 1_000,
    onBroken: () => {},
  });

test('a query without an answer does not end connections that are being made to the only host', async () => {
  const connections = connect('127.0.0.1');
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

// The pool itself would wait for 10 s.
test('the end does not wait for a server that lets nobody in', { timeout: 8_000 }, async () => {
  server.letsIn = Promise.withResolvers<void>().promise;
  const connections = connect('127.0.0.1');
  await assert.rejects(connections.acquire(), /accepted no connection/);
  await connections.close();
});
