/** App passwords: each opens its account for mail programs until it is revoked, and nothing else. */

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { activateDomain, openTenants, openTokens } from '../../../test/support/tenants.ts';
import { type Change, InProcessChanges } from '../../mailboxes/changes/changes.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  type Account,
  type Accounts,
  AppPasswords,
  findAppPasswordsThere,
  type Tokens,
} from './accounts.ts';

const PASSWORD = 'correct horse';
const userId = 'demo';
const by = { actor: 'test' };
const ip = '203.0.113.1';

onEachEngine('app passwords', (engine) => {
  let database: Database;
  let accounts: Accounts;
  let appPasswords: AppPasswords;
  let tokens: Tokens;
  let now = Date.UTC(2026, 0, 1);
  let count = 0;
  const changes = new InProcessChanges();
  const published: Change[] = [];
  changes.subscribeAll((change) => published.push(change));

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    const clock = () => now;
    const tenants = openTenants(database, { changes, now: clock });
    ({ accounts } = tenants);
    appPasswords = new AppPasswords({ database, changes, now: clock });
    tokens = openTokens(database, { now: clock });
    await activateDomain(tenants.domains, userId, 'acme.test');
  });

  async function makeAccount(): Promise<Account> {
    const localPart = `ada${++count}`;
    const input = { userId, domain: 'acme.test', localPart, password: PASSWORD };
    return (await accounts.create(input)).account;
  }

  const open = ({ address }: Account, password: string) =>
    tokens.checkMailPassword({ address, password, ip }, 'imap');
  const refusal = (code: string) => (error: unknown) =>
    error instanceof Refusal && error.code === code;

  test('a password opens its account alone, however it is typed, and its use is recorded', async () => {
    const ada = await makeAccount();
    const grace = await makeAccount();
    const { appPassword, password } = await appPasswords.create(userId, ada.id, 'Phone', by);
    assert.match(password, /^(?:[a-hjkmnp-z2-9]{4}-){4}[a-hjkmnp-z2-9]{4}$/);
    assert.deepEqual(await appPasswords.list(userId, ada.id), [appPassword]);
    assert.equal(appPassword.lastUsed, undefined);
    now += 1_000;
    const opened = await open(ada, password);
    assert.deepEqual([opened.accountId, opened.appPasswordId], [ada.id, appPassword.id]);
    const firstUse = { at: now, by: 'imap' as const };
    now += 59_000;
    for (const typed of [password.toUpperCase(), password.replaceAll('-', ' ')]) {
      assert.equal((await open(ada, typed)).appPasswordId, appPassword.id);
    }
    assert.deepEqual((await appPasswords.list(userId, ada.id))[0]?.lastUsed, firstUse);
    now += 2_000;
    await tokens.checkMailPassword({ address: ada.address, password, ip }, 'submission');
    const lastUse = { at: now, by: 'submission' };
    assert.deepEqual((await appPasswords.list(userId, ada.id))[0]?.lastUsed, lastUse);
    for (const longer of [`${password}a`, `${password}${' '.repeat(20)}a`]) {
      await assert.rejects(open(ada, longer), refusal('unauthorized'));
    }
    await assert.rejects(open(grace, password), refusal('unauthorized'));
    // The account's own password still opens it, and HTTP takes no other.
    assert.equal((await open(ada, PASSWORD)).appPasswordId, undefined);
    await assert.rejects(tokens.login(ada.address, password, ip), refusal('unauthorized'));
  });

  test('only a hash is stored', async () => {
    const ada = await makeAccount();
    const { password } = await appPasswords.create(userId, ada.id, 'Phone', by);
    const rows = await database.read
      .selectFrom('app_passwords')
      .selectAll()
      .where('account_id', '=', ada.id)
      .execute();
    assert.match(rows[0]?.secret_hash ?? '', /^[\da-f]{64}$/);
    const stored = JSON.stringify([
      rows,
      await database.read.selectFrom('audit').selectAll().execute(),
    ]);
    for (const text of [password, password.replaceAll('-', '')]) assert.ok(!stored.includes(text));
  });

  test('one that is revoked opens nothing from then on, and its sessions are told', async () => {
    const ada = await makeAccount();
    const phone = await appPasswords.create(userId, ada.id, 'Phone', by);
    const laptop = await appPasswords.create(userId, ada.id, 'Laptop', by);
    const { id } = phone.appPassword;
    published.length = 0;
    assert.equal((await appPasswords.remove(userId, ada.id, id, by)).name, 'Phone');
    assert.deepEqual(published, [
      { kind: 'mail_sessions', accountId: ada.id, by: 'app_password', id: String(id) },
    ]);
    await assert.rejects(open(ada, phone.password), refusal('unauthorized'));
    await open(ada, laptop.password);
    const kept = laptop.appPassword.id;
    assert.deepEqual(await findAppPasswordsThere(database.read, [id, kept]), new Set([kept]));
    const again = appPasswords.remove(userId, ada.id, id, by);
    await assert.rejects(again, refusal('app_password_not_found'));
    const rows = await database.read
      .selectFrom('audit')
      .select(['action', 'target'])
      .where('target', 'like', `${ada.address}: Phone%`)
      .orderBy('id')
      .execute();
    const target = `${ada.address}: Phone (${id})`;
    assert.deepEqual(rows, [
      { action: 'app_password.create', target },
      { action: 'app_password.delete', target },
    ]);
  });

  test('a suspension, a new password and the deletion of the account end all of them', async () => {
    const ada = await makeAccount();
    const { password } = await appPasswords.create(userId, ada.id, 'Phone', by);
    await accounts.update(userId, ada.id, { status: 'suspended' });
    await assert.rejects(open(ada, password), refusal('account_inactive'));
    await accounts.update(userId, ada.id, { status: 'active' });
    await open(ada, password);
    await accounts.resetPassword(userId, ada.id, 'battery staple');
    await assert.rejects(open(ada, password), refusal('unauthorized'));
    const next = await appPasswords.create(userId, ada.id, 'Phone', by);
    await open(ada, next.password);
    await accounts.remove(userId, ada.id);
    await assert.rejects(open(ada, next.password), refusal('unauthorized'));
    const left = await database.read
      .selectFrom('app_passwords')
      .select('id')
      .where('account_id', '=', ada.id)
      .execute();
    assert.deepEqual(left, []);
  });

  test('an account has 20 at most, also where they come at once', async () => {
    const ada = await makeAccount();
    const made = await Promise.allSettled(
      Array.from({ length: 25 }, (_, at) => appPasswords.create(userId, ada.id, `No ${at}`, by)),
    );
    const refused = made.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    assert.equal(refused.length, 5);
    assert.ok(refused.every(refusal('invalid_request')));
    assert.equal((await appPasswords.list(userId, ada.id)).length, 20);
  });

  test('wrong ones count as wrong passwords; too many do not lock out a right one', async () => {
    const ada = await makeAccount();
    const { password } = await appPasswords.create(userId, ada.id, 'Phone', by);
    const codes: string[] = [];
    for (let at = 0; at < 12; at++) {
      const wrong = await open(ada, 'abcd-efgh-jkmn-pqrs-tuvw').catch((error: unknown) => error);
      codes.push(wrong instanceof Refusal ? wrong.code : 'opened');
    }
    assert.deepEqual(codes.slice(9), ['unauthorized', 'unauthorized', 'rate_limited']);
    assert.ok((await open(ada, password)).appPasswordId);
  });

  test('names are shown to people; other users have no such account', async () => {
    const ada = await makeAccount();
    for (const name of ['', ' Phone', 'a\nb', 'a\u202eb', 'x'.repeat(256)]) {
      const made = appPasswords.create(userId, ada.id, name, by);
      await assert.rejects(made, refusal('invalid_request'), JSON.stringify(name));
    }
    const { appPassword } = await appPasswords.create(userId, ada.id, 'Phone', by);
    const { id } = appPassword;
    await assert.rejects(appPasswords.list('other', ada.id), refusal('account_not_found'));
    const made = appPasswords.create('other', ada.id, 'Mine', by);
    await assert.rejects(made, refusal('account_not_found'));
    const removed = appPasswords.remove('other', ada.id, id, by);
    await assert.rejects(removed, refusal('account_not_found'));
    const grace = await makeAccount();
    const crossed = appPasswords.remove(userId, grace.id, id, by);
    await assert.rejects(crossed, refusal('app_password_not_found'));
  });
});
