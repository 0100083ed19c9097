import assert from 'node:assert/strict';
import { get, IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import type { Admission } from '../../platform/net/net.ts';
import type { RouteGroup } from './route-tools.ts';

const leftOf = (answer: { headers: Headers }) => answer.headers.get('x-ratelimit-remaining');

/** Sends as a client of a trusted proxy. */
const from = (api: RunningApi, address: string, path = '/nowhere') =>
  api.call('GET', path, undefined, { 'x-forwarded-for': address });

const proxied = { trustProxy: ['127.0.0.1/32'] };

test('all routes share one budget, refused requests and unknown paths included', async () => {
  const api = await startApi('sqlite', {
    rateLimitPerMinute: 9,
    corsOrigins: ['https://app.test'],
  });
  const key = { 'x-api-key': undefined };
  const spend: [string, string, unknown, object][] = [
    ['GET', '/', undefined, {}],
    ['GET', '/docs', undefined, {}],
    ['GET', '/docs/nothing', undefined, {}],
    ['GET', '/nowhere', undefined, {}],
    ['POST', '/v2/domain', { domain: 'a.test' }, key],
    ['POST', '/v2/domain', '{', {}],
    ['DELETE', '/v2/domain', undefined, {}],
    ['GET', '/v2/%', undefined, {}],
    ['GET', '/v2/email-accounts?user_id=u', undefined, {}],
  ];
  for (const [index, [method, path, body, headers]] of spend.entries()) {
    const answer = await api.call(method, path, body, { ...headers });
    assert.notEqual(answer.status, 429, `${method} ${path}`);
    assert.equal(answer.headers.get('x-ratelimit-limit'), '9');
    assert.equal(leftOf(answer), String(8 - index), `${method} ${path}`);
    const reset = Number(answer.headers.get('x-ratelimit-reset'));
    assert.ok(reset > 0 && reset <= 60, `${reset} s`);
  }
  for (const path of ['/v2/email-accounts?user_id=u', '/', '/nowhere', '/v2/%']) {
    const refused = await api.call('GET', path, undefined, { origin: 'https://app.test' });
    assert.equal(refused.status, 429, path);
    assert.equal(refused.body.code, 'rate_limited');
    assert.equal(leftOf(refused), '0');
    const retry = Number(refused.headers.get('retry-after'));
    assert.ok(retry > 0 && retry <= 60, `${retry} s`);
    if (path === '/nowhere') {
      const readable = refused.headers.get('access-control-allow-origin');
      assert.equal(readable, 'https://app.test', 'a browser app sees why it was refused');
    }
  }
  for (const path of ['/healthz', '/readyz']) {
    const answer = await api.call('GET', path);
    assert.equal(answer.status, 200);
    assert.equal(leftOf(answer), null);
  }
  const asset = await api.call('GET', '/docs/assets/chunks/app.Bx4d9_1-.js');
  assert.equal(asset.status, 404, 'not there, but not counted either');
});

test('only names with a content hash do not count', async () => {
  const api = await startApi('sqlite', { rateLimitPerMinute: 100 });
  const counted = async (path: string) => leftOf(await api.call('GET', path)) !== null;
  assert.equal(await counted('/docs/assets/app.Bx4d9_1-.js'), false);
  assert.equal(await counted('/docs/assets/app.Bx4d9_1-.js?v=1'), false);
  assert.equal(await counted('/docs/assets/app.js'), true);
  assert.equal(await counted('/docs/app.Bx4d9_1-.js'), true);
  assert.equal(await counted('/v2/email-accounts?/docs/assets/app.Bx4d9_1-.js'), true);
  assert.equal(await counted('/docs/assets/%2e%2e/app.Bx4d9_1-.js'), true);
});

test('clients behind a trusted proxy have budgets of their own', async () => {
  const api = await startApi('sqlite', { rateLimitPerMinute: 3, ...proxied });
  assert.equal(leftOf(await from(api, '192.0.2.1')), '2');
  assert.equal(leftOf(await from(api, '192.0.2.1')), '1');
  assert.equal(leftOf(await from(api, '192.0.2.2')), '2');
  assert.equal(leftOf(await from(api, '::ffff:192.0.2.2')), '1', 'the same address, mapped');
  assert.equal(leftOf(await from(api, '203.0.113.9, 192.0.2.1')), '0', 'the last is what counts');
});

test('an untrusted proxy cannot name a client', async () => {
  const api = await startApi('sqlite', { rateLimitPerMinute: 3 });
  assert.equal(leftOf(await from(api, '192.0.2.1')), '2');
  assert.equal(leftOf(await from(api, '192.0.2.2')), '1');
});

test('IPv6 counts by /64', async () => {
  const api = await startApi('sqlite', { rateLimitPerMinute: 3, ...proxied });
  assert.equal(leftOf(await from(api, '2001:db8:1:1::1')), '2');
  assert.equal(leftOf(await from(api, '2001:db8:1:1:ffff:ffff:ffff:ffff')), '1');
  assert.equal(leftOf(await from(api, '2001:db8:1:2::1')), '2');
});

test('an invalid address from a proxy counts for the proxy', async () => {
  const api = await startApi('sqlite', { rateLimitPerMinute: 9, ...proxied });
  const nonsense = ['unknown', '1.2.3', ':::', '<script>', '192.0.2.1:x', 'x'.repeat(8000)];
  for (const [index, text] of nonsense.entries()) {
    assert.equal(leftOf(await from(api, text)), String(8 - index), text.slice(0, 20));
  }
  assert.equal(leftOf(await from(api, 'fe80::1%eth0')), '8');
  assert.equal(leftOf(await from(api, 'fe80::2%eth1')), '7');
});

test('0 means no limit and no header', async () => {
  const api = await startApi('sqlite');
  for (let i = 0; i < 100; i++) {
    const answer = await api.call('GET', '/nowhere');
    assert.equal(answer.status, 404);
    assert.equal(answer.headers.get('x-ratelimit-limit'), null);
  }
});

test('a route may charge another budget, ten times as large', async () => {
  const routes: RouteGroup = (app, { limits }) => {
    app.get('/batch', { config: { charge: 'own' } }, async (request, reply) => {
      await limits.take('mailserver', request, reply);
      return { ok: true };
    });
    app.get('/forged', { config: { charge: 'own' } }, async (request, reply) => {
      await limits.take('requests', request, reply);
      return { ok: false };
    });
    app.get('/link', { config: { charge: 'own' } }, async (request, reply) => {
      await limits.take('links', request, reply);
      return { ok: true };
    });
  };
  const api = await startApi('sqlite', { rateLimitPerMinute: 2, routes: [routes] });
  for (let left = 19; left >= 0; left--) {
    assert.equal(leftOf(await api.call('GET', '/batch')), String(left));
  }
  assert.equal((await api.call('GET', '/batch')).status, 429);
  assert.equal(leftOf(await api.call('GET', '/link')), '19');
  assert.equal(leftOf(await api.call('GET', '/forged')), '1');
  assert.equal(leftOf(await api.call('GET', '/nowhere')), '0');
  assert.equal((await api.call('GET', '/forged')).status, 429);
});

test('a request that fails before its route has charged it is charged too', async () => {
  const api = await startApi('sqlite', { rateLimitPerMinute: 3 });
  const batch = (query: string, type: string) =>
    api.call('POST', `/hooks/mailserver${query}`, 'x', {
      'content-type': type,
      'x-mailserver-signature': '0'.repeat(64),
    });
  assert.equal(leftOf(await batch('?%00', 'text/plain')), '2');
  assert.equal(leftOf(await batch('?%ff', 'text/plain')), '1');
  const forged = await batch('', 'text/plain');
  assert.equal(forged.status, 401);
  assert.equal(leftOf(forged), '0', 'once, not twice');
  assert.equal((await batch('?%00', 'text/plain')).status, 429);
});

test('a request for an upgrade is charged to the same budget', async () => {
  const api = await startApi('sqlite', { rateLimitPerMinute: 2, upgrades: () => true });
  const admissions: Admission[] = [];
  api.app.server.on('upgrade', (request, socket) => {
    void api.app.admitUpgrade(request).then((admission) => admissions.push(admission));
    socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  });
  const upgrade = () =>
    new Promise<void>((resolve, reject) => {
      const request = get(`${api.url}/ws`, {
        headers: { connection: 'upgrade', upgrade: 'websocket' },
      });
      request.on('response', (response) => response.resume().on('end', resolve));
      request.on('error', reject);
    });
  await upgrade();
  assert.equal(leftOf(await api.call('GET', '/nowhere')), '0');
  await upgrade();
  const reset = admissions[1]?.retryAfter;
  assert.deepEqual(admissions, [
    { allowed: true, headers: headersWith('1', admissions[0]) },
    { allowed: false, retryAfter: reset, headers: headersWith('0', admissions[1]) },
  ]);
  assert.ok(reset !== undefined && reset > 0 && reset <= 60);

  const free = await startApi('sqlite');
  const request = new IncomingMessage(new Socket());
  assert.deepEqual(await free.app.admitUpgrade(request), { allowed: true });
});

function headersWith(remaining: string, { headers = {} }: Partial<Admission> = {}) {
  const { 'x-ratelimit-reset': reset } = headers;
  return {
    'x-ratelimit-limit': '2',
    'x-ratelimit-remaining': remaining,
    'x-ratelimit-reset': reset,
  };
}

test('the budget is full again in the next minute', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 });
  const api = await startApi('sqlite', { rateLimitPerMinute: 1 });
  const app: FastifyInstance = api.app;
  assert.equal((await app.inject('/nowhere')).statusCode, 404);
  assert.equal((await app.inject('/nowhere')).statusCode, 429);
  t.mock.timers.setTime(1_800_000_060_000);
  assert.equal((await app.inject('/nowhere')).statusCode, 404);
});
