/** What an app hears, and how the mail server makes it hear. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { before, test } from 'node:test';
import { SignJWT } from 'jose';
import { WebSocket } from 'ws';
import { onEachEngine } from '../support/databases.ts';
import {
  JWT_SECRET,
  startTestService,
  type TestAccount,
  type TestService,
  WEBHOOK_SECRET,
} from '../support/service.ts';
import { openSocket } from '../support/web-socket.ts';

onEachEngine('realtime', (engine) => {
  let service: TestService;
  let events = 0;
  before(async () => {
    service = await startTestService(engine);
  });

  const eventFor = (account: TestAccount, more: object = {}) => ({
    event_id: `event-${events++}`,
    user: account.address,
    event_type: 'MailboxesChanged',
    mailbox: 'Archive/2026',
    uidvalidity: '1700000000',
    highestmodseq: '9007199254740993',
    ...more,
  });

  async function post(body: string | Buffer, signature?: string) {
    const response = await fetch(`${service.url}/hooks/mailserver`, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-ndjson',
        'x-mailserver-signature':
          signature ?? createHmac('sha256', WEBHOOK_SECRET).update(body).digest('hex'),
      },
      body,
    });
    // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
    return { status: response.status, body: (await response.json()) as any };
  }

  test('an event of the mail server reaches every socket of its account, and no other', async () => {
    const ann = await service.makeAccount();
    const eve = await service.makeAccount('eve');
    const sockets = await Promise.all([
      openSocket(service, ann.token),
      openSocket(service, ann.token),
      openSocket(service, eve.token),
    ]);
    for (const socket of sockets) assert.equal((await socket.next()).type, 'hello');
    const batch = `${JSON.stringify(eventFor(ann))}\r\n\n${JSON.stringify(eventFor(eve, { mailbox: 'INBOX' }))}`;
    assert.deepEqual(await post(batch), { status: 200, body: { ok: true, accepted: 2 } });
    const change = {
      type: 'mailbox_changed',
      mailbox: 'Archive/2026',
      uidvalidity: '1700000000',
      token: '9007199254740993',
      eventType: 'MailboxesChanged',
    };
    assert.deepEqual(await sockets[0]?.next(), change);
    assert.deepEqual(await sockets[1]?.next(), change);
    assert.deepEqual(await sockets[2]?.next(), { ...change, mailbox: 'INBOX' });

    // The same batch again is accepted, but tells nobody: what comes next is a new event.
    assert.deepEqual((await post(batch)).body, { ok: true, accepted: 2 });
    await post(JSON.stringify(eventFor(ann, { mailbox: 'Next' })));
    assert.equal((await sockets[0]?.next())?.mailbox, 'Next');
    for (const socket of sockets) socket.close();
  });

  test('a bad line does not affect the others', async () => {
    const ann = await service.makeAccount();
    const good = JSON.stringify(eventFor(ann));
    const stranger = { ...eventFor(ann), user: 'nobody@nowhere.test' };
    const { status, body } = await post(`${good}\n{broken\n${JSON.stringify(stranger)}\n`);
    assert.equal(status, 200);
    assert.equal(body.accepted, 1);
    assert.deepEqual(
      body.rejected.map(({ line, event_id }: { line: number; event_id?: string }) => [
        line,
        event_id,
      ]),
      [
        [2, undefined],
        [3, stranger.event_id],
      ],
    );
    assert.equal((await post('{broken\n')).status, 400);
    assert.equal((await post('')).status, 400);
  });

  test('without the right signature nothing is read', async () => {
    const ann = await service.makeAccount();
    const batch = JSON.stringify(eventFor(ann));
    const right = createHmac('sha256', WEBHOOK_SECRET).update(batch).digest('hex');
    const wrong = createHmac('sha256', 'another secret').update(batch).digest('hex');
    for (const signature of ['', 'x', wrong, right.slice(2), `${right}00`, `sha256=${right}`]) {
      const answer = await post(batch, signature);
      assert.equal(answer.status, 401, signature);
      assert.equal(answer.body.code, 'unauthorized');
    }
    assert.equal((await post(batch, right)).body.accepted, 1);
  });

  test('a connection without a valid token is refused with a plain 401', async () => {
    const ann = await service.makeAccount();
    const key = new TextEncoder().encode(JWT_SECRET);
    const claims = { sub: ann.address };
    const now = Math.floor(Date.now() / 1000);
    const sign = (payload: object, expires: number) =>
      new SignJWT({ ...payload })
        .setProtectedHeader({ alg: 'HS256' })
        .setIssuedAt(now)
        .setExpirationTime(expires)
        .sign(key);
    const header = Buffer.from('{"alg":"none"}').toString('base64url');
    const body = Buffer.from(JSON.stringify({ ...claims, exp: now + 600 })).toString('base64url');
    const bad = [
      `${header}.${body}.`,
      await sign(claims, now - 3600),
      await sign({}, now + 600),
      await sign({ sub: 'nobody@nowhere.test' }, now + 600),
      (await sign(claims, now + 600)).slice(0, -3),
    ];
    for (const token of bad) {
      const status = await new Promise<number | undefined>((resolve, reject) => {
        const socket = new WebSocket(`${service.url.replace('http', 'ws')}/ws`, {
          headers: { authorization: `Bearer ${token}` },
        });
        socket.once('unexpected-response', (request, response) => {
          resolve(response.statusCode);
          request.destroy();
        });
        socket.once('open', () => reject(new Error('was let in')));
        socket.on('error', () => {});
      });
      assert.equal(status, 401);
    }
    const socket = await openSocket(service, await sign(claims, now + 600));
    assert.equal((await socket.next()).user, ann.address);
    socket.close();
  });

  test('browsers bring the token as a subprotocol, which is not echoed', async () => {
    const ann = await service.makeAccount();
    const socket = new WebSocket(`${service.url.replace('http', 'ws')}/ws`, [
      'postroom',
      `bearer.${ann.token}`,
    ]);
    await new Promise((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', reject);
    });
    assert.equal(socket.protocol, 'postroom');
    socket.close();
  });

  test('suspending, deleting or resetting the password ends the connections', async () => {
    for (const [act, code] of [
      [
        (a: TestAccount) =>
          service.v2('PUT', `/v2/email-accounts/${a.id}`, {
            user_id: a.userId,
            status: 'suspended',
          }),
        4403,
      ],
      [
        (a: TestAccount) =>
          service.v2('POST', '/v2/email-accounts/delete', { user_id: a.userId, id: a.id }),
        4403,
      ],
      [
        (a: TestAccount) =>
          service.v2('POST', '/v2/domains/delete', { user_id: a.userId, domain: a.domain }),
        4403,
      ],
      [
        (a: TestAccount) =>
          service.v2('POST', `/v2/email-accounts/${a.id}/password/reset`, { user_id: a.userId }),
        4401,
      ],
    ] as const) {
      const ann = await service.makeAccount();
      const socket = await openSocket(service, ann.token);
      await socket.next();
      assert.ok((await act(ann)).status < 300);
      assert.equal(await socket.closed, code);
      assert.notEqual((await service.mail(ann.token, 'POST', '/mail/sync', {})).status, 200);
    }
  });
});

test('connections end with 1001 when the service stops', async () => {
  const service = await startTestService('sqlite');
  const ann = await service.makeAccount();
  const socket = await openSocket(service, ann.token);
  await socket.next();
  await service.stop();
  assert.equal(await socket.closed, 1001);
});
