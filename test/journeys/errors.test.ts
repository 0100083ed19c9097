/**
 * Whatever goes wrong, a caller gets one kind of answer and nothing of ours leaks.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { before, suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { answers, type ErrorCode, Refusal } from '../../src/platform/errors/errors.ts';
import { apiKey, type RunningApi, secondApiKey, startApi } from '../support/api/start-api.ts';
import { onEachEngine } from '../support/databases.ts';

/** Routes that fail in every way there is. */
const failing = (app: RunningApi['app']) => {
  app.get('/fail/bug', () => {
    throw new Error('secret of the house');
  });
  app.get('/fail/async', async () => {
    throw new TypeError('secret of the house');
  });
  app.get('/fail/full', () => {
    throw Object.assign(new Error('database or disk is full'), { errcode: 13 });
  });
  app.get('/fail/later', () => {
    throw new Refusal('unavailable', 'come back later', { retryAfter: 7.2 });
  });
  app.get<{ Params: { code: ErrorCode } }>('/fail/with/:code', ({ params }) => {
    throw new Refusal(params.code, `this is ${params.code}`);
  });
};

onEachEngine('errors', (engine) => {
  let api: RunningApi;
  before(async () => {
    api = await startApi(engine, { routes: [failing] });
  });

  test('every code has its status and the members of RFC 9457', async () => {
    for (const [code, { http, title }] of Object.entries(answers)) {
      const answer = await api.call('GET', `/fail/with/${code}`);
      assert.equal(answer.status, http, code);
      assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
      assert.deepEqual(answer.body, {
        type: `/docs/reference/errors#${code}`,
        title,
        status: http,
        detail: `this is ${code}`,
        code,
        request_id: answer.headers.get('x-request-id'),
      });
      assert.equal(answer.headers.has('www-authenticate'), http === 401);
      assert.equal(answer.headers.has('retry-after'), http === 503);
    }
    const later = await api.call('GET', '/fail/later');
    assert.equal(later.headers.get('retry-after'), '8');
  });

  test('the problem type is sent to clients that accept it', async () => {
    const typeFor = async (accept: string) =>
      (await api.call('GET', '/nowhere', undefined, { accept })).headers.get('content-type');
    const problem = 'application/problem+json; charset=utf-8';
    assert.equal(await typeFor('application/problem+json'), problem);
    assert.equal(await typeFor('text/plain, Application/Problem+JSON;q=0.5'), problem);
    const json = 'application/json; charset=utf-8';
    assert.equal(await typeFor('*/*'), json);
    assert.equal(await typeFor('application/problem+json;q=0, application/json'), json);
    assert.equal(await typeFor('application/json'), json);
  });

  test('a bug is a 500 without details, and its log line has the request id', async () => {
    for (const path of ['/fail/bug', '/fail/async']) {
      const answer = await api.call('GET', path);
      assert.equal(answer.status, 500);
      assert.equal(answer.body.code, 'internal');
      assert.ok(!JSON.stringify(answer.body).includes('secret'));
      const line = api.logLines.find(
        (logged) => logged.msg === 'request failed' && logged.requestId === answer.body.request_id,
      );
      assert.match(JSON.stringify(line?.err), /secret of the house/);
    }
  });

  test('a full disk is a 503 that says when to try again', async () => {
    const answer = await api.call('GET', '/fail/full');
    assert.equal(answer.status, 503);
    assert.equal(answer.body.code, 'storage_full');
    assert.ok(Number(answer.headers.get('retry-after')) > 0);
  });

  test('/v2 needs a key, before anything else is checked', async () => {
    const description = JSON.parse(
      readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'),
    );
    const guarded = Object.entries<object>(description.paths)
      .filter(([path]) => path.startsWith('/v2/'))
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => ({ path, method })))
      // The sign-in has the key in its body.
      .filter(({ path, method }) => `${method} ${path}` !== 'post /v2/operator/console/session');
    assert.ok(guarded.length >= 14);
    for (const { path, method } of guarded) {
      for (const key of [undefined, '', 'wrong', apiKey.slice(0, -1), `${apiKey}x`]) {
        const body = method === 'get' ? undefined : '{ this is not JSON';
        const answer = await api.call(method.toUpperCase(), path.replaceAll(/[{}]/g, ''), body, {
          'x-api-key': key,
        });
        assert.equal(answer.status, 401, `${method} ${path} with ${key}`);
        assert.equal(answer.body.code, 'unauthorized');
        assert.match(answer.headers.get('www-authenticate') ?? '', /^ApiKey /);
      }
    }
    for (const key of [apiKey, secondApiKey]) {
      const answer = await api.call('GET', '/v2/email-accounts?user_id=u', undefined, {
        'x-api-key': key,
      });
      assert.equal(answer.status, 200);
    }
  });

  test('user_id is asked for everywhere under /v2', async () => {
    const calls = [
      ['POST', '/v2/domain', { domain: 'acme.test' }],
      ['GET', '/v2/domains/acme.test/info', undefined],
      ['POST', '/v2/domains/delete', { domain: 'acme.test' }],
      ['PUT', '/v2/domains/acme.test/route', { forward_mode: 'store' }],
      ['GET', '/v2/domains/acme.test/dns', undefined],
      ['POST', '/v2/domains/acme.test/dns/mark', { id: 1, status: 'verified' }],
      ['GET', '/v2/domains/acme.test/email-accounts', undefined],
      ['POST', '/v2/email-accounts/create', { domain: 'acme.test', local_part: 'a' }],
      ['GET', '/v2/email-accounts', undefined],
      ['GET', '/v2/email-accounts/1', undefined],
      ['PUT', '/v2/email-accounts/1', { display_name: 'A' }],
      ['POST', '/v2/email-accounts/delete', { id: 1 }],
      ['POST', '/v2/email-accounts/1/password/reset', {}],
      ['POST', '/v2/email-accounts/1/token', {}],
    ] as const;
    for (const [method, path, body] of calls) {
      const refused = async (answer: ReturnType<typeof api.call>) => {
        const { status, body: problem } = await answer;
        assert.equal(status, 400, `${method} ${path}`);
        assert.deepEqual(
          problem.errors.map((error: { field: string }) => error.field),
          ['user_id'],
        );
      };
      await refused(api.call(method, path, body));
      if (body === undefined) {
        await refused(api.call(method, `${path}?user_id=`));
        await refused(api.call(method, `${path}?user_id=${'x'.repeat(256)}`));
        await refused(api.call(method, `${path}?user_id=a&user_id=b`));
      } else {
        for (const user_id of ['', null, 42, true, ['a'], 'x'.repeat(256)]) {
          await refused(api.call(method, path, { ...body, user_id }));
        }
      }
    }
  });

  test('a body that is not a JSON object is refused', async () => {
    const send = async (body: string | Uint8Array, type?: string, encoding?: string) => {
      const response = await fetch(`${api.url}/v2/domain`, {
        method: 'POST',
        headers: {
          'x-api-key': apiKey,
          ...(type && { 'content-type': type }),
          ...(encoding && { 'content-encoding': encoding }),
        },
        // Bytes, so that fetch adds no content type of its own.
        body: typeof body === 'string' ? new TextEncoder().encode(body) : Uint8Array.from(body),
      });
      // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
      return { status: response.status, body: (await response.json()) as any };
    };
    const good = '{"domain":"a.test","user_id":"u"}';
    const refused: [string | Uint8Array, string | undefined, number][] = [
      ['', undefined, 400],
      ['', 'application/json', 400],
      ['{', 'application/json', 400],
      ['{"domain":"a.test","user_id":"u"} x', 'application/json', 400],
      ['[]', 'application/json', 400],
      ['null', 'application/json', 400],
      ['"text"', 'application/json', 400],
      ['7', 'application/json', 400],
      [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'application/json', 400],
      [`{"domain":"a.test","user_id":"u","__proto__":{"admin":true}}`, 'application/json', 400],
      [`{"domain":"a.test","user_id":"u","constructor":{"prototype":{}}}`, 'application/json', 400],
      ['{"domain":"a.test","user_id":"\\u0000"}', 'application/json', 400],
      ['{"domain":"a.test","user_id":"\\uD800"}', 'application/json', 400],
      ['{"domain":"a.test","user_id":"u","\\udfff":1}', 'application/json', 400],
      [
        Uint8Array.from([...Buffer.from('{"user_id":"'), 0xff, 0x22, 0x7d]),
        'application/json',
        400,
      ],
      [Buffer.from(good, 'utf16le'), 'application/json; charset=utf-16le', 400],
      [good, 'text/plain', 415],
      [good, 'application/x-www-form-urlencoded', 415],
      [good, 'multipart/form-data; boundary=x', 415],
      [good, 'nonsense', 415],
    ];
    for (const [body, type, status] of refused) {
      const answer = await send(body, type);
      const problem = answer.body;
      const what = `${Buffer.from(body).subarray(0, 50)} as ${type}`;
      assert.equal(answer.status, status, what);
      assert.equal(problem.status, status);
      assert.equal(problem.code, status === 415 ? 'unsupported_media_type' : 'invalid_request');
      assert.ok(!problem.detail.includes('FST'), what);
    }
    const packed = await send(good, 'application/json', 'gzip');
    assert.equal(packed.status, 415);
    const withCharset = await send(good, 'application/json; charset=UTF-8');
    assert.equal(withCharset.status, 201);
    // RFC 8259 section 11: JSON has no such parameter, and is UTF-8 whatever it says.
    const withOther = await send(
      good.replace('a.test', 'c.test'),
      'application/json; charset=utf-16',
    );
    assert.equal(withOther.status, 201);
    const literal = await send(
      String.raw`{"domain":"b.test","user_id":"\\u0000 \ud83d\ude00"}`,
      'application/json',
    );
    assert.equal(literal.status, 201, 'text that only looks like NUL, and a whole pair');
  });

  test('a body that is too large is a 413 that arrives', async () => {
    const large = JSON.stringify({ domain: 'x'.repeat(5_000_000), user_id: 'u' });
    const declared = await api.call('POST', '/v2/domain', large);
    assert.equal(declared.status, 413);
    assert.equal(declared.body.code, 'body_too_large');

    const chunked = await fetch(`${api.url}/v2/domain`, {
      method: 'POST',
      headers: { 'x-api-key': apiKey, 'content-type': 'application/json' },
      body: new Blob([large]).stream(),
      duplex: 'half',
    });
    assert.equal(chunked.status, 413);
    assert.match(await chunked.text(), /"body_too_large"/);
  });

  test('without a token little is read: 413 before thousands of wrong items are named', async () => {
    for (const path of ['/mail/sync', '/mail/token']) {
      const wrong = JSON.stringify({ fields: Array.from({ length: 500_000 }, () => 1) });
      const { status, body } = await api.call('POST', path, wrong);
      assert.deepEqual([status, body.code], [413, 'body_too_large'], path);
    }
    for (const path of ['sync', 'token', 'flags', 'mailboxes/rename']) {
      const long = JSON.stringify({ mailbox: 'x'.repeat(40_000) });
      assert.equal((await api.call('POST', `/mail/${path}`, long)).status, 413, path);
    }
    const few = await api.call('POST', '/mail/sync', JSON.stringify({ fields: [1, 2] }));
    assert.equal(few.status, 400);
  });

  test('an unknown path is a 404, a wrong method a 405 that names the right ones', async () => {
    for (const path of [
      '/nowhere',
      '/v2',
      '/v2/nothing',
      '/v2/email-accounts/1/2/3',
      '/docs/nothing',
    ]) {
      const answer = await api.call('GET', path);
      assert.equal(answer.status, 404, path);
      assert.equal(answer.body.code, 'route_not_found');
    }
    const posted = await api.call('POST', '/nowhere', '{ not JSON');
    assert.equal(posted.status, 404, 'before the body is read');

    const methods: [string, string, string][] = [
      ['GET', '/v2/domain', 'POST'],
      ['DELETE', '/v2/email-accounts/1', 'GET, HEAD, PUT'],
      ['POST', '/healthz', 'GET, HEAD'],
      ['PUT', '/', 'GET, HEAD'],
      ['POST', '/docs/index.html', 'GET, HEAD'],
      ['PATCH', '/mail/sync', 'POST'],
      ['OPTIONS', '/mail/sync', 'POST'],
    ];
    for (const [method, path, allow] of methods) {
      const answer = await api.call(method, path);
      assert.equal(answer.status, 405, `${method} ${path}`);
      assert.equal(answer.body.code, 'method_not_allowed');
      assert.equal(answer.headers.get('allow'), allow);
    }
  });

  test('URLs that cannot be decoded are refused', async () => {
    for (const path of ['/v2/%', '/v2/domains/%ff/info?user_id=u', '/docs/%zz']) {
      const answer = await api.call('GET', path);
      assert.equal(answer.status, 400, path);
      assert.equal(answer.body.code, 'invalid_request');
      assert.equal(answer.headers.get('x-request-id'), answer.body.request_id);
    }
    for (const path of [
      '/v2/email-accounts?user_id=%00',
      '/v2/domains/a%00b/info?user_id=u',
      '/v2/email-accounts?user_id=%ff',
      '/v2/email-accounts?user_id=%ED%A0%80',
      '/v2/email-accounts?user_id=100%',
    ]) {
      const answer = await api.call('GET', path);
      assert.equal(answer.status, 400, path);
      assert.equal(answer.body.code, 'invalid_request');
    }
    const strange = await api.call('GET', `/v2/email-accounts?user_id=${encodeURIComponent('%☃')}`);
    assert.equal(strange.status, 200);
  });

  test('the database never gets text that it cannot store', async () => {
    const hostile = ["'; drop table accounts; --", '\u{10ffff}', '%', '_', '\\', '\u202e', '\r\n'];
    for (const text of hostile) {
      const query = new URLSearchParams({ user_id: text });
      assert.equal((await api.call('GET', `/v2/email-accounts?${query}`)).status, 200, text);
      const domain = encodeURIComponent(text);
      const answer = await api.call('GET', `/v2/domains/${domain}/info?${query}`);
      assert.equal(answer.status, 404, text);
    }
  });

  test('no body causes an internal error', async () => {
    const known = fc.constantFrom(
      'domain',
      'user_id',
      'id',
      'status',
      'forward_mode',
      'limit',
      'x',
    );
    const value = fc.oneof(
      fc.jsonValue(),
      fc.constantFrom('acme.test', 'store', 'verified', '\ud800', '\0', 2 ** 64, -1, 1e300),
    );
    const body = fc.oneof(fc.jsonValue(), fc.dictionary(known, value));
    const route = fc.constantFrom(
      ['POST', '/v2/domain'],
      ['POST', '/v2/domains/delete'],
      ['PUT', '/v2/domains/acme.test/route'],
      ['POST', '/v2/domains/acme.test/dns/mark'],
      ['POST', '/v2/email-accounts/create'],
      ['POST', '/v2/email-accounts/delete'],
      ['PUT', '/v2/email-accounts/1'],
      ['POST', '/mail/token'],
      ['POST', '/mail/sync'],
    );
    await fc.assert(
      fc.asyncProperty(route, body, async ([method = '', path = ''], sent) => {
        const answer = await api.call(method, path, JSON.stringify(sent));
        assert.ok(answer.status < 500, `${answer.status} ${JSON.stringify(answer.body)}`);
        if (answer.status >= 400) assert.equal(answer.body.status, answer.status);
      }),
      { numRuns: 150 },
    );
  });

  test('no query causes an internal error', async () => {
    const route = fc.constantFrom(
      '/v2/domains/acme.test/info',
      '/v2/domains/acme.test/email-accounts',
      '/v2/email-accounts',
      '/v2/email-accounts/1',
    );
    const text = fc.string({ unit: 'grapheme', maxLength: 20 });
    const query = fc.dictionary(fc.constantFrom('user_id', 'limit', 'offset', 'domain'), text);
    await fc.assert(
      fc.asyncProperty(route, query, async (path, fields) => {
        const answer = await api.call('GET', `${path}?${new URLSearchParams(fields)}`);
        assert.ok(answer.status < 500, `${answer.status} ${JSON.stringify(answer.body)}`);
      }),
      { numRuns: 150 },
    );
  });
});

