/** What a reader of events gets over connections that break, servers that refuse, and streams that fall silent. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, mock, test } from 'node:test';
import type { Event } from '../src/api-types.ts';
import { ApiError, type EventType, Postroom, type UserEvent } from '../src/index.ts';

// Waits between attempts are a random part of their limit: none of it.
mock.method(Math, 'random', () => 0);

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const ends: (() => void)[] = [];
after(() => {
  for (const end of ends) end();
});

/** A server that answers one request after the other, and a user there. */
async function serve(...answers: Answer[]) {
  const asked: URLSearchParams[] = [];
  const server = createServer((request, response) => {
    asked.push(new URL(request.url ?? '', 'http://x').searchParams);
    const answer = answers.shift();
    assert.ok(answer, 'a request too many');
    answer(response, request);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  ends.push(() => server.close().closeAllConnections());
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { user: new Postroom({ baseUrl, apiKey: 'key' }).user('u'), asked };
}

const event = (n: number, type = 'domain.deleted', name = `n${n}.test`) => {
  const told = { cursor: `c${n}`, type, timestamp: '2026-01-31T12:00:00.000Z' };
  return { ...told, data: { domain: name } };
};
const block = (n: number, name?: string) =>
  `id: c${n}\nevent: domain.deleted\ndata: ${JSON.stringify(event(n, undefined, name))}\n\n`;
const begin = (response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });
const problem =
  (status: number, code: string, more: object = {}, headers: Record<string, string> = {}): Answer =>
  (response) =>
    response.writeHead(status, headers).end(JSON.stringify({ status, code, ...more }));

/** The cursors of the next events. */
async function take(events: AsyncGenerator<UserEvent>, count: number) {
  const cursors: (string | undefined)[] = [];
  for await (const { cursor } of events) {
    cursors.push(cursor);
    if (cursors.length === count) break;
  }
  return cursors;
}

test('goes on after the last whole event where the connection is cut in the middle of one', async () => {
  const { user, asked } = await serve(
    (response) => {
      const next = block(2);
      begin(response).write(`retry: 1000\nid: c0\n\n${block(1)}${next.slice(0, next.length / 2)}`);
      setImmediate(() => response.destroy());
    },
    (response) => void begin(response).write(`id: c1\n\n${block(2)}:\n\n${block(3)}`),
  );
  const types = ['domain.deleted', 'domain.active'] as const;
  assert.deepEqual(await take(user.events({ types }), 3), ['c1', 'c2', 'c3']);
  assert.deepEqual(
    asked.map((query) => Object.fromEntries(query)),
    [
      { user_id: 'u', types: 'domain.deleted,domain.active' },
      { user_id: 'u', types: 'domain.deleted,domain.active', after: 'c1' },
    ],
  );
});

test('misses nothing before its first event: it goes on from where the stream began', async () => {
  const { user, asked } = await serve(
    (response) => begin(response).end('retry: 1000\nid: c7\n\n'),
    (response) => void begin(response).write(block(8)),
  );
  assert.deepEqual(await take(user.events(), 1), ['c8']);
  assert.deepEqual([asked[0]?.get('after'), asked[1]?.get('after')], [null, 'c7']);
});

test('reads an event whose subject has a line separator, which is no end of a line here', async () => {
  const name = 'one\u2028id: c9\u2028two';
  const { user } = await serve((response) => void begin(response).write(block(1, name) + block(2)));
  const names: unknown[] = [];
  for await (const { cursor, data } of user.events({ types: ['domain.deleted'] })) {
    names.push([cursor, data.domain]);
    if (names.length === 2) break;
  }
  assert.deepEqual(names, [
    ['c1', name],
    ['c2', 'n2.test'],
  ]);
});

test('goes on after refusals that pass, and connections that are never made', async () => {
  const { user, asked } = await serve(
    problem(429, 'too_many_connections', {}, { 'retry-after': '0' }),
    problem(503, 'unavailable'),
    (response) => response.writeHead(502).end('<html>Bad Gateway</html>'),
    (response) => response.destroy(),
    (response) => void begin(response).write(block(1)),
  );
  assert.deepEqual(await take(user.events({ after: 'c0' }), 1), ['c1']);
  assert.deepEqual(
    asked.map((query) => query.get('after')),
    ['c0', 'c0', 'c0', 'c0', 'c0'],
  );
});

test('waits as long as the server asks for', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    let requests = 0;
    const send: typeof fetch = async () => {
      if (++requests === 1)
        return new Response('{}', { status: 429, headers: { 'retry-after': '90' } });
      return new Response(block(1));
    };
    const user = new Postroom({ baseUrl: 'http://x', apiKey: 'key', fetch: send }).user('u');
    const next = user.events().next();
    await turns();
    mock.timers.tick(89_999);
    await turns();
    assert.equal(requests, 1);
    mock.timers.tick(1);
    assert.equal((await next).value?.cursor, 'c1');
  } finally {
    mock.timers.reset();
  }
});

