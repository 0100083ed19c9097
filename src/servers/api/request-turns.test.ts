import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { pino } from 'pino';
import { atEnd } from '../../../test/support/at-end.ts';
import { acceptJsonBodies } from './json-body.ts';
import { limitConnections } from './limit-connections.ts';
import { beginInTurn } from './request-turns.ts';
import type { Api } from './route-tools.ts';

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

async function start(answer: RequestListener, cut = () => {}, write = (_line: string) => {}) {
  const server = createServer(answer);
  const connections = { perClient: 10, inAll: 100 };
  const cutOff = limitConnections(server, connections, () => false, pino({}, { write }));
  beginInTurn(
    server,
    () => '192.0.2.1',
    (socket) => {
      cut();
      cutOff(socket);
    },
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  async function open(localAddress = '127.0.0.2'): Promise<Socket> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }
  return open;
}

test('requests that come ahead on one connection are begun one by one, and answered in their order', async () => {
  let underWay = 0;
  let most = 0;
  const open = await start((request, response) => {
    most = Math.max(most, ++underWay);
    void setImmediate().then(() => {
      underWay--;
      response.end(`<${request.url}>`);
    });
  });
  const socket = await open();
  const paths = Array.from({ length: 17 }, (_, at) => `/${at}`);
  socket.write(paths.map(GET).join(''));
  let text = '';
  for await (const chunk of socket) {
    text += chunk;
    if (text.includes('</16>')) break;
  }
  assert.deepEqual(text.match(/(?<=<).*?(?=>)/g), paths);
  assert.equal(most, 1);
});

test('behind an answer that closes the connection no request is begun', async () => {
  const begun: (string | undefined)[] = [];
  const open = await start((request, response) => {
    begun.push(request.url);
    response.setHeader('connection', 'close').end();
  });
  const socket = await open();
  socket.write(GET('/last') + GET('/behind'));
  await once(socket.resume(), 'close');
  assert.deepEqual(begun, ['/last']);
});

test('who sends more ahead loses his connections, once, and nobody else does', async () => {
  let begun = 0;
  let cut = 0;
  const told: string[] = [];
  const open = await start(
    (request, response) => {
      begun++;
      if (request.url === '/other') response.end();
    },
    () => cut++,
    (line) => told.push(JSON.parse(line).msg),
  );
  const [first, second, other] = [await open(), await open(), await open('127.0.0.3')];
  const ends = Promise.all([once(first, 'close'), once(second, 'close')]);
  first.write(GET('/').repeat(2_000));
  await ends;
  assert.deepEqual([begun, cut], [1, 1]);
  assert.match(
    told.join(),
    /^HTTP connections of a client closed: it sent too many requests ahead/,
  );
  other.write(GET('/other'));
  assert.match(String(await once(other, 'data')), /^HTTP\/1.1 200/);
});

test('of many requests of one client at once, those of others come in between', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const begun: string[] = [];
  const server = createServer(({ url = '' }) => {
    begun.push(url);
    now += 6;
  });
  beginInTurn(
    server,
    ({ url = '' }) => url,
    () => {},
  );
  for (const url of ['192.0.2.1', '192.0.2.1', '198.51.100.1']) {
    server.emit('request', { url, socket: {} }, new EventEmitter());
  }
  while (begun.length < 3) await setImmediate();
  assert.deepEqual(begun, ['192.0.2.1', '198.51.100.1', '192.0.2.1']);
});

test('JSON bodies are read in the turns of their client', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  let parse: ((request: FastifyRequest, bytes: Buffer) => Promise<unknown>) | undefined;
  acceptJsonBodies({
    getDefaultJsonParser:
      () => (_request: unknown, text: string, done: (...given: unknown[]) => void) => {
        now += 6;
        done(null, JSON.parse(text));
      },
    removeAllContentTypeParsers() {},
    addContentTypeParser(_type: string, _options: object, parser: typeof parse) {
      parse = parser;
    },
  } as unknown as Api);
  const read: string[] = [];
  const body = Buffer.from('{}');
  const ask = async (clientAddress: string) => {
    await parse?.({ clientAddress, headers: {} } as unknown as FastifyRequest, body);
    read.push(clientAddress);
  };
  const [one, another] = ['192.0.2.9', '203.0.113.9'];
  const asked: Promise<void>[] = [];
  for (const client of [one, one, another]) {
    asked.push(ask(client));
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
  await Promise.all(asked);
  assert.deepEqual(read, [one, another, one]);
});