suite('errors below the routes', () => {
  let api: RunningApi;
  before(async () => {
    api = await startApi('sqlite');
  });

  /** Sends bytes and resolves with all that comes back until the server closes. */
  const exchange = (bytes: string): Promise<string> =>
    new Promise((resolve, reject) => {
      let received = '';
      const socket = connect(api.port, '127.0.0.1', () => socket.write(bytes, 'latin1'));
      socket.setEncoding('latin1');
      socket.on('data', (text) => {
        received += text;
      });
      socket.on('error', reject);
      socket.on('close', () => resolve(received));
    });

  const problemIn = (received: string) => {
    const [head = '', body = ''] = received.split('\r\n\r\n');
    return {
      statusLine: head.split('\r\n')[0],
      head: head.toLowerCase(),
      problem: JSON.parse(body),
    };
  };

  test('bytes that are not HTTP get the same body', async () => {
    const broken: [string, number][] = [
      ['EHLO example.com\r\n\r\n', 400],
      ['GET / HTTP/9.9\r\n\r\n', 400],
      ['GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400],
      ['GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n', 400],
      ['GET / HTTP/1.1\r\nHost: a\r\nX-Nul: \0\r\n\r\n', 400],
      ['GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nHost: a\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ];
    for (const [bytes, status] of broken) {
      const { statusLine, head, problem } = problemIn(await exchange(bytes));
      const what = JSON.stringify(bytes.slice(0, 60));
      assert.match(statusLine ?? '', new RegExp(`^HTTP/1.1 ${status} `), what);
      assert.match(head, /content-type: application\/json/);
      assert.equal(problem.status, status, what);
      assert.equal(problem.code, 'invalid_request');
      assert.match(head, new RegExp(`x-request-id: ${problem.request_id}`));
    }
  });

  test('a request without Host is refused with the same body', async () => {
    const { statusLine, problem } = problemIn(
      await exchange('GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n'),
    );
    assert.equal(statusLine, 'HTTP/1.1 400 Bad Request');
    assert.equal(problem.code, 'invalid_request');
    const old = await exchange('GET /healthz HTTP/1.0\r\n\r\n');
    assert.match(old, /^HTTP\/1.1 200 /, 'HTTP/1.0 has no Host');
  });

  test("a caller's request id is used where it is harmless", async () => {
    const idFor = async (given: string) => {
      const answer = await api.call('GET', '/nowhere', undefined, { 'x-request-id': given });
      assert.equal(answer.headers.get('x-request-id'), answer.body.request_id);
      return answer.body.request_id;
    };
    assert.equal(await idFor('trace-1.2:3_A'), 'trace-1.2:3_A');
    for (const harmful of ['', 'a b', '<script>', 'x'.repeat(65), '{"a":1}', 'é']) {
      assert.match(await idFor(harmful), /^[0-9a-f-]{36}$/, harmful);
    }
  });

  test('the log has a line for each request that failed, and no secret', async () => {
    const before = api.logLines.length;
    await api.call('GET', '/v2/email-accounts/77?user_id=private-user', undefined, {
      authorization: 'Bearer private-token',
      'x-request-id': 'logged-1',
    });
    await api.call('POST', '/mail/token', { address: 'a@b.test', password: 'private-word' });
    await api.call('GET', '/healthz');
    await api.call('GET', '/nowhere?key=private-query');
    await api.call('GET', '/v2/%?key=private-query');
    // A line is written once the answer is out, which its reader may see first.
    const requestsSince = () => api.logLines.slice(before).filter((line) => line.msg === 'request');
    while (requestsSince().length < 4) await setImmediate();
    const lines = api.logLines.slice(before);
    assert.ok(!JSON.stringify(lines).includes('private'));
    assert.ok(!JSON.stringify(lines).includes(apiKey));
    const requests = requestsSince();
    assert.deepEqual(
      requests.map(({ method, path, status }) => [method, path, status]),
      [
        ['GET', '/v2/email-accounts/:id', 404],
        ['POST', '/mail/token', 401],
        ['GET', '/nowhere', 404],
        ['GET', '/v2/%', 400],
      ],
    );
    for (const line of requests) {
      assert.equal(line.ip, '127.0.0.1');
      assert.equal(typeof line.ms, 'number');
    }
    assert.equal(requests[0]?.requestId, 'logged-1');
  });

  test('answers are not kept by caches nor guessed by browsers', async () => {
    for (const path of ['/healthz', '/nowhere', '/v2/email-accounts?user_id=u', '/v2/%']) {
      const { headers } = await api.call('GET', path);
      assert.equal(headers.get('cache-control'), 'no-store', path);
      assert.equal(headers.get('x-content-type-options'), 'nosniff', path);
    }
  });
});
