import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { suite, test } from 'node:test';
import {
  askForUpgrade,
  connectClient,
  readTestToken,
  startRealtime,
  TestClient,
} from '../../../test/support/realtime/start-realtime.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { asksForWebSocket } from './realtime.ts';

const authorization = 'Bearer token-1';

suite('refusals at the upgrade', () => {
  const table: {
    title: string;
    headers?: Record<string, string>;
    line?: { method?: string; path?: string };
    status: number;
    code: string;
    fields?: Record<string, string | RegExp>;
  }[] = [
    {
      title: 'no token',
      status: 401,
      code: 'unauthorized',
      fields: { 'www-authenticate': /^Bearer realm="postroom"$/, connection: 'close' },
    },
    {
      title: 'a token in the URL',
      line: { path: '/ws?token=token-1&access_token=token-1' },
      status: 401,
      code: 'unauthorized',
      fields: { 'www-authenticate': /^Bearer realm="postroom"$/ },
    },
    {
      title: 'a token that is not good',
      headers: { authorization: 'Bearer nonsense' },
      status: 401,
      code: 'unauthorized',
      fields: { 'www-authenticate': /error="invalid_token"/ },
    },
    {
      title: 'another scheme',
      headers: { authorization: 'Basic YW5uOnNlY3JldA==' },
      status: 401,
      code: 'unauthorized',
    },
    {
      title: 'a bad header beside a good subprotocol',
      headers: {
        authorization: 'Bearer',
        'sec-websocket-protocol': 'postroom, bearer.token-1',
      },
      status: 401,
      code: 'unauthorized',
    },
    {
      title: 'a token that is not good as a subprotocol',
      headers: { 'sec-websocket-protocol': 'postroom, bearer.nonsense' },
      status: 401,
      code: 'unauthorized',
      fields: { 'www-authenticate': /error="invalid_token"/ },
    },
    {
      title: 'the token as the only subprotocol',
      headers: { 'sec-websocket-protocol': 'bearer.token-1' },
      status: 400,
      code: 'invalid_request',
    },
    {
      title: 'two tokens',
      headers: { 'sec-websocket-protocol': 'postroom, bearer.token-1, bearer.token-2' },
      status: 400,
      code: 'invalid_request',
    },
    {
      title: 'subprotocols that are no list',
      headers: { authorization, 'sec-websocket-protocol': 'postroom,,x' },
      status: 400,
      code: 'invalid_request',
    },
    {
      title: 'a suspended account',
      headers: { authorization: 'Bearer suspended' },
      status: 403,
      code: 'account_inactive',
    },
    { title: 'another path', line: { path: '/ws/' }, status: 404, code: 'route_not_found' },
    {
      title: 'another method',
      headers: { authorization },
      line: { method: 'PUT' },
      status: 405,
      code: 'method_not_allowed',
      fields: { allow: 'GET' },
    },
    {
      title: 'another protocol',
      headers: { authorization, upgrade: 'h2c' },
      status: 426,
      code: 'upgrade_required',
      fields: { upgrade: 'websocket', connection: 'upgrade, close' },
    },
    {
      title: 'another version',
      headers: { authorization, 'sec-websocket-version': '8' },
      status: 426,
      code: 'upgrade_required',
      fields: { 'sec-websocket-version': '13' },
    },
    {
      title: 'a key that is none',
      headers: { authorization, 'sec-websocket-key': 'short' },
      status: 400,
      code: 'invalid_request',
    },
    {
      title: 'while the keys of tokens cannot be fetched',
      headers: { authorization: 'Bearer unavailable' },
      status: 503,
      code: 'unavailable',
      fields: { 'retry-after': '5' },
    },
  ];
  for (const { title, headers = {}, line = {}, status, code, fields = {} } of table) {
    test(title, async () => {
      const { port, realtime } = await startRealtime({
        async authenticate(token) {
          if (token === 'suspended') throw new Refusal('account_inactive', 'it is suspended');
          if (token === 'unavailable') throw new Refusal('unavailable', 'not now');
          return readTestToken(token);
        },
      });
      const answer = await askForUpgrade(port, { 'x-request-id': 'req-1', ...headers }, line);
      assert.equal(answer.status, status);
      assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
      assert.equal(answer.headers['x-request-id'], 'req-1');
      const { title: told, detail, ...rest } = answer.body;
      assert.deepEqual(rest, {
        type: `/docs/reference/errors#${code}`,
        status,
        code,
        request_id: 'req-1',
      });
      assert.ok(typeof told === 'string' && typeof detail === 'string' && detail !== '');
      for (const [name, expected] of Object.entries(fields)) {
        if (typeof expected === 'string') assert.equal(answer.headers[name], expected);
        else assert.match(answer.headers[name]?.toString() ?? '', expected);
      }
      assert.equal(realtime.connections, 0);
    });
  }

  test('the problem type is sent where it is accepted, and ids are never echoed unchecked', async () => {
    const { port } = await startRealtime();
    const answer = await askForUpgrade(port, {
      accept: 'text/html, application/problem+json',
      'x-request-id': 'a"b',
    });
    assert.equal(answer.headers['content-type'], 'application/problem+json; charset=utf-8');
    assert.match(String(answer.body.request_id), /^[\da-f-]{36}$/);
    const unwanted = await askForUpgrade(port, { accept: 'application/problem+json;q=0' });
    assert.equal(unwanted.headers['content-type'], 'application/json; charset=utf-8');
  });

  test('a request has one Host and one Authorization at most', async () => {
    const { port } = await startRealtime();
    for (const [status, ...fields] of [
      [400, 'Host: a', 'host: b', `Authorization: ${authorization}`],
      [401, 'Host: a', `Authorization: ${authorization}`, `authorization: ${authorization}`],
    ] as const) {
      const socket = connect(port, '127.0.0.1');
      const lines = [
        'GET /ws HTTP/1.1',
        ...fields,
        'Connection: Upgrade',
        'Upgrade: websocket',
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      ];
      socket.write([...lines, '', ''].join('\r\n'));
      assert.match(await text(socket), new RegExp(`^HTTP/1.1 ${status} `), fields.join(' | '));
    }
  });

  test('the rate limit comes before everything else', async () => {
    const { port } = await startRealtime({
      admit: async () => ({
        allowed: false,
        retryAfter: 12.5,
        headers: { 'x-ratelimit-remaining': '0' },
      }),
    });
    const answer = await askForUpgrade(port, { authorization }, { path: '/elsewhere' });
    assert.equal(answer.status, 429);
    assert.equal(answer.body.code, 'rate_limited');
    assert.equal(answer.headers['retry-after'], '13');
    assert.equal(answer.headers['x-ratelimit-remaining'], '0');
  });

  test('an unexpected error is logged and not revealed', async () => {
    const { port, logLines } = await startRealtime({
      authenticate: () => Promise.reject(new Error('the database is on fire')),
    });
    const answer = await askForUpgrade(port, { authorization });
    assert.equal(answer.status, 500);
    assert.equal(answer.body.code, 'internal');
    assert.doesNotMatch(JSON.stringify(answer.body), /fire/);
    assert.match(JSON.stringify(logLines), /fire/);
  });
});

