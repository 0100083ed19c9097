/** When a request is sent again, and what a caller learns where it was not answered. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { mock, test } from 'node:test';
import { freePort } from '../../../test/support/free-port.ts';
import { clientHeaders } from '../src/client-name.ts';
import { ApiError, ConnectionError, Postroom } from '../src/index.ts';

// Waits between attempts are a random part of their limit: none of it.
mock.method(Math, 'random', () => 0);

interface Sent {
  readonly url: string;
  readonly headers: Headers;
}

type Step = Response | Error | ((request: RequestInit) => Promise<Response>);

/** A client whose requests meet these answers, one after the other. */
function meet(...steps: Step[]) {
  const sent: Sent[] = [];
  const send: typeof fetch = async (url, init = {}) => {
    sent.push({ url: String(url), headers: new Headers(init.headers) });
    const step = steps.shift();
    assert.ok(step, `a request too many: ${String(url)}`);
    if (step instanceof Error) throw step;
    return typeof step === 'function' ? step(init) : step;
  };
  const options = { baseUrl: 'https://mail.test/', apiKey: 'key', app: 'crm/2', fetch: send };
  return { postroom: new Postroom(options), sent };
}

const json = (status: number, body: object, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers });
const problem = (status: number, code: string, headers: Record<string, string> = {}) =>
  json(status, { status, code, detail: `it is ${code}`, request_id: 'r-1' }, headers);
const lost = () => new TypeError('fetch failed', { cause: new Error('other side closed') });
const refused = () =>
  new TypeError('fetch failed', {
    cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }),
  });
const claim = { domain: 'acme.test' };
const claimed = () => json(201, { message: 'Domain created', domain: {} });

/** What goes on by itself has gone on. */
const settle = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
};

test('says who it is, and sends the key', async () => {
  const { postroom, sent } = meet(json(200, { items: [], limit: 50, offset: 0 }));
  await postroom.user('u 1').domains.list({ limit: 5 });
  assert.equal(sent[0]?.url, 'https://mail.test/v2/domains?limit=5&user_id=u+1');
  assert.equal(sent[0]?.headers.get('x-api-key'), 'key');
  const { version } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  ) as { version: string };
  const name = `crm/2 postroom-sdk/${version}`;
  const node = process.versions.node;
  assert.equal(sent[0]?.headers.get('user-agent'), `${name} node/${node}`);
  // A browser has no process, and keeps User-Agent to itself.
  const versions = mock.property(process, 'versions', {} as NodeJS.ProcessVersions);
  assert.deepEqual(clientHeaders('crm/2'), { 'x-postroom-client': name });
  versions.mock.restore();
});

test('a create whose answer was lost is sent again with the same key', async () => {
  const { postroom, sent } = meet(lost(), problem(500, 'internal'), claimed());
  const { message } = await postroom.user('u').domains.create(claim);
  assert.equal(message, 'Domain created');
  const keys = sent.map(({ headers }) => headers.get('idempotency-key'));
  assert.equal(new Set(keys).size, 1);
  assert.match(keys[0] ?? '', /^[\da-f-]{36}$/);
});

test('two creates have two keys, and one may be given', async () => {
  const { postroom, sent } = meet(claimed(), claimed(), claimed());
  const { domains } = postroom.user('u');
  await domains.create(claim);
  await domains.create(claim);
  await domains.create(claim, { idempotencyKey: 'order-7' });
  const keys = sent.map(({ headers }) => headers.get('idempotency-key'));
  assert.equal(new Set(keys).size, 3);
  assert.equal(keys[2], 'order-7');
});

test('a create whose first attempt is still under way waits for it', async () => {
  const inUse = problem(409, 'idempotency_key_in_use', { 'retry-after': '0' });
  const { postroom } = meet(lost(), inUse, claimed());
  await postroom.user('u').domains.create(claim);
});

test('what would be done twice is not sent again after an error that says nothing', async () => {
  const body = { name: 'crm', scope: 'operator' } as const;
  const unknown = meet(lost());
  await assert.rejects(
    unknown.postroom.call('createKey', { body }),
    (error) => error instanceof ConnectionError && error.mayHaveHappened && error.attempts === 1,
  );
  const failed = meet(problem(500, 'internal'));
  await assert.rejects(failed.postroom.call('createKey', { body }), ApiError);
});

