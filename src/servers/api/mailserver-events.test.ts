import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { type ClientRequest, request } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import { atEnd } from '../../../test/support/at-end.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';
import { type Change, InProcessChanges } from '../../mailboxes/changes/changes.ts';
import { MailserverEvents } from '../../mailboxes/event-hook/event-hook.ts';
import type { Engine } from '../../platform/database/database.ts';
import { limitInMemory } from '../../platform/net/net.ts';
import { findAccounts } from '../../tenants/accounts/account-rows.ts';
import { BatchBodies } from './batch-bodies.ts';
import { createServer } from './http-server.ts';
import { mailserverEventRoutes } from './mailserver-events.ts';

const SECRET = 'the secret of the mail server';
const MIB = 1_048_576;

const sign = (body: string | Buffer) => createHmac('sha256', SECRET).update(body).digest('hex');

const eventLine = (event_id: string, user = 'ann@d1.test') =>
  JSON.stringify({
    event_id,
    user,
    event_type: 'MailboxesChanged',
    mailbox: 'INBOX',
    uidvalidity: '7',
    highestmodseq: '42',
  });

async function start(engine: Engine, rateLimitPerMinute = 0) {
  const { database, makeUser } = await openTestMailstore(engine);
  const { accountId } = await makeUser();
  const changes = new InProcessChanges();
  const told: Change[] = [];
  changes.subscribe(accountId, (change) => told.push(change));
  const logger = pino({ level: 'silent' });
  const { app, limits } = createServer({
    logger,
    rateLimitPerMinute,
    openLimit: limitInMemory,
    trustProxy: [],
    connections: { perClient: 250, inAll: 10_000 },
    corsOrigins: [],
    maxBody: 1_000,
    notFoundPage: () => false,
  });
  const events = new MailserverEvents({
    secrets: [SECRET],
    database,
    changes,
    findAccounts: (addresses) => findAccounts(database, addresses),
  });
  const group = mailserverEventRoutes(events);
  app.register(async (scope) => {
    group(scope, { limits, authenticateMail: () => Promise.reject(new Error('not here')) });
  });
  app.get('/elsewhere', () => ({}));
  await app.listen({ host: '127.0.0.1', port: 0 });
  atEnd(() => app.close());
  return { url: app.listeningOrigin, told };
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

async function post(
  url: string,
  body: string | Buffer | undefined,
  headers: Record<string, string>,
): Promise<Answer> {
  const response = await fetch(`${url}/hooks/mailserver`, {
    method: 'POST',
    headers,
    ...(body !== undefined && { body: new Uint8Array(Buffer.from(body)) }),
  });
  return {
    status: response.status,
    headers: response.headers,
    body: JSON.parse(await response.text()),
  };
}

onEachEngine('POST /hooks/mailserver', (engine) => {
  test('accepts a signed batch of any content type', async () => {
    const { url, told } = await start(engine);
    const batch = `${eventLine('a')}\r\n\r\n${eventLine('ü')}\n`;
    for (const type of [
      'application/x-ndjson',
      'application/json',
      'text/plain; charset=utf-8',
      'application/octet-stream',
      'x-mail/events',
      undefined,
    ]) {
      const answer = await post(url, batch, {
        'x-mailserver-signature': sign(batch),
        ...(type !== undefined && { 'content-type': type }),
      });
      assert.deepEqual(
        [answer.status, answer.body],
        [200, { ok: true, accepted: 2 }],
        String(type),
      );
    }
    assert.equal(told.length, 2);
  });

  test('returns the lines that were not accepted', async () => {
    const { url, told } = await start(engine);
    const batch = `${eventLine('a')}\n{"event_id":"b"}\n${eventLine('c', 'bob@d1.test')}\nx`;
    const { status, body } = await post(url, batch, { 'x-mailserver-signature': sign(batch) });
    assert.equal(status, 200);
    assert.deepEqual(body, {
      ok: true,
      accepted: 1,
      rejected: [
        {
          line: 2,
          event_id: 'b',
          reason: 'user must be a string of 1 to 320 characters, none a control character',
        },
        { line: 3, event_id: 'c', reason: 'user is not the address of an account' },
        { line: 4, reason: 'is not JSON' },
      ],
    });
    assert.equal(told.length, 1);
  });

  test('refuses unsigned batches before they are parsed', async () => {
    const { url, told } = await start(engine);
    const batch = eventLine('a');
    const signature = sign(batch);
    for (const [title, headers, body] of [
      ['no signature', {}, batch],
      ['a signature that is none', { 'x-mailserver-signature': 'abc' }, batch],
      ['a prefix', { 'x-mailserver-signature': `sha256=${signature}` }, batch],
      ['another body', { 'x-mailserver-signature': signature }, `${batch}\n`],
      ['another body that is no event', { 'x-mailserver-signature': signature }, 'x'],
      ['no body', { 'x-mailserver-signature': signature }, undefined],
      ['an API key instead', { 'x-api-key': 'test-key-1' }, batch],
    ] as const) {
      const answer = await post(url, body, headers);
      assert.equal(answer.status, 401, title);
      assert.equal(answer.body.code, 'unauthorized', title);
      assert.match(answer.headers.get('www-authenticate') ?? '', /x-mailserver-signature/);
      const isMissing = !('x-mailserver-signature' in headers);
      assert.match(String(answer.body.detail), isMissing ? /is missing/ : /is not the hex/, title);
    }
    assert.equal(told.length, 0);
  });

  test('refuses a batch without an event', async () => {
    const { url } = await start(engine);
    for (const body of ['', '\n\n', undefined, 'x\n[]']) {
      const signature = sign(body ?? '');
      const answer = await post(url, body, { 'x-mailserver-signature': signature });
      assert.equal(answer.status, 400);
      assert.equal(answer.body.code, 'invalid_request');
      if (body === 'x\n[]') {
        assert.deepEqual(answer.body.errors, [
          { field: 'line 1', message: 'is not JSON' },
          { field: 'line 2', message: 'is not a JSON object' },
        ]);
      }
    }
  });

  test('accepts 16 MiB and not a byte more', async () => {
    const { url, told } = await start(engine);
    const full = Buffer.concat([Buffer.from(`${eventLine('a')}\n`), Buffer.alloc(16 * MIB, 'x')]);
    const most = full.subarray(0, 16 * MIB);
    const taken = await post(url, most, { 'x-mailserver-signature': sign(most) });
    assert.deepEqual(taken.body, {
      ok: true,
      accepted: 1,
      rejected: [{ line: 2, reason: 'is longer than 65536 bytes' }],
    });
    const more = full.subarray(0, 16 * MIB + 1);
    const refused = await postChunks(url, more, sign(more), { 'content-length': more.length });
    assert.deepEqual([refused.status, refused.code], [413, 'body_too_large']);
    // With a length that is not announced.
    const chunked = await postChunks(url, more, sign(more), {});
    assert.deepEqual([chunked.status, chunked.code], [413, 'body_too_large']);
    assert.equal(told.length, 1);
  });
});

suite('the rate limit', () => {
  test('batches with a valid signature have a budget of their own', async () => {
    const { url } = await start('sqlite', 3);
    const batch = eventLine('a');
    const good = () => post(url, batch, { 'x-mailserver-signature': sign(batch) });
    for (let left = 29; left >= 26; left--) {
      const answer = await good();
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get('x-ratelimit-limit'), '30');
      assert.equal(answer.headers.get('x-ratelimit-remaining'), String(left));
    }
    // They have used nothing of the common budget.
    const elsewhere = await fetch(`${url}/elsewhere`);
    assert.equal(elsewhere.headers.get('x-ratelimit-remaining'), '2');
    await elsewhere.text();
    const wrong = await post(url, batch, { 'x-mailserver-signature': sign('x') });
    assert.equal(wrong.status, 401);
    assert.equal(wrong.headers.get('x-ratelimit-remaining'), '1');
    const none = await post(url, batch, {});
    assert.equal(none.headers.get('x-ratelimit-remaining'), '0');
    for (const headers of [{}, { 'x-mailserver-signature': sign('x') }]) {
      const refused = await post(url, batch, headers);
      assert.equal(refused.status, 429);
      assert.equal(refused.body.code, 'rate_limited');
    }
    // The mail server is not limited by what others did at its address.
    for (let left = 25; left >= 0; left--) assert.equal((await good()).status, 200);
    assert.equal((await good()).status, 429);
  });
});