test('an account has twenty connections and no more', async () => {
  const { port, realtime } = await startRealtime();
  const clients = Array.from({ length: 30 }, () => new TestClient(port, 'token-1'));
  const outcomes = await Promise.all(
    clients.map(async (client) => {
      const [response] = await Promise.race([
        once(client.socket, 'unexpected-response').then(([, answer]) => [answer.statusCode]),
        client.next().then(() => [101]),
      ]);
      return response;
    }),
  );
  assert.equal(outcomes.filter((status) => status === 101).length, 20);
  assert.equal(outcomes.filter((status) => status === 429).length, 10);
  assert.equal(realtime.connections, 20);

  const refused = await askForUpgrade(port, { authorization });
  assert.equal(refused.status, 429);
  assert.equal(refused.body.code, 'too_many_connections');
  assert.equal(refused.headers['retry-after'], '90');
  // Other accounts are not affected.
  await connectClient(port, 'token-2');

  const leaving = clients[outcomes.indexOf(101)];
  leaving?.socket.close();
  await leaving?.closed;
  await connectClient(port, 'token-1');
  assert.equal(realtime.connections, 21);
});

test('a browser offers its token as a subprotocol and never gets it back', async () => {
  const { port } = await startRealtime();
  const asking = request({
    host: '127.0.0.1',
    port,
    path: '/ws',
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'sec-websocket-protocol': 'bearer.token-1, postroom',
      origin: 'https://elsewhere.example',
    },
  });
  asking.end();
  const [response, stream] = await once(asking, 'upgrade');
  assert.equal(response.statusCode, 101);
  assert.equal(response.headers['sec-websocket-protocol'], 'postroom');
  assert.doesNotMatch(response.rawHeaders.join(' '), /token-1/);
  assert.equal(response.headers['sec-websocket-extensions'], undefined);
  stream.destroy();
});

test('a client that leaves while its token is checked leaves nothing behind', async () => {
  const judging = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const { port, realtime } = await startRealtime({
    async authenticate(token) {
      asked.resolve();
      await judging.promise;
      return readTestToken(token);
    },
    limits: { closeSeconds: 3600 },
  });
  const client = new TestClient(port, 'token-1');
  await asked.promise;
  client.socket.terminate();
  await client.closed;
  judging.resolve();
  // Resolves only when no socket is left, since its deadline is far away.
  await realtime.close();
  assert.equal(realtime.connections, 0);
});

test('a client that ends its side before the answer gets none', async () => {
  const { port, realtime } = await startRealtime({ limits: { closeSeconds: 3600 } });
  const socket = connect(port, '127.0.0.1');
  socket.end(
    'GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n' +
      'Authorization: Bearer token-1\r\n\r\n',
  );
  socket.resume();
  await once(socket, 'close');
  await realtime.close();
  assert.equal(realtime.connections, 0);
});

test('requests that offer another protocol are answered as if they had not asked for one', async (t) => {
  const { realtime } = await startRealtime();
  const server = createServer({ shouldUpgradeCallback: asksForWebSocket }, (_request, response) =>
    response.end('plain'),
  );
  server.on('upgrade', (...upgrade) => realtime.handleUpgrade(...upgrade));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  for (const upgrade of ['h2c', 'TLS/1.0', 'websockets']) {
    const answer = await fetchUpgrading(port, upgrade);
    assert.equal(answer, 'plain', upgrade);
  }
  for (const upgrade of ['websocket', 'h2c, WebSocket', 'websocket/13']) {
    const answer = await askForUpgrade(port, { upgrade }, { path: '/elsewhere' });
    assert.equal(answer.status, 404, upgrade);
  }
});

async function fetchUpgrading(port: number, upgrade: string): Promise<string> {
  const asking = request({
    host: '127.0.0.1',
    port,
    path: '/ws',
    headers: { connection: 'Upgrade', upgrade },
  });
  asking.end();
  const [response] = await once(asking, 'response');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return text;
}