test('but it is where the server did nothing: no connection, 429, 503', async () => {
  const made = json(201, { key: {}, api_key: 'x' });
  const { postroom, sent } = meet(
    refused(),
    problem(503, 'unavailable', { 'retry-after': '0' }),
    made,
  );
  await postroom.call('createKey', { body: { name: 'crm', scope: 'operator' } });
  assert.equal(sent.length, 3);
});

test('a server that cannot be reached: nothing has happened', async () => {
  const { postroom } = meet(refused(), refused(), refused());
  await assert.rejects(
    postroom.user('u').domains.create(claim),
    (error) => error instanceof ConnectionError && !error.mayHaveHappened && error.attempts === 3,
  );
});

test('a refusal says what, where and in which request', async () => {
  const errors = [{ field: 'domain', message: 'is required' }];
  const { postroom } = meet(
    json(400, { code: 'invalid_request', detail: 'domain is required', errors, request_id: 'r-9' }),
  );
  await assert.rejects(postroom.user('u').domains.create(claim), (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.message, '400 invalid_request: domain is required');
    assert.deepEqual([error.status, error.code, error.errors], [400, 'invalid_request', errors]);
    assert.deepEqual([error.requestId, error.attempts], ['r-9', 1]);
    return true;
  });
});

test('a pause longer than a minute is left to the caller', async () => {
  const { postroom } = meet(problem(429, 'rate_limited', { 'retry-after': '61' }));
  await assert.rejects(
    postroom.user('u').domains.get('acme.test'),
    (error) => error instanceof ApiError && error.retryAfter === 61,
  );
});

test('the page of a proxy is an error with its status, also with 200', async () => {
  const page = (status: number) => new Response('<h1>Bad Gateway</h1>', { status });
  const { postroom } = meet(page(502), page(502), page(502), page(200), page(301));
  for (const status of [502, 200, 301]) {
    await assert.rejects(
      postroom.user('u').domains.get('acme.test'),
      (error) =>
        error instanceof ApiError && error.code === 'unreadable' && error.status === status,
    );
  }
});

test('an abort ends the call with its reason, in an attempt and between two', async () => {
  const reason = new Error('the user left');
  const waits = (controller: AbortController) => (request: RequestInit) =>
    new Promise<Response>((_, reject) => {
      request.signal?.addEventListener('abort', () => reject(request.signal?.reason));
      controller.abort(reason);
    });
  const during = new AbortController();
  const first = meet(waits(during));
  const get = { signal: during.signal };
  await assert.rejects(first.postroom.user('u').domains.get('a.test', get), reason);
  const between = new AbortController();
  const busy = problem(503, 'unavailable', { 'retry-after': '50' });
  const second = meet(busy);
  const call = second.postroom.user('u').domains.get('a.test', { signal: between.signal });
  setImmediate(() => between.abort(reason));
  await assert.rejects(call, reason);
});

test('an attempt without an answer ends after its time', async () => {
  const server = createServer(() => undefined);
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  try {
    const postroom = new Postroom({
      baseUrl: `http://127.0.0.1:${port}`,
      apiKey: 'k',
      maxRetries: 0,
    });
    await assert.rejects(
      postroom.user('u').domains.create(claim, { timeoutMs: 50 }),
      (error) => error instanceof ConnectionError && error.mayHaveHappened,
    );
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

/** An answer of which the test writes the parts; it breaks where the client gives up. */
function slowAnswer() {
  let parts: ReadableStreamDefaultController<Uint8Array> | undefined;
  const step = async ({ signal }: RequestInit) => {
    signal?.throwIfAborted();
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        parts = controller;
        signal?.addEventListener('abort', () => controller.error(signal.reason));
      },
    });
    return new Response(body);
  };
  const write = (text: string) => parts?.enqueue(new TextEncoder().encode(text));
  return { step, write, end: () => parts?.close() };
}

