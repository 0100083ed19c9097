/** What browsers of other origins may do, and which headers a proxy in front may set. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { startApi } from '../../../test/support/api/start-api.ts';

const origin = 'https://app.example.com';

const preflight = (from: string) => ({
  origin: from,
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization, content-type',
  'x-api-key': undefined,
});

test('a listed origin may call and read', async () => {
  const api = await startApi('sqlite', { corsOrigins: [origin, 'http://localhost:5173'] });
  for (const path of ['/v2/domain', '/mail/sync', '/v2/email-accounts/1']) {
    const asked = await api.call('OPTIONS', path, undefined, preflight(origin));
    assert.equal(asked.status, 204, 'without a key');
    assert.equal(asked.headers.get('access-control-allow-origin'), origin);
    assert.match(asked.headers.get('access-control-allow-methods') ?? '', /POST, PUT/);
    const allowed = asked.headers.get('access-control-allow-headers') ?? '';
    for (const name of [
      'authorization',
      'content-type',
      'idempotency-key',
      'last-event-id',
      'range',
      'x-api-key',
      'x-postroom-client',
    ]) {
      assert.ok(allowed.split(', ').includes(name), name);
    }
  }
  const read = await api.call('GET', '/v2/email-accounts?user_id=u', undefined, { origin });
  assert.equal(read.status, 200);
  assert.equal(read.headers.get('access-control-allow-origin'), origin);
  assert.equal(read.headers.get('access-control-allow-credentials'), null);
  assert.match(read.headers.get('vary') ?? '', /origin/i);
  const exposed = (read.headers.get('access-control-expose-headers') ?? '').split(', ');
  for (const name of [
    'content-range',
    'etag',
    'retry-after',
    'x-postroom-version',
    'x-ratelimit-limit',
    'x-ratelimit-remaining',
    'x-ratelimit-reset',
  ]) {
    assert.ok(exposed.includes(name), name);
  }
  assert.match(read.headers.get('x-postroom-version') ?? '', /^\d+\.\d+\.\d/);
  for (const path of ['/nowhere', '/v2/email-accounts']) {
    const refused = await api.call('GET', path, undefined, { origin });
    assert.equal(refused.headers.get('access-control-allow-origin'), origin, path);
  }
});

test('an origin that is not listed gets no permission', async () => {
  const api = await startApi('sqlite', { corsOrigins: [origin] });
  for (const other of [
    'https://evil.test',
    `${origin}.evil.test`,
    'http://app.example.com',
    'null',
  ]) {
    const asked = await api.call('OPTIONS', '/v2/domain', undefined, preflight(other));
    assert.equal(asked.headers.get('access-control-allow-origin'), null);
    const read = await api.call('GET', '/healthz', undefined, { origin: other });
    assert.equal(read.headers.get('access-control-allow-origin'), null);
  }
});

test('without listed origins there is no CORS', async () => {
  const api = await startApi('sqlite');
  const asked = await api.call('OPTIONS', '/v2/domain', undefined, preflight(origin));
  assert.equal(asked.status, 405);
  for (const [name] of asked.headers) assert.ok(!name.startsWith('access-control-'), name);
});

test('the log has the address that a trusted proxy names', async () => {
  const api = await startApi('sqlite', { trustProxy: ['127.0.0.0/8'] });
  const forwarded = { 'x-forwarded-for': '198.51.100.7', 'x-request-id': 'through-proxy' };
  await api.call('GET', '/nowhere', undefined, forwarded);
  const findLine = () => api.logLines.find((logged) => logged.requestId === 'through-proxy');
  // It is written after the answer was sent, which its reader may see first.
  while (!findLine()) await setImmediate();
  assert.equal(findLine()?.ip, '198.51.100.7');
});

test('an upgrade to something else is answered as if it had not asked for one', async () => {
  const api = await startApi('sqlite', {
    upgrades: ({ headers }) => headers.upgrade === 'websocket',
  });
  let upgrades = 0;
  api.app.server.on('upgrade', (_request, socket) => {
    upgrades++;
    socket.destroy();
  });
  const ask = (path: string, upgrade: string) =>
    new Promise<number | undefined>((resolve) => {
      const asked = request(api.url + path, { headers: { connection: 'upgrade', upgrade } });
      asked.on('response', (response) =>
        response.resume().on('end', () => resolve(response.statusCode)),
      );
      asked.on('error', () => resolve(undefined));
      asked.end();
    });
  assert.equal(await ask('/healthz', 'h2c'), 200);
  assert.equal(await ask('/ws', 'h2c'), 426);
  assert.equal(upgrades, 0);
  assert.equal(await ask('/ws', 'websocket'), undefined);
  assert.equal(upgrades, 1);
});

test('the WebSocket path names itself in the answer to a plain request', async () => {
  const api = await startApi('sqlite');
  const answer = await api.call('GET', '/ws');
  assert.equal(answer.status, 426);
  assert.equal(answer.body.code, 'upgrade_required');
  assert.equal(answer.headers.get('upgrade'), 'websocket');
});

test('an answer that cannot be written does not affect others', async () => {
  const api = await startApi('sqlite', {
    routes: [
      (app) => {
        app.get('/broken', async (_request, reply) => reply.header('x-broken', 'a\nb').send('x'));
      },
    ],
  });
  const paths = ['/healthz', '/broken', '/healthz', '/broken', '/healthz'];
  const answers = await Promise.all(paths.map((path) => api.call('GET', path)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 500, 200, 500, 200],
  );
  assert.ok(api.logLines.some(({ msg }) => msg === 'request failed'));
  const [, broken] = answers;
  assert.equal(broken?.body.code, 'internal');
  assert.equal(broken.headers.get('x-content-type-options'), 'nosniff');
});

test('a request that meets a disk which fails is no error of its own in the log', async () => {
  const code = 'ERR_SQLITE_ERROR';
  const failing = Object.assign(new Error('disk I/O error'), { code, errcode: 10 });
  const api = await startApi('sqlite', {
    routes: [(app) => void app.get('/failing', () => Promise.reject(failing))],
  });
  assert.equal((await api.call('GET', '/failing')).status, 503);
  const told = api.logLines.filter(({ msg }) => msg === 'request failed');
  assert.deepEqual(
    told.map(({ level }) => level),
    [30],
  );
});

/** Sends a request exactly as written; returns its status code and the code of the problem. */
async function sendRaw(port: number, lines: readonly string[]): Promise<[number, string]> {
  const socket = connect(port, '127.0.0.1');
  socket.write([...lines, '', ''].join('\r\n'));
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
  return [Number(head.split(' ', 2)[1]), JSON.parse(body).code ?? ''];
}

