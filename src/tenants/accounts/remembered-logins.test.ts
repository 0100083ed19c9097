/** A remembered login of a browser: works for one user of it at a time, ends for all after it was copied. */

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { pino } from 'pino';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { activateDomain, openTenants, openTokens } from '../../../test/support/tenants.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { type Account, type Accounts, REMEMBERED_SECONDS, type Tokens } from './accounts.ts';

const PASSWORD = 'correct horse';
const userId = 'demo';

onEachEngine('remembered logins', (engine) => {
  let database: Database;
  let accounts: Accounts;
  let tokens: Tokens;
  let now = Date.UTC(2026, 0, 1);
  let count = 0;
  const lines: string[] = [];

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    const clock = () => now;
    const tenants = openTenants(database, { now: clock });
    ({ accounts } = tenants);
    const log = pino({ level: 'warn' }, { write: (line) => lines.push(line) });
    tokens = openTokens(database, { log, now: clock });
    await activateDomain(tenants.domains, userId, 'acme.test');
  });

  async function makeAccount(): Promise<Account> {
    const localPart = `ada${++count}`;
    const input = { userId, domain: 'acme.test', localPart, password: PASSWORD };
    return (await accounts.create(input)).account;
  }

  async function remember({ address }: Account): Promise<string> {
    return (await tokens.loginRemembered(address, PASSWORD, '203.0.113.1')).remembered;
  }

  const rowsOf = ({ id }: Account) =>
    database.read
      .selectFrom('remembered_logins')
      .selectAll()
      .where('account_id', '=', id)
      .execute();

  const isOver = (remembered: string) =>
    assert.rejects(
      tokens.renew(remembered),
      (error) => error instanceof Refusal && error.code === 'unauthorized',
    );

  test('each use returns a token and the text for the next use', async () => {
    const account = await makeAccount();
    let remembered = await remember(account);
    for (let hour = 0; hour < 3; hour++) {
      now += 3_600_000;
      const renewed = await tokens.renew(remembered);
      assert.notEqual(renewed.remembered, remembered);
      assert.equal((await tokens.authenticate(renewed.token)).accountId, account.id);
      remembered = renewed.remembered;
    }
    const kept = JSON.stringify(await rowsOf(account));
    const signature = remembered.split('.')[2] ?? '';
    assert.ok(signature.length > 40 && !kept.includes(signature), 'nothing kept opens an account');
  });

  test('a replaced text ends the login, except within a minute', async () => {
    const account = await makeAccount();
    const first = await remember(account);
    const [one, other] = await Promise.all([tokens.renew(first), tokens.renew(first)]);
    assert.equal(one.remembered, other.remembered, 'two tabs, one successor');
    now += 59_000;
    assert.equal((await tokens.renew(first)).remembered, one.remembered);
    now += 2_000;
    await isOver(first);
    await isOver(one.remembered);
    assert.deepEqual(await rowsOf(account), []);
    assert.match(lines.at(-1) ?? '', /used by two clients/);
  });

  test('a text that was replaced twice ends the login at once', async () => {
    const first = await remember(await makeAccount());
    const second = await tokens.renew(first);
    const third = await tokens.renew(second.remembered);
    await isOver(first);
    await isOver(third.remembered);
  });

  test('a text that was not made here opens nothing and ends nothing', async () => {
    const good = await remember(await makeAccount());
    const [series = '', generation = '', signature = ''] = good.split('.');
    const forged = `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`;
    for (const text of [
      '',
      'x',
      `${series}.${generation}`,
      `${series}.${generation}.`,
      `${series}.2.${signature}`,
      `${series}.${generation}.${forged}`,
      `${series}.0${generation}.${signature}`,
      `${series}.${generation}.${signature}.`,
      'x'.repeat(10_000),
    ]) {
      await isOver(text);
      await tokens.forget(text);
    }
    await tokens.renew(good);
  });

  test('a password reset, a suspension and a deletion end it for good', async () => {
    const reset = await makeAccount();
    const beforeReset = await remember(reset);
    await accounts.resetPassword(userId, reset.id, PASSWORD);
    await isOver(beforeReset);
    assert.deepEqual(await rowsOf(reset), []);

    const suspended = await makeAccount();
    const beforeSuspension = await remember(suspended);
    await accounts.update(userId, suspended.id, { status: 'suspended' });
    await accounts.update(userId, suspended.id, { status: 'active' });
    await isOver(beforeSuspension);

    const deleted = await makeAccount();
    const beforeDeletion = await remember(deleted);
    await accounts.remove(userId, deleted.id);
    await isOver(beforeDeletion);
  });

  test('it ends after 30 days without a use, and is then removed', async () => {
    const account = await makeAccount();
    const unused = await remember(account);
    let used = await remember(account);
    now += (REMEMBERED_SECONDS - 1) * 1000;
    used = (await tokens.renew(used)).remembered;
    assert.equal((await rowsOf(account)).length, 2);
    now += 1000;
    assert.ok((await tokens.forgetOldLogins()) >= 1);
    assert.equal((await rowsOf(account)).length, 1);
    await isOver(unused);
    const late = await remember(account);
    await tokens.renew(used);
    now += REMEMBERED_SECONDS * 1000;
    await isOver(late);
  });

  test('an account has 20; the least recently used one is removed', async () => {
    const account = await makeAccount();
    const all: string[] = [];
    for (let i = 0; i < 20; i++) {
      now += 1;
      all.push(await remember(account));
    }
    now += 1;
    const [first = '', second = ''] = all;
    const renewed = await tokens.renew(first);
    now += 1;
    await remember(account);
    assert.equal((await rowsOf(account)).length, 20);
    await isOver(second);
    await tokens.renew(renewed.remembered);
  });

  test('forgetting it ends it', async () => {
    const remembered = await remember(await makeAccount());
    await tokens.forget(remembered);
    await isOver(remembered);
  });
});
