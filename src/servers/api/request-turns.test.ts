import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { pino } from 'pino';
import { atEnd } from '../../../test/support/at-end.ts';
import { acceptJsonBodies } from './json-body.ts';
import { beginInTurn, noteUpgrades } from './request-turns.ts';
import type { Api } from './route-tools.ts';

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

async function start(answer: RequestListener, write = (_line: string) => {}) {
  const server = createServer({ shouldUpgradeCallback: noteUpgrades(() => true) }, answer);
  beginInTurn(server, () => '192.0.2.1', pino({}, { write }));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  async function open(): Promise<Socket> {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }
  return { open, server };
}

test('requests that come ahead on one connection are begun one by one, and answered in their order', async () => {
  let underWay = 0;
  let most = 0;
  const { open } = await start((request, response) => {
    most = Math.max(most, ++underWay);
    void turn().then(() => {
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
  const { open } = await start((request, response) => {
    begun.push(request.url);
    response.setHeader('connection', 'close').end();
  });
  const socket = await open();
  socket.write(GET('/last') + GET('/behind'));
  await once(socket.resume(), 'close');
  assert.deepEqual(begun, ['/last']);
});

test('who sends more ahead loses the connection, and no other; from then on Node gets pieces of what he sends', async () => {
  let begun = 0;
  const told: string[] = [];
  const { open, server } = await start(
    (request, response) => {
      begun++;
      if (request.url === '/other') response.end();
    },
    (line) => told.push(JSON.parse(line).msg),
  );
  let made = 0;
  server.on('request', () => made++);
  const [first, second, other] = [await open(), await open(), await open()];
  const send = async (socket: Socket) => {
    const end = once(socket, 'close');
    socket.write(GET('/').repeat(2_000));
    await end;
    return made;
  };
  const before = await send(first);
  assert.ok((await send(second)) - before < 200, `of an open one Node made ${made} requests`);
  assert.ok((await send(await open())) - before < 400, `of a new one Node made ${made} requests`);
  assert.equal(begun, 3);
  assert.match(told.join(), /^HTTP connection closed: more than 16 requests of it waited [^,]*$/);
  other.write(GET('/other'));
  assert.match(String(await once(other, 'data')), /^HTTP\/1.1 200/);
});

/** Starts a server whose only client has sent too many requests ahead. */
async function startSuspicious(answer: RequestListener) {
  const started = await start((request, response) => {
    if (request.url !== '/ahead') answer(request, response);
  });
  const socket = await started.open();
  socket.write(GET('/ahead').repeat(100));
  await once(socket, 'close');
  return started;
}

test('what comes behind a request that is upgraded is kept, and is not read as HTTP', async () => {
  const { open, server } = await startSuspicious(() => assert.fail('no request is begun'));
  const came = new Promise<string>((resolve) => {
    server.on('upgrade', (_request, socket, head) => {
      let text = String(head);
      const readOn = () =>
        socket.on('data', (octets) => {
          text += octets;
          if (!text.endsWith('last')) return;
          socket.destroy();
          resolve(text);
        });
      // As a WebSocket, which is read once its login has been checked.
      setImmediate(readOn);
    });
  });
  const behind = `${GET('/').repeat(500)}last`;
  const socket = await open();
  socket.write(`GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n${behind}`);
  assert.equal(await came, behind);
  socket.destroy();
});

test('a request with a body is not upgraded', async () => {
  const { open } = await start((_request, response) => response.end('as HTTP'));
  const socket = await open();
  socket.write(
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\n.',
  );
  assert.match(String(await once(socket, 'data')), /as HTTP$/);
});

test('a client that does not read its answers is read on once it does', async () => {
  const { open } = await startSuspicious((request, response) => {
    let octets = 0;
    request.on('data', (chunk) => {
      octets += chunk.length;
    });
    request.on('end', () => response.end(octets === 0 ? 'x'.repeat(4_000_000) : `<${octets}>`));
  });
  const socket = await open();
  socket.pause();
  const body = 'b'.repeat(20_000);
  const posted = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  socket.write(GET('/'));
  await once(socket, 'readable');
  socket.write(posted + posted);
  let text = '';
  for await (const chunk of socket) {
    text += chunk;
    if (text.match(/<20000>/g)?.length === 2) break;
  }
});

test('of many requests of one client at once, those of others come in between', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const begun: string[] = [];
  const server = createServer(({ url = '' }) => {
    begun.push(url);
    now += 6;
  });
  beginInTurn(server, ({ url = '' }) => url, pino({ enabled: false }));
  for (const url of ['192.0.2.1', '192.0.2.1', '198.51.100.1']) {
    server.emit('request', { url, socket: {} }, new EventEmitter());
  }
  while (begun.length < 3) await turn();
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