test('a request has one Host and one Authorization at most', async () => {
  const api = await startApi('sqlite');
  api.app.server.on('upgrade', (_request, socket) => socket.destroy());
  const bearer = 'Authorization: Bearer x.y.z';
  for (const [expected, target, ...fields] of [
    [[400, 'invalid_request'], 'GET /healthz'],
    [[400, 'invalid_request'], 'GET /healthz', 'Host: a', 'host: a'],
    [[400, 'invalid_request'], 'GET /healthz', 'Host: a', 'Host:'],
    [[400, 'invalid_request'], 'GET /nowhere', 'Host: a', 'HOST: b'],
    [
      [401, 'unauthorized'],
      'GET /mail/message?uid=1',
      'Host: a',
      bearer,
      'authorization: Bearer a',
    ],
    [[401, 'unauthorized'], 'GET /mail/message?uid=1', 'Host: a', bearer, bearer],
  ] as const) {
    const lines = [`${target} HTTP/1.1`, ...fields, 'Connection: close'];
    assert.deepEqual(await sendRaw(api.port, lines), expected, lines.join(' | '));
  }
});

test('an expectation that nobody knows is ignored, so that each refusal has a body', async () => {
  const api = await startApi('sqlite');
  const lines = [
    'GET /mail/message?uid=1 HTTP/1.1',
    'Host: a',
    'Connection: close',
    'Expect: 200-ok',
  ];
  assert.deepEqual(await sendRaw(api.port, lines), [401, 'unauthorized']);
});

test('a valid token is not accepted beside another one', async () => {
  const api = await startApi('sqlite');
  await api.activateDomain('u', 'acme.test');
  const { account } = await api.accounts.create({
    userId: 'u',
    domain: 'acme.test',
    localPart: 'ann',
  });
  const { token } = await api.tokens.issue(account);
  const good = `Authorization: Bearer ${token}`;
  const lines = ['GET /mail/message?uid=1 HTTP/1.1', 'Host: a', 'Connection: close', good];
  assert.deepEqual(await sendRaw(api.port, lines), [404, 'message_not_found']);
  assert.deepEqual(await sendRaw(api.port, [...lines, good]), [401, 'unauthorized']);
});
