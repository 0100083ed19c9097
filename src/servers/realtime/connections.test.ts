import assert from 'node:assert/strict';
import { once } from 'node:events';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import {
  change,
  connectClient,
  connectRaw,
  frame,
  readTestToken,
  readToEnd,
  startRealtime,
  TestClient,
} from '../../../test/support/realtime/start-realtime.ts';
import { Refusal } from '../../platform/errors/errors.ts';

/** The code in the last frame, a close frame (RFC 6455 section 5.5.1); no hello has the byte 0x88. */
function closeCodeOf(bytes: Buffer): number | undefined {
  const start = bytes.lastIndexOf(0x88);
  return start === -1 ? undefined : bytes.readUInt16BE(start + 2);
}

suite('what a client gets', () => {
  test('hello first, then the changes of its own account', async () => {
    const { port, changes } = await startRealtime({
      listMailboxes: async ({ accountId, address }) => {
        assert.deepEqual([accountId, address], [1, 'user1@acme.test']);
        const inbox = { mailbox: 'INBOX', uidvalidity: '7', token: '41', specialUse: '\\Inbox' };
        return [inbox, { mailbox: 'Entwürfe', uidvalidity: '8', token: '1' }];
      },
    });
    const client = new TestClient(port, 'token-1');
    const hello = (await client.next()) as Record<string, unknown>;
    const { connectionId, serverTime, ...rest } = hello;
    assert.deepEqual(rest, {
      type: 'hello',
      user: 'user1@acme.test',
      heartbeatSeconds: 30,
      mailboxes: [
        { mailbox: 'INBOX', uidvalidity: '7', token: '41' },
        { mailbox: 'Entwürfe', uidvalidity: '8', token: '1' },
      ],
    });
    assert.equal(Object.keys(hello)[0], 'type');
    assert.match(String(connectionId), /^[\da-f-]{36}$/);
    assert.equal(new Date(String(serverTime)).toISOString(), serverTime);

    changes.publish(change(2));
    changes.publish(change(1, { token: '42', eventType: 'Other' }));
    assert.deepEqual(await client.next(), {
      type: 'mailbox_changed',
      mailbox: 'INBOX',
      uidvalidity: '7',
      token: '42',
      eventType: 'Other',
    });
  });

  test('every connection of an account gets the change', async () => {
    const { port, changes } = await startRealtime();
    const clients = await Promise.all([1, 2, 3].map(() => connectClient(port, 'token-1')));
    changes.publish(change(1, { mailbox: 'Sent "1"\\' }));
    for (const client of clients) {
      const message = (await client.next()) as { mailbox: string };
      assert.equal(message.mailbox, 'Sent "1"\\');
    }
  });

  test('changes that come while the mailboxes are listed follow hello, the latest of each', async () => {
    const listing = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const { port, changes } = await startRealtime({
      async listMailboxes() {
        asked.resolve();
        await listing.promise;
        return [];
      },
    });
    const client = new TestClient(port, 'token-1');
    await asked.promise;
    changes.publish(change(1, { token: '2' }));
    changes.publish(change(1, { mailbox: 'Sent', token: '9' }));
    changes.publish(change(1, { token: '3' }));
    listing.resolve();
    const told = [await client.next(), await client.next(), await client.next()] as {
      type: string;
      mailbox?: string;
      token?: string;
    }[];
    assert.deepEqual(
      told.map(({ type, mailbox, token }) => [type, mailbox, token]),
      [
        ['hello', undefined, undefined],
        ['mailbox_changed', 'INBOX', '3'],
        ['mailbox_changed', 'Sent', '9'],
      ],
    );
  });

  test('one with frames in the same packet as its request', async () => {
    const { port, realtime } = await startRealtime();
    const closing = frame(8, Buffer.from([0x03, 0xe8]));
    const socket = await connectRaw(port, 'token-1', closing);
    const bytes = await readToEnd(socket);
    assert.equal(closeCodeOf(bytes), 1000);
    while (realtime.connections > 0) await turn();
  });
});