suite('bodies that are being read', () => {
  const limits = { perBody: 100, perClient: 150, strangers: 200, inAll: 450 };
  const finished = (bodies: BatchBodies, client: string, bytes: number) =>
    bodies.read(client, Readable.from([Buffer.alloc(bytes)]));

  /** A body whose first bytes have come; `end` sends the rest. */
  function unfinished(bodies: BatchBodies, client: string, bytes: number) {
    const source = new Readable({ read() {} });
    const before = bodies.held;
    const reading = bodies.read(client, source);
    reading.catch(() => {});
    source.push(Buffer.alloc(bytes));
    const arrived = async () => {
      while (bodies.held === before) await turn();
    };
    return { source, reading, arrived, end: () => source.push(null) };
  }

  test('are limited in size, for each client and for all together', async () => {
    const bodies = new BatchBodies(limits);
    await assert.rejects(finished(bodies, 'a', 101), { code: 'body_too_large' });
    assert.equal(bodies.held, 0);
    const first = await finished(bodies, 'a', 100);
    assert.equal(first.bytes.length, 100);
    await assert.rejects(finished(bodies, 'a', 51), { code: 'unavailable' });
    const held = [first, await finished(bodies, 'b', 100)];
    await assert.rejects(finished(bodies, 'c', 1), { code: 'unavailable' });
    for (const client of ['k', 'l', 'm']) bodies.know(client);
    for (const [client, bytes] of [
      ['k', 100],
      ['l', 100],
      ['m', 50],
    ] as const) {
      held.push(await finished(bodies, client, bytes));
    }
    assert.equal(bodies.held, 450);
    await assert.rejects(finished(bodies, 'm', 1), { code: 'unavailable' });
    for (const body of [...held, first]) body.release();
    assert.equal(bodies.held, 0);
    (await finished(bodies, 'c', 100)).release();
  });

  test('of strangers give way to newer ones, never those of known senders', async () => {
    const bodies = new BatchBodies(limits);
    bodies.know('mail server');
    const known = unfinished(bodies, 'mail server', 90);
    await known.arrived();
    const oldest = unfinished(bodies, 'a', 90);
    await oldest.arrived();
    const newer = unfinished(bodies, 'b', 90);
    await newer.arrived();
    const body = await finished(bodies, 'a new mail server', 90);
    await assert.rejects(oldest.reading, { code: 'unavailable' });
    for (const { end } of [known, newer]) end();
    const others = await Promise.all([known.reading, newer.reading]);
    assert.equal(bodies.held, 270);
    for (const one of [body, ...others]) one.release();
    assert.equal(bodies.held, 0);
  });

  test('do not count after their sender left', async () => {
    const bodies = new BatchBodies(limits);
    const { source, reading, arrived } = unfinished(bodies, 'a', 60);
    await arrived();
    source.destroy(new Error('reset'));
    await assert.rejects(reading, { code: 'invalid_request', message: 'the body ended too early' });
    assert.equal(bodies.held, 0);
  });

  test('a sender that leaves half-way does no harm', async () => {
    const { url, told } = await start('sqlite');
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.write(
      'POST /hooks/mailserver HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n' +
        `x-mailserver-signature: ${sign('x')}\r\n\r\n${eventLine('a')}`,
    );
    await once(socket, 'connect');
    socket.resetAndDestroy();
    const batch = eventLine('b');
    const { body } = await post(url, batch, { 'x-mailserver-signature': sign(batch) });
    assert.deepEqual(body, { ok: true, accepted: 1 });
    assert.equal(told.length, 1);
  });
});

