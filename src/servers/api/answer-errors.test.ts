/** A caller who is almost right learns what is missing. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { FastifyRequest } from 'fastify';
import { apiKey, type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { toRefusal } from './answer-errors.ts';

let api: RunningApi;
let token: string;

before(async () => {
  api = await startApi('sqlite');
  await api.activateDomain('demo', 'acme.test');
  const owner = { userId: 'demo', domain: 'acme.test', localPart: 'ada' };
  const { account } = await api.accounts.create(owner);
  ({ token } = await api.tokens.issue(account));
});

test('a 415 names the content type that the path accepts', async () => {
  const body = '{"domain":"a.test","user_id":"demo"}';
  const send = async (headers: Record<string, string | undefined>) => {
    const { status, body: problem } = await api.call('POST', '/v2/domain', body, headers);
    assert.equal(status, 415);
    return problem.detail;
  };
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  assert.equal(await send(form), 'Content-Type must be application/json');
  const packed = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
  assert.equal(await send(packed), 'the body must have no Content-Encoding');
  const response = await fetch(`${api.url}/v2/domain`, {
    method: 'POST',
    headers: { 'x-api-key': apiKey },
    // Bytes have no type of their own, so fetch sends no Content-Type.
    body: new TextEncoder().encode(body),
  });
  const { detail } = JSON.parse(await response.text());
  assert.equal(detail, 'Content-Type must be application/json: the request has none');
});

test('a credential in the wrong place gets told where it belongs, and not whether it is valid', async () => {
  const list = '/v2/email-accounts?user_id=demo';
  const ask = async (path: string, headers: Record<string, string | undefined>) => {
    const { status, body } = await api.call('GET', path, undefined, headers);
    assert.equal(status, 401);
    return body.detail;
  };
  const asBearer = (credential: string) => ({
    'x-api-key': undefined,
    authorization: `Bearer ${credential}`,
  });
  // Three letters are missing, whichever they were.
  const forged = token.slice(0, -3);
  for (const [path, good, wrong, expected] of [
    [list, asBearer(apiKey), asBearer('wrong'), /x-api-key is missing: send the API key there/],
    [list, asBearer(token), asBearer(forged), /x-api-key is missing: an account's token opens/],
    [list, { 'x-api-key': token }, { 'x-api-key': forged }, /not valid: an account's token opens/],
    ['/mail/message?uid=1', asBearer(apiKey), asBearer('wrong'), /belongs in the header x-api-key/],
    [
      '/mail/message?uid=1',
      { 'x-api-key': apiKey },
      { 'x-api-key': 'wrong' },
      /Authorization is missing: .*Bearer <token>": an API key opens \/v2 alone/,
    ],
  ] as const) {
    const detail = await ask(path, good);
    assert.match(detail, expected);
    assert.equal(await ask(path, wrong), detail, 'the same for one that is not good');
    assert.ok(!detail.includes(apiKey) && !detail.includes(token));
  }
  assert.equal(await ask(list, { 'x-api-key': undefined }), 'the header x-api-key is missing');
});

test('for an unknown path the answer names similar ones', async () => {
  const ask = async (path: string) => {
    const { status, body } = await api.call('GET', path, undefined, { 'x-api-key': undefined });
    assert.equal(status, 404, path);
    assert.equal(body.code, 'route_not_found');
    return body.detail;
  };
  const below = await ask('/v2/domains/acme.test');
  assert.match(below, /^there is nothing at this path: there are /);
  for (const name of ['GET /v2/domains/:domain/info', 'PUT /v2/domains/:domain/route']) {
    assert.ok(below.includes(name), name);
  }
  assert.ok(!below.includes('/mail/') && !below.includes('acme.test'));
  for (const [path, meant] of [
    ['/mail/Message?uid=1', 'GET /mail/message'],
    ['/v2/DOMAINS/acme.test/info', 'GET /v2/domains/:domain/info'],
    ['/v2/emailaccounts/1', 'GET /v2/email-accounts/:id or PUT /v2/email-accounts/:id'],
    ['/V2/Email-Accounts/', 'GET /v2/email-accounts'],
  ] as const) {
    assert.equal(await ask(path), `there is nothing at this path: did you mean ${meant}?`);
  }
  const elsewhere = 'there is nothing at this path: /docs/reference/api lists all paths';
  for (const path of ['/nowhere', '/nowhere/GET', '/admin.php']) {
    assert.equal(await ask(path), elsewhere);
  }
  assert.match(await ask('/mail/quota'), /^.{40,900}; \/docs\/reference\/api lists all paths$/);
});

test('a browser with too many requests gets a page that reloads', async () => {
  const limited = await startApi('sqlite', { rateLimitPerMinute: 1 });
  const browse = (path: string, accept: string) =>
    limited.call('GET', path, undefined, { accept, 'x-api-key': undefined });
  const html = 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8';
  await browse('/healthz', html);
  await browse('/docs/openapi.json', html);
  for (const path of ['/docs', '/webmail/', '/nowhere']) {
    const { status, headers, body } = await browse(path, html);
    assert.equal(status, 429, path);
    assert.equal(headers.get('content-type'), 'text/html; charset=utf-8');
    const seconds = headers.get('retry-after') ?? '';
    assert.ok(Number(seconds) > 0);
    assert.ok(body.includes(`<meta http-equiv="refresh" content="${seconds}">`));
    assert.match(headers.get('content-security-policy') ?? '', /^default-src 'none'/);
    assert.ok(headers.has('x-ratelimit-reset'));
  }
  const { status, body } = await browse('/docs', '*/*');
  assert.deepEqual([status, body.code], [429, 'rate_limited']);
});

test('a client that leaves within its body is no failure of the database, whose ECONNRESET looks the same', () => {
  const request = {} as FastifyRequest;
  const reset = () => Object.assign(new Error('aborted'), { code: 'ECONNRESET' });
  assert.equal(toRefusal(reset(), request).code, 'unavailable');
  // What Fastify sets on errors of a body.
  const left = Object.assign(reset(), { statusCode: 400 });
  assert.equal(toRefusal(left, request).code, 'invalid_request');
});
