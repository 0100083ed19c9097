/** A password that was right lately is not hashed again: for the same client, account and password alone. */

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { activateDomain, openTenants, openTokens } from '../../../test/support/tenants.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { Account, Accounts, Tokens } from './accounts.ts';

const PASSWORD = 'correct horse';
const userId = 'demo';
const ip = '203.0.113.1';
const MINUTE_MS = 60_000;

onEachEngine('known passwords', (engine) => {
  let database: Database;
  let accounts: Accounts;
  let tokens: Tokens;
  let now = Date.UTC(2026, 0, 1);
  let count = 0;

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    const clock = () => now;
    const tenants = openTenants(database, { now: clock });
    ({ accounts } = tenants);
    tokens = openTokens(database, { now: clock });
    await activateDomain(tenants.domains, userId, 'acme.test');
  });

  async function makeAccount(): Promise<Account> {
    const localPart = `ada${++count}`;
    const input = { userId, domain: 'acme.test', localPart, password: PASSWORD };
    return (await accounts.create(input)).account;
  }

  /** What only a hash shows: from now on none of its passwords is right. */
  async function breakHash({ id }: Account): Promise<void> {
    const other = await makeAccount();
    const hash = database.read
      .selectFrom('accounts')
      .select('password_hash')
      .where('id', '=', other.id);
    const { password_hash } = await hash.executeTakeFirstOrThrow();
    await accounts.resetPassword(userId, other.id);
    await database.write((tx) =>
      tx
        .updateTable('accounts')
        .set({ password_hash: password_hash.replace(/.{8}$/, 'AAAAAAAA') })
        .where('id', '=', id)
        .execute(),
    );
  }

  const open = async ({ address }: Account, password: string, from = ip) => {
    try {
      await tokens.checkMailPassword({ address, password, ip: from }, 'imap');
      return 'opened';
    } catch (error) {
      if (error instanceof Refusal) return error.code;
      throw error;
    }
  };

  test('for ten minutes, for its client alone; by HTTP as by IMAP', async () => {
    const ada = await makeAccount();
    assert.equal(await open(ada, PASSWORD), 'opened');
    await breakHash(ada);
    now += 9 * MINUTE_MS;
    assert.equal(await open(ada, PASSWORD), 'opened');
    await tokens.login(ada.address, PASSWORD, ip);
    assert.equal(await open(ada, PASSWORD, '198.51.100.7'), 'unauthorized');
    assert.equal(await open(ada, `${PASSWORD}!`), 'unauthorized');
    now += MINUTE_MS;
    assert.equal(await open(ada, PASSWORD), 'unauthorized');
  });

  test('until a suspension or a new password', async () => {
    const ada = await makeAccount();
    assert.equal(await open(ada, PASSWORD), 'opened');
    await accounts.update(userId, ada.id, { status: 'suspended' });
    assert.equal(await open(ada, PASSWORD), 'account_inactive');
    await accounts.update(userId, ada.id, { status: 'active' });
    await accounts.resetPassword(userId, ada.id, 'battery staple');
    assert.equal(await open(ada, PASSWORD), 'unauthorized');
    assert.equal(await open(ada, 'battery staple'), 'opened');
  });

  test('it helps nobody who guesses, and a login by it clears the failures of its client', async () => {
    const ada = await makeAccount();
    assert.equal(await open(ada, PASSWORD), 'opened');
    for (let round = 0; round < 3; round++) {
      for (let guess = 0; guess < 8; guess++) {
        assert.equal(await open(ada, `guess ${guess}`), 'unauthorized');
      }
      assert.equal(await open(ada, PASSWORD), 'opened');
    }
    const codes = [];
    for (let guess = 0; guess < 12; guess++) codes.push(await open(ada, `guess ${guess}`));
    assert.equal(codes.at(-1), 'rate_limited');
    assert.equal(await open(ada, PASSWORD), 'rate_limited');
  });
});
