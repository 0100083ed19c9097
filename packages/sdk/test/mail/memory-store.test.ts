/** The order and the ends of ranges in memory, which every store shares. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareKeys, memoryStore } from '../../src/mail/memory-store.ts';
import type { Store } from '../../src/mail/store.ts';
import { openMail } from '../../src/mail.ts';
import { FakeServer } from '../../src/testing/testing.ts';

// Its types are those of a browser.
const inBrowsers: string = '../../src/stores/indexeddb.ts';

test('a browser without IndexedDB has the copy in memory', async (t) => {
  // Other tests of the process may have brought one.
  const { indexedDB } = globalThis as { indexedDB?: unknown };
  Object.assign(globalThis, { indexedDB: undefined });
  t.after(() => Object.assign(globalThis, { indexedDB }));
  const { indexedDbStore } = (await import(inBrowsers)) as { indexedDbStore(): Store };
  const server = new FakeServer();
  const login = { address: 'ada@acme.test', password: 'secret' };
  server.addAccount(login).deliver('INBOX', { subject: 'Hi' });
  const client = await openMail({
    baseUrl: 'https://mail.test',
    auth: login,
    store: indexedDbStore(),
    platform: server.platform,
  });
  await server.clock.advance(1000);
  assert.deepEqual([client.storage, await client.mailbox('INBOX').ids()], ['memory', [1]]);
  await client.close();
});

test('keys compare as in IndexedDB', () => {
  const sorted = [[1], [1, 2], [1, 10], [1, 'a'], [2], ['1'], ['a', 1], ['b']];
  assert.deepEqual([...sorted].reverse().sort(compareKeys), sorted);
});

test('a range ends where its prefix ends, and moved rows change their place', async () => {
  const store = memoryStore();
  const row = (uid: number, date: number) => ({ account: 'a', box: 1, generation: 0, uid, date });
  const put = (uid: number, date: number) => ({ put: 'messages', row: row(uid, date) }) as const;
  store.apply([
    put(1, 30),
    put(2, 20),
    put(3, 30),
    { put: 'messages', row: { ...row(9, 1), box: 2 } },
  ]);
  store.apply([put(2, 40)]);
  const uids = async (query: object) => {
    const all = { table: 'messages', index: 'byDate', prefix: [1, 0], ...query } as const;
    return (await store.range(all)).map(({ uid }) => uid);
  };
  assert.deepEqual(await uids({}), [1, 3, 2]);
  assert.deepEqual(await uids({ reverse: true, limit: 2 }), [2, 3]);
  assert.deepEqual(await uids({ reverse: true, before: [30, 3] }), [1]);
  assert.deepEqual(await uids({ after: [30, 1] }), [3, 2]);
  assert.deepEqual(await uids({ prefix: [1], before: [0] }), []);
  await store.update('accounts', ['a'], () => [{ remove: 'messages', key: [1, 0, 3] }]);
  assert.deepEqual(await uids({}), [1, 2]);
});
