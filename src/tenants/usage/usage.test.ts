import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import type { MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import { listUsage, pruneUsage, Usage, type UsageGroup, usageKeys } from './usage.ts';

const DAY = 86_400_000;
const TODAY = Date.UTC(2026, 4, 3);

onEachEngine('usage', (engine) => {
  let store: TestMailstore;
  let usage: Usage;
  let now = TODAY + 1;
  const users: MailUser[] = [];

  before(async () => {
    store = await openTestMailstore(engine, () => now);
    usage = new Usage({ database: store.database, now: () => now });
    for (let made = 0; made < 3; made++) users.push(await store.makeUser());
  });

  const count = (...counted: Parameters<Usage['count']>[1]) =>
    store.database.write((tx) => usage.count(tx, counted));
  const idOf = (index: number) => users[index]?.accountId ?? 0;
  const list = (by: UsageGroup, more: object = {}) =>
    listUsage(store.database.read, { by, from: TODAY - DAY, to: TODAY, limit: 100, ...more });

  test('is added up for each account and day', async () => {
    now = TODAY - 1;
    await count({ accountId: idOf(0), messagesIn: 1, bytesIn: 10 });
    now = TODAY;
    await count(
      { accountId: idOf(1), messagesOut: 2, bytesOut: 40 },
      { accountId: idOf(0), messagesIn: 1, bytesIn: 20 },
    );
    await count({ accountId: idOf(0), messagesIn: 1, bytesIn: 30 });
    await count({ accountId: 99_999, messagesIn: 1, bytesIn: 30 });
    const rows = (await list('account')).map((one) => [
      one.day,
      one.email,
      one.messages_in,
      one.bytes_in,
      one.messages_out,
    ]);
    assert.deepEqual(rows, [
      [TODAY, 'ann@d2.test', 0, 0, 2],
      [TODAY, 'ann@d1.test', 2, 50, 0],
      [TODAY - DAY, 'ann@d1.test', 1, 10, 0],
    ]);
  });

  test('of many transactions at once is complete', async () => {
    const all = users.map(({ accountId }) => ({ accountId, messagesIn: 1, bytesIn: 7 }));
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => count(...(index % 2 ? all : all.toReversed()))),
    );
    const [third] = await list('user', { userId: 'user3' });
    assert.deepEqual([third?.messages_in, third?.bytes_in], [20, 140]);
  });

  test('is listed page by page, for a domain or a user as well', async () => {
    for (const by of ['domain', 'account', 'user'] as const) {
      const all = await list(by);
      const paged: typeof all = [];
      for (;;) {
        const last = paged.at(-1);
        const after = last && usageKeys[by].map((name) => (last as never)[name]);
        const page = await list(by, { limit: 1, after });
        if (page.length === 0) break;
        paged.push(...page);
      }
      assert.deepEqual(paged, all);
      assert.equal(all.length, 4);
    }
    assert.deepEqual(
      (await list('domain', { domain: 'd1.test' })).map(({ day }) => day),
      [TODAY, TODAY - DAY],
    );
    assert.equal((await list('user', { userId: 'user2' })).length, 1);
    assert.deepEqual(await list('domain', { from: TODAY, to: TODAY - DAY }), []);
    await assert.rejects(list('domain', { from: TODAY - 400 * DAY }), { code: 'invalid_request' });
  });

  test('has what is stored, and keeps the names of a deleted account', async () => {
    const staged = await store.stage(sampleMessage('one'));
    const [first] = users;
    assert.ok(first);
    await store.append(staged, [
      { user: first, mailbox: 'INBOX' },
      { user: first, mailbox: 'Junk' },
    ]);
    const signal = new AbortController().signal;
    const bytes = 2 * staged.body.size;
    assert.deepEqual(await usage.measure(0, signal), { bytes, full: 0, nearlyFull: 0 });
    const storedOf = async () =>
      (await list('domain', { domain: 'd1.test', from: TODAY }))[0]?.stored_bytes;
    assert.equal(await storedOf(), bytes);
    await store.mailstore.expunge(first, { mailbox: 'Junk', uids: [1] });
    await usage.measure(0, signal);
    assert.equal(await storedOf(), bytes / 2);
    await store.mailstore.expunge(first, { mailbox: 'INBOX', uids: [1] });
    await usage.measure(0, signal);
    assert.equal(await storedOf(), 0, 'also where nothing is left');
    await store.database.write((tx) =>
      tx.deleteFrom('accounts').where('id', '=', first.accountId).execute(),
    );
    const [gone] = await list('account', { domain: 'd1.test' });
    assert.deepEqual([gone?.email, gone?.user_id, gone?.messages_in], ['ann@d1.test', 'user1', 22]);
  });

  test('counts the accounts that are full, or nearly so, by their own quota or the default', async () => {
    const staged = await store.stage(sampleMessage('two'));
    const [, second, third] = users;
    assert.ok(second && third);
    await store.append(staged, [
      { user: second, mailbox: 'INBOX' },
      { user: third, mailbox: 'INBOX' },
    ]);
    const { size } = staged.body;
    const measure = async (quotaBytes: number) => {
      const { full, nearlyFull } = await usage.measure(quotaBytes, new AbortController().signal);
      return [full, nearlyFull];
    };
    const own = (quota_bytes: number | null) =>
      store.database.write((tx) =>
        tx
          .updateTable('accounts')
          .set({ quota_bytes })
          .where('id', '=', second.accountId)
          .execute(),
      );
    const tenths = Math.floor(size / 0.9);
    assert.deepEqual(await measure(size), [2, 0], 'what is full is not nearly full, too');
    assert.deepEqual(await measure(size + 1), [0, 2]);
    assert.deepEqual(await measure(tenths), [0, 2], 'at nine tenths');
    assert.deepEqual(await measure(tenths + 2), [0, 0], 'below');
    await own(size);
    assert.deepEqual(await measure(0), [1, 0], 'by its own quota');
    await own(0);
    assert.deepEqual(await measure(size), [1, 0], 'an account without a quota is never full');
    await own(null);
    await Promise.all(
      [second, third].map((user) => store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [1] })),
    );
  });

  test('is removed by the day', async () => {
    const { database } = store;
    const prune = () => database.write((tx) => pruneUsage(tx, TODAY));
    assert.equal(await prune(), 1);
    assert.equal(await prune(), 0);
    assert.deepEqual(
      (await list('user')).map(({ day }) => day),
      [TODAY, TODAY, TODAY],
    );
  });
});