suite('strangers who send unfinished bodies', () => {
  /** Sends all but the last byte of a body of the largest size from an address of this machine. */
  async function hold(url: string, localAddress: string) {
    const posting = request(`${url}/hooks/mailserver`, {
      method: 'POST',
      localAddress,
      headers: { 'x-mailserver-signature': sign('x'), 'content-length': 16 * MIB },
    });
    posting.on('error', () => {});
    const piece = Buffer.alloc(MIB, 'x');
    for (let at = 0; at < 15; at++) posting.write(piece);
    await new Promise<void>((sent) => posting.write(piece.subarray(1), () => sent()));
    return posting;
  }

  test('do not prevent others from sending batches', async () => {
    const { url, told } = await start('sqlite');
    const send = async (event: string) => {
      const batch = eventLine(event);
      const { status } = await post(url, batch, { 'x-mailserver-signature': sign(batch) });
      assert.equal(status, 200);
    };
    // 16 addresses, as many bodies as are ever held at once.
    const held: ClientRequest[] = [];
    for (let n = 2; n < 18; n++) held.push(await hold(url, `127.0.0.${n}`));
    await send('of a sender that was not known');
    for (let n = 18; n < 24; n++) held.push(await hold(url, `127.0.0.${n}`));
    await send('of a known sender');
    for (const posting of held) posting.destroy();
    assert.equal(told.length, 2);
  });
});

/** Posts with node:http, which reads the answer while it is still sending. */
async function postChunks(
  url: string,
  body: Buffer,
  signature: string,
  headers: Record<string, string | number>,
): Promise<{ status: number | undefined; code: unknown }> {
  const posting = request(`${url}/hooks/mailserver`, {
    method: 'POST',
    headers: { 'x-mailserver-signature': signature, ...headers },
  });
  for (let at = 0; at < body.length; at += MIB) posting.write(body.subarray(at, at + MIB));
  posting.end();
  const [response] = await once(posting, 'response');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, code: JSON.parse(text).code };
}
