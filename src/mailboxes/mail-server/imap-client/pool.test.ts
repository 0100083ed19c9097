/** Connections are reused, limited, and shared fairly; no account waits for stalled ones of another. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type FakeServer,
  startFakeServer,
} from '../../../../test/support/imap-client/fake-server.ts';
import {
  IMPATIENT,
  openFakeStore,
  openImapStore,
} from '../../../../test/support/imap-client/open-store.ts';
import { Refusal } from '../../../platform/errors/errors.ts';
import { InProcessChanges } from '../../changes/changes.ts';
import type { MailUser } from '../../mailstore/mailstore.ts';

const inbox = { mailbox: 'INBOX' };
const user = (accountId: number): MailUser => ({ accountId, address: `u${accountId}@acme.test` });

function logins({ commands }: FakeServer): number {
  return commands.filter(({ name }) => name === 'ENABLE').length;
}

/** Holds back every EXAMINE of an account until it is released. */
function holdBack(server: FakeServer, address: string) {
  const held: { connection: number }[] = [];
  server.fault = (command) => {
    if (command.name !== 'EXAMINE' || !command.user.startsWith(address)) return undefined;
    held.push(command);
    return {};
  };
  return held;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

void suite('the pool of connections', () => {
  void test('one connection serves one request after the other', async () => {
    const { server, store } = await openFakeStore();
    for (let times = 0; times < 5; times++) await store.sync(user(1), inbox);
    assert.equal(logins(server), 1);
    assert.equal(store.load.open, 1);
  });

  void test('an account has at most three, however much it asks at once', async () => {
    const { server, store } = await openFakeStore();
    await Promise.all(Array.from({ length: 20 }, () => store.sync(user(1), inbox)));
    assert.equal(logins(server), 3);
  });

  void test('a hundred accounts in turn keep within the cap', async () => {
    const { server, store } = await openFakeStore({}, { connections: 10 });
    let most = 0;
    const syncs = Array.from({ length: 100 }, async (_, index) => {
      await store.sync(user(index + 1), inbox);
      most = Math.max(most, store.load.open, server.open);
    });
    await Promise.all(syncs);
    assert.ok(most <= 11, `${most} connections`);
    assert.ok(store.load.open <= 10);
  });

  void test('the first request is served first', async () => {
    const { store } = await openFakeStore({}, { connections: 1 });
    const order: number[] = [];
    const ids = [1, 2, 1, 3, 1, 2];
    await Promise.all(
      ids.map(async (id) => {
        await store.sync(user(id), inbox);
        order.push(id);
      }),
    );
    assert.deepEqual(order, ids);
  });

  void test('a stalled account blocks only itself, and not for ever', async () => {
    const server = await startFakeServer();
    // Its logins, and the requests of others meanwhile, must not take as long.
    const options = { connections: 5, timeoutMs: 4_000 };
    const { store, logged } = await openImapStore(server.port, {}, options);
    const held = holdBack(server, 'u1@');
    const stalled = Array.from({ length: 4 }, () => store.sync(user(1), inbox));
    const ends = Promise.allSettled(stalled);
    await until(() => held.length === 3);
    for (let id = 2; id < 8; id++) await store.sync(user(id), inbox);
    for (const end of await ends) {
      assert.ok(end.status === 'rejected' && end.reason instanceof Refusal);
      assert.equal(end.reason.code, 'unavailable');
    }
    assert.ok(logged.some(({ failure }) => failure === 'silent'));
  });

  void test('stalled accounts of one user leave a connection for others', async () => {
    const { server, store } = await openFakeStore({}, { connections: 8 });
    const ofUser = (accountId: number) => ({ ...user(accountId), userId: 'stalled' });
    // Connections that are idle take part as well.
    await Promise.all([10, 11, 12, 13].map((id) => store.sync(ofUser(id), inbox)));
    const held = holdBack(server, 'u1');
    const stalled = [10, 11, 12, 13, 14, 15].flatMap((id) =>
      [1, 2, 3].map(() => store.sync(ofUser(id), inbox)),
    );
    const ends = Promise.allSettled(stalled);
    await until(() => held.length === 6);
    await Promise.all([2, 3, 4, 5].map((id) => store.sync(user(id), inbox)));
    assert.equal(held.length, 6);
    store.close();
    for (const end of await ends) assert.equal(end.status, 'rejected');
  });

  void test('many requests of one account leave room in the queue for others', async () => {
    const { server, store } = await openFakeStore({}, { connections: 5 });
    const held = holdBack(server, 'u1@');
    const crowd = Array.from({ length: 1_200 }, () => store.sync(user(1), inbox));
    const ends = Promise.allSettled(crowd);
    await until(() => held.length === 3);
    await Promise.all([2, 3, 4, 5].map((id) => store.sync(user(id), inbox)));
    store.close();
    for (const end of await ends) assert.equal(end.status, 'rejected');
  });

  void test('eighty requests of one account wait for its connections', async () => {
    const { server, store } = await openFakeStore();
    await Promise.all(Array.from({ length: 80 }, () => store.sync(user(1), inbox)));
    assert.equal(logins(server), 3);
  });

  void test('a hundred accounts log in ten at a time', async () => {
    const { server, store } = await openFakeStore();
    // Not connections: one more tests for TLS where a greeting is late.
    let begun = 0;
    let most = 0;
    server.fault = ({ name }) => {
      if (name === 'AUTHENTICATE') most = Math.max(most, ++begun - logins(server));
      return undefined;
    };
    await Promise.all(Array.from({ length: 100 }, (_, id) => store.sync(user(id + 1), inbox)));
    assert.ok(most > 1 && most <= 10, `${most} logins at a time`);
  });

  void test('logins of one user that the server is slow to answer leave some to others', async () => {
    const { server, store } = await openFakeStore();
    let held = 0;
    server.fault = ({ name, user: address }) => {
      if (name !== 'AUTHENTICATE' || !address.startsWith('u1')) return undefined;
      held++;
      return {};
    };
    const slow = Array.from({ length: 20 }, (_, n) =>
      store.sync({ ...user(100 + n), userId: 'slow' }, inbox),
    );
    const ends = Promise.allSettled(slow);
    await until(() => held >= 7);
    for (const id of [2, 3, 4]) await store.sync(user(id), inbox);
    assert.equal(held, 7);
    store.close();
    // The logins under way end with their connections.
    server.drop();
    for (const end of await ends) assert.equal(end.status, 'rejected');
  });

  void test('logins that wait for others close no connection yet', async () => {
    const { server, store } = await openFakeStore({}, { connections: 20 });
    for (let id = 1; id <= 20; id++) await store.sync(user(id), inbox);
    let held = 0;
    server.fault = ({ name, user: address }) => {
      if (name !== 'AUTHENTICATE' || !/^u1\d\d/.test(address)) return undefined;
      held++;
      return {};
    };
    const slow = Array.from({ length: 15 }, (_, n) =>
      store.sync({ ...user(100 + n), userId: 'slow' }, inbox),
    );
    const ends = Promise.allSettled(slow);
    await until(() => held >= 7);
    // The seven that were unused longest made room.
    for (let id = 8; id <= 20; id++) await store.sync(user(id), inbox);
    assert.equal(logins(server), 20);
    store.close();
    server.drop();
    for (const end of await ends) assert.equal(end.status, 'rejected');
  });

  void test('a server that is up again serves all requests, not only the first', async () => {
    const { server, store } = await openFakeStore();
    await server.stop();
    await assert.rejects(store.sync(user(1), inbox), { code: 'unavailable' });
    await server.restart();
    // The longest time that a server is not used after its first failure.
    await sleep(320);
    await Promise.all(Array.from({ length: 50 }, (_, id) => store.sync(user(id + 1), inbox)));
  });

  void test('refused requests are told to retry at different times', async () => {
    const { server, store } = await openFakeStore();
    await server.stop();
    const times = new Set<number | undefined>();
    for (let id = 1; id <= 20; id++) {
      await store.sync(user(id), inbox).catch((error: unknown) => {
        if (error instanceof Refusal) times.add(error.retryAfter);
      });
    }
    assert.ok(times.size > 15, `${times.size} different times`);
  });

  void test('waiting ends in a refusal that says when to retry', async () => {
    const server = await startFakeServer();
    const options = { connections: 1, ...IMPATIENT };
    const { store, logged } = await openImapStore(server.port, {}, options);
    // On a slow machine the login may take all of the time.
    const isOpen = () =>
      store.sync(user(1), inbox).then(
        () => true,
        () => false,
      );
    while (!(await isOpen())) await sleep(20);
    const held = holdBack(server, 'u1@');
    // The one connection is held for as long as the wait lasts, from before it.
    const first = assert.rejects(store.sync(user(1), inbox));
    await until(() => held.length === 1);
    const second = assert.rejects(store.sync(user(1), inbox), (error) => {
      assert.ok(error instanceof Refusal && error.code === 'unavailable');
      return (error.retryAfter ?? 0) >= 1 || logged.some(({ failure }) => failure === 'silent');
    });
    await Promise.all([first, second]);
  });

  void test('unused connections are closed', async () => {
    const { server, store } = await openFakeStore({}, { idleMs: 20 });
    await store.sync(user(1), inbox);
    await until(() => server.open === 0);
    assert.equal(store.load.open, 0);
    await store.sync(user(1), inbox);
  });

  void test('an account that loses its access loses its connections, busy ones too', async () => {
    const server = await startFakeServer();
    const changes = new InProcessChanges();
    const { store } = await openImapStore(
      server.port,
      {},
      {
        onAccessEnd: (accountId, listener) =>
          changes.subscribe(accountId, (change) => {
            if (change.kind === 'access') listener();
          }),
      },
    );
    await store.sync(user(2), inbox);
    await store.sync(user(1), inbox);
    const held = holdBack(server, 'u1@');
    const busy = assert.rejects(store.sync(user(1), inbox), { code: 'unavailable' });
    await until(() => held.length === 1);
    // The read is tried once more, on a connection that the account may not have either.
    server.fault = ({ name, user: login }) =>
      name === 'AUTHENTICATE' && login.startsWith('u1@') ? { send: 'TAG NO gone\r\n' } : undefined;
    changes.publish({ kind: 'access', accountId: 1, reason: 'deleted' });
    await busy;
    await until(() => server.open === 1);
    assert.equal(store.load.open, 1);
  });

  void test('a closed store ends its connections and accepts no more requests', async () => {
    const { server, store } = await openFakeStore();
    await store.sync(user(1), inbox);
    store.close();
    await until(() => server.open === 0);
    await assert.rejects(store.sync(user(1), inbox), { code: 'unavailable' });
  });
});
