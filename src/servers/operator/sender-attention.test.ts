/** Who sends oddly, what bounces and which mailboxes are full: at each limit and just below it. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';
import { Traffic, Usage } from '../../tenants/usage/usage.ts';
import {
  lookAtBounces,
  lookAtMailboxes,
  lookAtSenders,
  SENDER_LIMITS,
} from './sender-attention.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = Date.UTC(2026, 4, 3, 12, 30);
const THIS_HOUR = NOW - 30 * MINUTE;

onEachEngine('attention to mail', (engine) => {
  let store: TestMailstore;
  const now = () => NOW;

  beforeEach(async () => {
    store = await openTestMailstore(engine, now);
  });

  const parts = () => ({ database: store.database, now });
  /** A node that counted this so long ago. */
  const trafficAt = (at: number, counted: Readonly<Record<string, number>> = {}) =>
    new Traffic({
      database: store.database,
      totals: async () => counted,
      log: { warn: () => assert.fail('nothing fails') },
      now: () => at,
    });
  const ended = (counted: Readonly<Record<string, number>>, hoursAgo = 0) =>
    trafficAt(NOW - hoursAgo * HOUR, counted).flush();

  test('what the service gives up is looked at from 100 deliveries on', async () => {
    const bounces = async () => {
      const { many, tooMany } = SENDER_LIMITS.service;
      const warned = await lookAtBounces(parts(), many, tooMany);
      const critical = await lookAtBounces(parts(), tooMany);
      return [warned?.count, critical?.count];
    };
    assert.deepEqual(await bounces(), [undefined, undefined]);
    await ended({ 'send:failed': 4, 'forward:failed': 1, 'send:delivered': 94 });
    assert.deepEqual(await bounces(), [undefined, undefined], '5 of 99');
    await ended({ 'forward:delivered': 1, 'webhook:failed': 50, 'dsn:failed': 50 }, 23);
    assert.deepEqual(await bounces(), [5, undefined], '5 of 100');
    await ended({ 'send:delivered': 1 });
    assert.deepEqual(await bounces(), [undefined, undefined], '5 of 101');
    await ended({ 'send:failed': 6, 'forward:delivered': 3 });
    assert.deepEqual(await bounces(), [undefined, 11], '11 of 110: no warning beside it');
    await ended({ 'send:delivered': 1 });
    assert.deepEqual(await bounces(), [11, undefined], '11 of 111');
    await ended({ 'send:failed': 1_000 }, 24);
    const found = await lookAtBounces(parts(), 0.05);
    assert.match(
      found?.text ?? '',
      /^9 % of the 111 deliveries /,
      'what is a day old does not count',
    );
  });

  test('an account that sends oddly is named, the worst of several', async () => {
    const usage = new Usage({ database: store.database, now });
    const count = (hoursAgo: number, counted: Parameters<Usage['count']>[1][number]) =>
      store.database.write((tx) => usage.count(tx, [counted], NOW - hoursAgo * HOUR));
    const { accountId } = await store.makeUser();
    const other = await store.makeUser();
    const look = () => lookAtSenders(parts());
    assert.equal(await look(), undefined);
    await count(50, { accountId, messagesOut: 5 });
    await count(0, { accountId, messagesOut: 49 });
    assert.equal(await look(), undefined, 'below');
    await count(0, { accountId, messagesOut: 1 });
    assert.deepEqual(await look(), {
      text: 'ann@d1.test wrote to 50 recipients in an hour, and to 5 in its busiest hour of the week before.',
      count: 1,
      since: THIS_HOUR,
      link: `/accounts/${accountId}`,
    });
    await count(0, { accountId, bounced: 4 });
    assert.doesNotMatch((await look())?.text ?? '', /bounce/);
    await count(1, { accountId: other.accountId, messagesOut: 60, bounced: 6 });
    await count(100, { accountId: other.accountId, messagesOut: 7 });
    assert.deepEqual(await look(), {
      text: 'ann@d2.test had 6 of 60 recipients bounce in 24 hours. 1 other account sends oddly, too.',
      count: 2,
      since: THIS_HOUR,
      link: '/accounts?sort=-bounced_24h',
    });
    await count(2, { accountId: other.accountId, messagesOut: 1 });
    assert.equal((await look())?.count, 1, '6 of 61');
    await store.database.write((tx) =>
      tx.deleteFrom('accounts').where('id', '=', accountId).execute(),
    );
    assert.match((await look())?.text ?? '', /^An account that was deleted wrote to 50 /);
  });

  test('full mailboxes are those of the last measurement, which must not be old', async () => {
    const look = () => lookAtMailboxes(parts());
    const measured = (at: number, full: number, nearly: number) =>
      trafficAt(at).gauge({ 'mailboxes:full': full, 'mailboxes:nearly_full': nearly });
    await measured(NOW - 16 * MINUTE, 1, 1);
    await assert.rejects(look(), /not measured/);
    await measured(NOW - 10 * MINUTE, 1, 0);
    assert.deepEqual(await look(), {
      text: '1 account reached the quota: mail for it is deferred, and bounces later.',
      count: 1,
      link: '/accounts?sort=-quota_used',
    });
    await measured(NOW - 5 * MINUTE, 2, 3);
    assert.equal(
      (await look())?.text,
      '2 accounts reached the quota: mail for them is deferred, and bounces later. 3 accounts used 90 % of the quota.',
    );
    await measured(NOW, 0, 0);
    assert.equal(await look(), undefined);
  });
});
