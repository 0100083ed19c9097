import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';
import { limitInMemory } from '../../platform/net/net.ts';
import { LoginLimits } from './login-limits.ts';

const DAY_MS = 86_400_000;

onEachEngine('login limits', (engine) => {
  async function start() {
    const { database, makeUser } = await openTestMailstore(engine);
    const { accountId } = await makeUser();
    let time = Date.UTC(2026, 0, 1);
    const open = () => new LoginLimits(database, limitInMemory, () => time);
    let limits = open();
    /** The result of an attempt: `checked`, or the seconds after which to try again. */
    async function attempt(
      ip: string,
      { name = 'ann@d1.test', succeeds = false }: { name?: string; succeeds?: boolean } = {},
    ): Promise<number | 'checked'> {
      try {
        const known = name === 'ann@d1.test' ? accountId : undefined;
        const admitted = await limits.admit({ name, accountId: known, ip });
        await admitted.begin();
        if (succeeds) await admitted.succeed();
        return 'checked';
      } catch (error) {
        assert.ok(error instanceof Error && 'code' in error && 'retryAfter' in error);
        assert.equal(error.code, 'rate_limited');
        return Number(error.retryAfter);
      }
    }
    return {
      database,
      accountId,
      attempt,
      restart: () => (limits = open()),
      pass: (ms: number) => (time += ms),
    };
  }

  test('after 10 failures a client has one attempt a minute, for an hour', async (t) => {
    const { attempt } = await start();
    t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 0, 1) });
    for (const name of ['ann@d1.test', 'nobody@d1.test']) {
      t.mock.timers.setTime(Date.UTC(2026, 0, 1));
      const fail = (ip: string) => attempt(ip, { name });
      for (let n = 0; n < 11; n++) assert.equal(await fail('203.0.113.1'), 'checked', `${n}`);
      assert.equal(await fail('203.0.113.1'), 60);
      assert.equal(await fail('203.0.113.2'), 'checked', 'another client');
      t.mock.timers.setTime(Date.UTC(2026, 0, 1, 0, 0, 59));
      assert.equal(await fail('203.0.113.1'), 1);
      t.mock.timers.setTime(Date.UTC(2026, 0, 1, 0, 1));
      assert.equal(await fail('203.0.113.1'), 'checked');
      assert.equal(await fail('203.0.113.1'), 60);
      t.mock.timers.setTime(Date.UTC(2026, 0, 1, 1, 1));
      for (let n = 0; n < 11; n++) assert.equal(await fail('203.0.113.1'), 'checked', `${n}`);
    }
  });

  test('the right password clears the failures of the client', async () => {
    const { attempt } = await start();
    for (let n = 0; n < 10; n++) await attempt('203.0.113.1');
    assert.equal(await attempt('203.0.113.1', { succeeds: true }), 'checked');
    for (let n = 0; n < 11; n++) assert.equal(await attempt('203.0.113.1'), 'checked');
    assert.equal(await attempt('203.0.113.1', { succeeds: true }), 60);
  });

  test('an IPv6 /64 is one client', async () => {
    const { attempt } = await start();
    for (let n = 0; n < 11; n++) await attempt(`2001:db8::${n}`);
    assert.equal(await attempt('2001:db8::ffff'), 60);
    assert.equal(await attempt('2001:db8:0:1::1'), 'checked');
  });

  test('100 failures of strangers in an hour lock out only strangers', async () => {
    const { attempt, restart } = await start();
    const home = '198.51.100.1';
    await attempt(home, { succeeds: true });
    for (let round = 0; round < 2; round++) {
      for (const name of ['ann@d1.test', 'nobody@d1.test']) {
        for (let n = 0; n < 100; n++) {
          assert.equal(await attempt(`203.0.113.${n}`, { name }), 'checked', `${n}`);
        }
        const wait = await attempt('203.0.113.100', { name, succeeds: true });
        assert.ok(Number(wait) > 3590 && Number(wait) <= 3600, `${wait} s`);
      }
      assert.equal(await attempt('203.0.113.100', { name: 'bob@d1.test' }), 'checked');
      // The owner, from a known address; the second time after a restart.
      assert.equal(await attempt(home, { succeeds: true }), 'checked');
      restart();
    }
  });

  test('successful logins of strangers are no failures', async () => {
    const { attempt } = await start();
    for (let n = 0; n < 120; n++) {
      assert.equal(await attempt(`203.0.113.${n}`, { succeeds: true }), 'checked', `${n}`);
    }
  });

  test('attempts at the same time count before they are checked', async () => {
    const { attempt } = await start();
    const results = await Promise.all(Array.from({ length: 50 }, () => attempt('203.0.113.1')));
    assert.equal(results.filter((result) => result === 'checked').length, 11);
  });

  test('the last 20 clients of an account are remembered, for half a year', async () => {
    const { attempt, database, pass } = await start();
    const clients = async () =>
      (await database.read.selectFrom('sign_ins').selectAll().execute()).map((row) => row.client);
    for (let n = 0; n < 25; n++) {
      await attempt(`203.0.113.${n}`, { succeeds: true });
      await attempt('2001:db8::1', { succeeds: true });
      pass(DAY_MS + 1);
    }
    assert.equal((await clients()).length, 20);
    assert.ok((await clients()).includes('2001:db8::/64'));
    assert.ok(!(await clients()).includes('203.0.113.5'));
    for (let n = 0; n < 100; n++) await attempt(`192.0.2.${n}`);
    assert.equal(await attempt('203.0.113.24'), 'checked');
    pass(180 * DAY_MS);
    assert.notEqual(await attempt('203.0.113.24'), 'checked');
  });

  test('clients are forgotten with their account', async () => {
    const { attempt, database, accountId } = await start();
    await attempt('203.0.113.1', { succeeds: true });
    await database.write((tx) => tx.deleteFrom('accounts').where('id', '=', accountId).execute());
    const rows = await database.read.selectFrom('sign_ins').selectAll().execute();
    assert.deepEqual(rows, []);
  });
});
