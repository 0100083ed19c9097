import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';
import {
  dayOfAccounts,
  dayOfAllAccounts,
  dayOfDomains,
  findOddSenders,
  hoursOfAccount,
  pruneHours,
  Usage,
} from './usage.ts';

const HOUR = 3_600_000;
const NOW = Date.UTC(2026, 4, 3, 12, 30);
const LIMITS = { burst: 50, times: 10, day: 50, bounced: 0.1 };

onEachEngine('mail by the hour', (engine) => {
  let store: TestMailstore;
  let usage: Usage;
  const accounts: { readonly id: number; readonly domainId: number }[] = [];

  before(async () => {
    store = await openTestMailstore(engine, () => NOW);
    usage = new Usage({ database: store.database, now: () => NOW });
    for (let made = 0; made < 4; made++) {
      const { accountId: id } = await store.makeUser();
      const { domain_id: domainId } = await store.database.read
        .selectFrom('accounts')
        .select('domain_id')
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      accounts.push({ id, domainId });
    }
  });

  const at = (index: number) => accounts[index] ?? assert.fail();
  const count = (hoursAgo: number, ...counted: Parameters<Usage['count']>[1]) =>
    store.database.write((tx) => usage.count(tx, counted, NOW - hoursAgo * HOUR));
  const out = (index: number, messagesOut: number) => ({ accountId: at(index).id, messagesOut });
  const odd = () => findOddSenders(store.database.read, NOW, LIMITS);

  test('of an account is not odd before there is a day to compare it with', async () => {
    await count(0, out(1, 500));
    await count(23, out(0, 1));
    assert.deepEqual(await odd(), []);
    await count(24, out(0, 1));
    assert.equal((await odd()).length, 1);
    await store.database.write((tx) => tx.deleteFrom('usage_hours').execute());
    await store.database.write((tx) => tx.deleteFrom('usage_days').execute());
  });

  test('is added up over 24 hours, by account and domain', async () => {
    const [{ id, domainId }, other] = [at(0), at(1)];
    await count(23, { accountId: id, messagesIn: 1, bytesIn: 9 }, out(0, 2));
    await count(24, { accountId: id, messagesIn: 100 });
    await count(0, { accountId: id, bounced: 1 }, { accountId: id, refused: 7 });
    await count(0, { domainId, messagesIn: 3, messagesOut: 3 }, { domainId, bounced: 2 });
    const expected = { in: 1, out: 2, bounced: 1, refused: 7 };
    const { read } = store.database;
    const some = await dayOfAccounts(read, NOW, [at(0), other]);
    assert.deepEqual([...some], [[id, expected]]);
    assert.deepEqual([...(await dayOfAllAccounts(read, NOW))], [[id, expected]]);
    assert.deepEqual(
      [...(await dayOfDomains(read, NOW, [domainId, other.domainId]))],
      [[domainId, { in: 4, out: 5, bounced: 3, refused: 7 }]],
    );
    const hours = await hoursOfAccount(read, NOW, at(0));
    const now = Date.UTC(2026, 4, 3, 12);
    assert.deepEqual(
      hours.map(({ hour, in: received, bounced }) => [(now - hour) / HOUR, received, bounced]),
      [
        [24, 100, 0],
        [23, 1, 0],
        [0, 0, 1],
      ],
    );
    const days = await read.selectFrom('usage_days').selectAll().execute();
    assert.equal(
      days.length,
      2,
      'bounces and refusals alone are nothing to pay for, and make no row of a day',
    );
  });

  test('of an account is odd beyond its usual amount, in this hour or the last', async () => {
    assert.deepEqual(await odd(), []);
    await count(1, out(1, 49));
    await count(30, out(2, 5));
    await count(0, out(2, 49));
    assert.deepEqual(await odd(), [], 'too few');
    await count(1, out(1, 1));
    await count(0, out(2, 1));
    await count(30, out(3, 6));
    await count(0, out(3, 59));
    const hour = Date.UTC(2026, 4, 3, 12);
    const bursts = (await odd()).map(({ accountId, burst }) => [accountId, burst]);
    assert.deepEqual(bursts, [
      [at(1).id, { hour: hour - HOUR, out: 50, busiest: 0 }],
      [at(2).id, { hour, out: 50, busiest: 5 }],
    ]);
    // What was sent more than a week ago says nothing any more.
    await count(24 * 7 + 2, out(1, 1_000));
    assert.equal((await odd()).length, 2);
    await count(24 * 7 + 1, out(1, 1_000));
    assert.deepEqual(
      (await odd()).map(({ accountId }) => accountId),
      [at(2).id],
    );
  });

  test('of an account is odd where a tenth of 50 recipients or more bounced', async () => {
    const bouncing = async () =>
      (await odd()).flatMap(({ accountId, bounces }) => (bounces ? [[accountId, bounces]] : []));
    await count(2, { accountId: at(1).id, bounced: 5 });
    assert.deepEqual(await bouncing(), [[at(1).id, { out: 50, bounced: 5 }]]);
    await count(3, out(1, 1));
    assert.deepEqual(await bouncing(), [], 'less than a tenth');
    await count(24, { accountId: at(1).id, bounced: 5 });
    assert.deepEqual(await bouncing(), [], 'a day ago');
  });

  test('is kept for 8 days', async () => {
    const prune = (now: number) => store.database.write((tx) => pruneHours(tx, now));
    const rows = async () =>
      (await store.database.read.selectFrom('usage_hours').select('hour').execute()).length;
    assert.equal(await prune(NOW), 0);
    const all = await rows();
    assert.equal(await prune(NOW + 7 * 24 * HOUR), 6);
    assert.equal(await rows(), all - 6);
    while ((await prune(NOW + 9 * 24 * HOUR)) > 0);
    assert.equal(await rows(), 0);
  });
});