suite('how a connection ends', () => {
  for (const [reason, code] of [
    ['suspended', 4403],
    ['deleted', 4403],
    ['password_reset', 4401],
  ] as const) {
    test(`${code} when the account is ${reason}`, async () => {
      const { port, changes } = await startRealtime();
      const clients = [await connectClient(port, 'token-1'), await connectClient(port, 'token-1')];
      const other = await connectClient(port, 'token-2');
      changes.publish({ kind: 'access', accountId: 1, reason });
      // It gets nothing more, whatever changes before the handshake is over.
      changes.publish(change(1));
      for (const client of clients) {
        assert.equal((await client.closed).code, code);
        await assert.rejects(client.next());
      }
      changes.publish(change(2));
      await other.next();
    });
  }

  test('4403 when the account lost its access before it was subscribed to', async () => {
    let judgements = 0;
    const { port } = await startRealtime({
      async authenticate(token) {
        judgements++;
        if (judgements === 2) throw new Refusal('account_inactive', 'it is suspended');
        return readTestToken(token);
      },
    });
    const client = new TestClient(port, 'token-1');
    assert.equal((await client.closed).code, 4403);
    await assert.rejects(client.next());
  });

  test('4401 when the token is expired', async () => {
    const { port } = await startRealtime({
      authenticate: async (token) => ({
        ...(await readTestToken(token)),
        expiresAt: Date.now() + 1_000,
      }),
    });
    // On a slow machine it is expired before the first message.
    const client = new TestClient(port, 'token-1');
    assert.equal((await client.closed).code, 4401);
  });

  test('not at once when the token is good for two hundred years', async () => {
    const { port, changes, realtime } = await startRealtime({
      authenticate: async (token) => ({ ...(await readTestToken(token)), expiresAt: 8.64e15 }),
      limits: { heartbeatSeconds: 0.02 },
    });
    const client = await connectClient(port, 'token-1');
    const browser = new TestClient(port, undefined, {}, ['postroom', 'bearer.token-1']);
    await browser.next();
    // A few ticks of the timer that checks for expired tokens.
    for (let pings = 0; pings < 3; pings++) await once(browser.socket, 'ping');
    changes.publish(change(1));
    await client.next();
    assert.equal(realtime.connections, 2);
    // A heartbeat beside each, to those that cannot see pings.
    await browser.next();
    assert.ok(browser.heartbeats >= 2, `${browser.heartbeats} heartbeats`);
    assert.equal(client.heartbeats, 0);
  });

  for (const [title, thrown, code] of [
    ['the mailboxes cannot be listed', new Error('a bug'), 1011],
    ['the mail store is not available', new Refusal('unavailable', 'not now'), 1013],
    ['the account is gone', new Refusal('account_not_found', 'gone'), 4403],
  ] as const) {
    test(`${code} when ${title}`, async () => {
      const { port } = await startRealtime({ listMailboxes: () => Promise.reject(thrown) });
      const client = new TestClient(port, 'token-1');
      assert.equal((await client.closed).code, code);
    });
  }

  test('when it does not answer pings; those that answer stay', async () => {
    const { port, changes } = await startRealtime({ limits: { heartbeatSeconds: 0.2 } });
    const good = await connectClient(port, 'token-1');
    const mute = new TestClient(port, 'token-1', { autoPong: false });
    // The first one may come right after the first message.
    let pings = 0;
    mute.socket.on('ping', () => pings++);
    assert.equal((await mute.closed).code, 1006);
    assert.equal(pings, 2);
    changes.publish(change(1));
    await good.next();
  });

  test('1001 one after the other when the server drains, which accepts new ones meanwhile', async () => {
    const { port, realtime, changes } = await startRealtime();
    const clients: TestClient[] = [];
    for (const account of [1, 2, 3, 4]) {
      clients.push(await connectClient(port, `token-${account}`));
    }
    const first = Promise.race(clients.map(({ closed }) => closed));
    const isOpen = ({ socket }: TestClient) => socket.readyState === socket.OPEN;
    const others = first.then(() => clients.filter(isOpen).length);
    const drained = realtime.drain(800);
    const late = await connectClient(port, 'token-1');
    await drained;
    for (const client of clients) assert.equal((await client.closed).code, 1001);
    assert.ok((await others) > 0, 'all at once');
    changes.publish(change(1));
    await late.next();
    await realtime.close();
    assert.equal((await late.closed).code, 1001);
  });

  // The limit distinguishes our deadline from the library's, ten seconds.
  test('1001 when the server stops, cut when it does not answer', {
    timeout: 8_000,
  }, async () => {
    const { port, realtime } = await startRealtime({ limits: { closeSeconds: 0.05 } });
    const client = await connectClient(port, 'token-1');
    const mute = await connectRaw(port, 'token-2');
    const [bytes] = await Promise.all([readToEnd(mute), realtime.close()]);
    assert.equal(closeCodeOf(bytes), 1001);
    assert.equal((await client.closed).code, 1001);
    assert.equal(realtime.connections, 0);
    const late = new TestClient(port, 'token-1');
    const [, answer] = await once(late.socket, 'unexpected-response');
    assert.equal(answer.statusCode, 503);
    await realtime.close();
  });
});