test('takes a stream for dead on which nothing comes for 45 seconds', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    let requests = 0;
    const ended: number[] = [];
    const send: typeof fetch = async () => {
      const request = ++requests;
      const text = request === 1 ? 'id: c0\n\n' : block(1);
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode(text)),
        cancel: () => void ended.push(request),
      });
      return new Response(body);
    };
    const user = new Postroom({ baseUrl: 'http://x', apiKey: 'key', fetch: send }).user('u');
    const next = user.events().next();
    await turns();
    mock.timers.tick(44_999);
    await turns();
    assert.deepEqual([requests, ended], [1, []]);
    mock.timers.tick(1);
    await turns();
    mock.timers.tick(1);
    assert.equal((await next).value?.cursor, 'c1');
    assert.deepEqual(ended, [1]);
  } finally {
    mock.timers.reset();
  }
});

/** Lets promises of streams settle. */
async function turns(): Promise<void> {
  for (let n = 0; n < 20; n++) await new Promise((resolve) => setImmediate(resolve));
}

test('throws what does not pass: 410 says from where it can go on', async () => {
  const { user } = await serve(
    problem(410, 'cursor_expired', { oldest: '0', detail: 'too old' }),
    problem(401, 'unauthorized'),
  );
  await assert.rejects(
    take(user.events({ after: 'c1' }), 1),
    (error) => error instanceof ApiError && error.code === 'cursor_expired' && error.oldest === '0',
  );
  await assert.rejects(
    take(user.events(), 1),
    (error) => error instanceof ApiError && error.status === 401 && error.oldest === undefined,
  );
});

test('ends by its signal, and by a break: the connection is closed', async () => {
  const closed: Promise<unknown>[] = [];
  const open: Answer = (response) => {
    closed.push(once(response, 'close'));
    begin(response).write(block(1));
  };
  const { user } = await serve(open, open);
  assert.deepEqual(await take(user.events(), 1), ['c1']);
  await closed[0];
  const stopping = new AbortController();
  const events = user.events({ signal: stopping.signal });
  await events.next();
  const next = events.next();
  stopping.abort(new Error('the program ends'));
  await assert.rejects(next, /the program ends/);
  await closed[1];
  const late = user.events({ signal: stopping.signal }).next();
  await assert.rejects(late, /the program ends/);
});

test('reads what was split in the middle of a character, by a proxy that writes CRLF', async () => {
  const { user } = await serve((response) => {
    const bytes = Buffer.from(`${block(1, 'bücher.test')}${block(2)}`.replaceAll('\n', '\r\n'));
    const at = bytes.indexOf('ü') + 1;
    begin(response).write(bytes.subarray(0, at));
    setTimeout(() => response.write(bytes.subarray(at)), 20);
  });
  const events = user.events({ types: ['domain.deleted'] });
  assert.equal((await events.next()).value?.data.domain, 'bücher.test');
  assert.equal((await events.next()).value?.cursor, 'c2');
  await events.return();
});

test('passes on hints, which move no place', async () => {
  const hint = { type: 'mailbox.changed', timestamp: '', data: { mailbox: 'INBOX', token: '4' } };
  const { user, asked } = await serve(
    (response) =>
      begin(response).end(`${block(1)}event: mailbox.changed\ndata: ${JSON.stringify(hint)}\n\n`),
    (response) => void begin(response).write(block(2)),
  );
  const seen: string[] = [];
  for await (const told of user.events()) {
    // By its type the compiler knows what it tells.
    if (told.type === 'mailbox.changed') seen.push(`${told.data.mailbox} ${told.data.token}`);
    if (told.type === 'domain.deleted') seen.push(told.data.domain, told.cursor);
    if (told.cursor === 'c2') break;
  }
  assert.deepEqual(seen, ['n1.test', 'c1', 'INBOX 4', 'n2.test', 'c2']);
  assert.equal(asked[1]?.get('after'), 'c1');
});

test('has a type for each that the API describes', () => {
  // Compiled, not run: each list has all that the other has.
  type Missing = Exclude<Event['type'], EventType>;
  type TooMany = Exclude<EventType, Event['type'] | 'mailbox.changed'>;
  const none: [Missing] extends [never] ? ([TooMany] extends [never] ? true : false) : false = true;
  assert.ok(none);
});