test('an answer may take as long as it goes on coming, and no part of it longer than 30 s', async ({
  mock: { timers },
}) => {
  timers.enable({ apis: ['setTimeout'] });
  for (const isWhole of [true, false]) {
    const answer = slowAnswer();
    const { postroom } = meet(answer.step);
    const call = postroom.call('createKey', { body: { name: 'crm', scope: 'operator' } });
    for (const text of ['{"api_', 'key":', '"k"']) {
      await settle();
      answer.write(text);
      await settle();
      timers.tick(20_000);
    }
    answer.write('}');
    await settle();
    if (isWhole) answer.end();
    else timers.tick(30_000);
    if (isWhole) assert.equal((await call).api_key, 'k');
    else await assert.rejects(call, ConnectionError);
  }
});

test('an answer that is read as it comes may pause for as long as it wants', async ({
  mock: { timers },
}) => {
  timers.enable({ apis: ['setTimeout'] });
  let more = (_: string) => {};
  let signal: AbortSignal | null | undefined;
  const stream = async (init: RequestInit) => {
    ({ signal } = init);
    const start = (parts: ReadableStreamDefaultController<Uint8Array>) => {
      more = (text) => parts.enqueue(Buffer.from(text));
    };
    return new Response(new ReadableStream({ start }));
  };
  const { body } = await meet(stream).postroom.open('listEvents', { query: { user_id: 'u' } });
  const reader = body?.getReader();
  for (const text of ['a', 'b']) {
    more(text);
    const part = await reader?.read();
    assert.equal(Buffer.from(part?.value ?? []).toString(), text);
    timers.tick(120_000);
  }
  assert.equal(signal?.aborted, false);
});

test('files have the time that a slow network needs for them', async ({ mock: { timers } }) => {
  timers.enable({ apis: ['setTimeout'] });
  const { step, end } = slowAnswer();
  const late: Step = (request) =>
    new Promise((resolve) => {
      setTimeout(() => resolve(step(request)), 100_000);
    });
  const { postroom } = meet(late);
  const text = 'x'.repeat(16 * 1024 * 1024);
  const call = postroom.call('createKey', { body: { name: text, scope: 'operator' } });
  const failed = assert.rejects(call, ApiError);
  await settle();
  timers.tick(100_000);
  await settle();
  end();
  await failed;
});

test('the response is there for those who ask', async () => {
  const { postroom } = meet(json(200, { domain: {} }, { 'x-ratelimit-remaining': '7' }));
  const { data, response } = await postroom.user('u').domains.get('a.test').withResponse();
  assert.deepEqual(data, { domain: {} });
  assert.equal(response.headers.get('x-ratelimit-remaining'), '7');
});

test('a name cannot lead to another path', () => {
  const { postroom } = meet();
  for (const name of ['..', '.', '']) {
    assert.throws(() => postroom.user('u').domains.get(name), TypeError);
  }
});

test('a path with a slash stays one name', async () => {
  const { postroom, sent } = meet(json(200, {}));
  await postroom.user('u').domains.get('a/../b');
  assert.match(sent[0]?.url ?? '', /\/v2\/domains\/a%2F\.\.%2Fb\/info\?/);
});

test('an address or a key that is missing is said at once', () => {
  assert.throws(() => new Postroom({ apiKey: 'k' }), /baseUrl is missing/);
  assert.throws(() => new Postroom({ baseUrl: 'https://mail.test' }), /apiKey is missing/);
  assert.throws(() => new Postroom({ baseUrl: 'mail.test', apiKey: 'k' }), /must begin with/);
});

test('what plain JavaScript leaves out or names wrongly is told by its name', async () => {
  const { postroom } = meet();
  const client = postroom as unknown as Record<'call' | 'list', (...given: string[]) => unknown>;
  assert.throws(() => client.call('getDomains'), /^TypeError: there is no operation getDomains$/);
  assert.throws(() => client.call('getDomain'), /^TypeError: domain must be given/);
  const list = client.list('listDomains') as { toArray(): Promise<unknown> };
  await assert.rejects(list.toArray(), /^TypeError: max must be given/);
  const wait = postroom.user('u').domains.waitUntilActive as (...given: string[]) => unknown;
  await assert.rejects(
    async () => wait.call(postroom.user('u').domains, ''),
    /domain must be given/,
  );
});