suite('what a client sends', () => {
  test('text is ignored', async () => {
    const { port, changes } = await startRealtime();
    const client = await connectClient(port, 'token-1');
    client.socket.send('{"type":"subscribe"}');
    client.socket.send('x'.repeat(4_096));
    client.socket.ping();
    await once(client.socket, 'pong');
    changes.publish(change(1));
    await client.next();
  });

  for (const [kind, opcode] of [
    ['texts', 1],
    ['pings', 9],
    ['pongs', 10],
  ] as const) {
    test(`a thousand ${kind} at once end their connection`, async () => {
      const { port, realtime } = await startRealtime();
      const socket = await connectRaw(port, 'token-1');
      socket.write(Buffer.concat(Array.from({ length: 1_000 }, () => frame(opcode))));
      socket.write(frame(8));
      // What was not read resets the connection, and its client may not see the code then.
      const code = closeCodeOf(await readToEnd(socket).catch(() => Buffer.alloc(0)));
      assert.ok(code === undefined || code === 1008, String(code));
      while (realtime.connections > 0) await turn();
    });
  }

  const garbage: [title: string, bytes: Buffer, code: number][] = [
    ['binary', frame(2, Buffer.from([1])), 1003],
    ['more than 4 KB', Buffer.from([0x81, 0xfe, 0x10, 0x01, 0, 0, 0, 0]), 1009],
    ['a length of 2^63', Buffer.from([0x81, 0xff, 0x7f, ...Buffer.alloc(11, 255)]), 1009],
    ['no UTF-8', frame(1, Buffer.from([0xff])), 1007],
    ['no mask', Buffer.from([0x81, 0x01, 0x41]), 1002],
    ['reserved bits', Buffer.from([0xf1, 0x80, 0, 0, 0, 0]), 1002],
    ['an unknown opcode', frame(3), 1002],
    ['a fragment of nothing', frame(0, Buffer.from([0x41])), 1002],
    [
      'too many fragments',
      Buffer.concat([
        Buffer.from([0x01, 0x80, 0, 0, 0, 0]),
        ...Array.from({ length: 20 }, () => Buffer.from([0x00, 0x80, 0, 0, 0, 0])),
      ]),
      1008,
    ],
  ];
  for (const [title, bytes, code] of garbage) {
    test(`${title} ends its connection with ${code}, and no other`, async () => {
      const { port, changes, realtime, logLines } = await startRealtime();
      const good = await connectClient(port, 'token-1');
      const socket = await connectRaw(port, 'token-1');
      socket.write(bytes);
      // Closes correctly, so that the server need not wait for it.
      socket.write(frame(8));
      const answer = await readToEnd(socket);
      assert.equal(closeCodeOf(answer), code);
      while (realtime.connections > 1) await turn();
      changes.publish(change(1));
      await good.next();
      assert.deepEqual(logLines, []);
    });
  }

  test('any bytes of one client do not affect others', async () => {
    const { port, changes, realtime, logLines } = await startRealtime();
    const good = await connectClient(port, 'token-1');
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const socket = await connectRaw(port, 'token-2', Buffer.from(bytes));
        socket.end();
        await readToEnd(socket);
      }),
      { numRuns: 100 },
    );
    while (realtime.connections > 1) await turn();
    changes.publish(change(1));
    await good.next();
    assert.deepEqual(logLines, []);
  });

  test('nothing more: a reset connection is removed', async () => {
    const { port, changes, realtime } = await startRealtime();
    const sockets = await Promise.all([1, 2, 3].map((id) => connectRaw(port, `token-${id}`)));
    assert.equal(realtime.connections, 3);
    for (const socket of sockets) socket.resetAndDestroy();
    while (realtime.connections > 0) {
      changes.publish(change(1));
      await turn();
    }
  });
});
