import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { verify } from '@node-rs/argon2';
import { sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { activateDomain, openTenants } from '../../../test/support/tenants.ts';
import type { Database } from '../../platform/database/database.ts';
import type { Domains } from '../domains/domains.ts';
import type { Accounts } from './accounts.ts';

onEachEngine('the view dovecot_users', (engine) => {
  let database: Database;
  let domains: Domains;
  let accounts: Accounts;

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    ({ domains, accounts } = openTenants(database));
  });

  async function look(address: string) {
    const { rows } = await sql<{
      account_id: number;
      password: string;
      status: string;
    }>`select account_id, password, status from dovecot_users where address = ${address}`.execute(
      database.read,
    );
    return rows;
  }

  async function lapse(id: number) {
    await database.write(async (tx) => {
      await tx.updateTable('domains').set({ status: 'pending' }).where('id', '=', id).execute();
      await tx
        .updateTable('dns_records')
        .set({ status: 'failed' })
        .where('domain_id', '=', id)
        .execute();
    });
  }

  test('an account is listed with its id, hash and status, until it is deleted', async () => {
    await activateDomain(domains, 'u1', 'view.test');
    const made = await accounts.create({
      userId: 'u1',
      domain: 'view.test',
      localPart: 'Ann',
      displayName: '',
      password: 'a good password',
    });
    const [row] = await look('ann@view.test');
    assert.ok(row);
    assert.equal(row.account_id, made.account.id);
    assert.equal(row.status, 'active');
    assert.match(row.password, /^\{ARGON2ID\}\$argon2id\$/);
    assert.ok(await verify(row.password.replace('{ARGON2ID}', ''), 'a good password'));
    await accounts.update('u1', made.account.id, { status: 'suspended' });
    assert.equal((await look('ann@view.test'))[0]?.status, 'suspended');
    await accounts.remove('u1', made.account.id);
    assert.deepEqual(await look('ann@view.test'), []);
  });

  test('of two claims on one name only the active one counts', async () => {
    const account = { domain: 'rivals.test', localPart: 'ann', displayName: '' };
    const first = await activateDomain(domains, 'u2', 'rivals.test');
    await accounts.create({ userId: 'u2', ...account });
    await lapse(first.id);
    assert.deepEqual(await look('ann@rivals.test'), []);
    await activateDomain(domains, 'u3', 'rivals.test');
    const { account: second } = await accounts.create({ userId: 'u3', ...account });
    assert.deepEqual(
      (await look('ann@rivals.test')).map(({ account_id }) => account_id),
      [second.id],
    );
  });

  test('an address is looked up by an index', async () => {
    if (engine === 'sqlite') {
      const plan = await sql<{ detail: string }>`
        explain query plan select * from dovecot_users where address = 'a@b.test'
      `.execute(database.read);
      assert.match(JSON.stringify(plan.rows), /accounts_by_(full_address|text)/);
      return;
    }
    await database.write(async (tx) => {
      // With only a few rows no planner would use it.
      await sql`set local enable_seqscan = off`.execute(tx);
      const plan = await sql`
        explain select * from dovecot_users where address = 'a@b.test'
      `.execute(tx);
      assert.match(JSON.stringify(plan.rows), /accounts_by_(full_address|text)/);
    });
  });
});
