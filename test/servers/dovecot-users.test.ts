/** Dovecot with the files of `deploy/dovecot/` on Postroom's database: who gets in, and when. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { ImapFlow } from 'imapflow';
import { createTransport } from 'nodemailer';
import { Client } from 'pg';
import type { Engine } from '../../src/platform/database/database.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { type DovecotServer, startDovecot } from './dovecot.ts';

/** What the guide tells operators to do in PostgreSQL. */
async function makeRole(url: string): Promise<string> {
  const { hostname, port, pathname } = new URL(url);
  const database = pathname.slice(1);
  const role = `dovecot_${database}`;
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(`create role ${role} login password 'secret'`);
  await client.query(`grant select on dovecot_users to ${role}`);
  await client.end();
  return `host=${hostname} port=${port} dbname=${database} user=${role} password=secret`;
}

async function startOn(engine: Engine, location: string): Promise<DovecotServer> {
  return startDovecot({
    users:
      engine === 'sqlite'
        ? { from: 'sqlite', path: location }
        : { from: 'postgresql', connect: await makeRole(location) },
  });
}

function testUsers(engine: Engine): void {
  let postroom: TestService;
  let dovecot: DovecotServer;
  let ann: TestAccount;

  before(async () => {
    postroom = await startTestService(engine);
    dovecot = await startOn(engine, postroom.databaseLocation);
    ann = await postroom.makeAccount('ann');
  });
  after(() => dovecot?.stop());

  async function countMail(auth: { user: string; pass: string }): Promise<number> {
    const { host, imapPort: port } = dovecot;
    const client = new ImapFlow({ host, port, secure: false, auth, logger: false });
    await client.connect();
    try {
      return (await client.mailboxOpen('INBOX')).exists;
    } finally {
      await client.logout();
    }
  }
  const logIn = (account: { address: string; password: string }) =>
    countMail({ user: account.address, pass: account.password });

  async function create(localPart: string) {
    const made = await postroom.v2('POST', '/v2/email-accounts/create', {
      user_id: ann.userId,
      domain: ann.domain,
      local_part: localPart,
      display_name: 'Test',
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const { account, password } = made.body;
    return { id: account.id as number, address: account.address as string, password };
  }

  async function deliver(to: string): Promise<number> {
    const transport = createTransport({ lmtp: true, host: dovecot.host, port: dovecot.lmtpPort });
    try {
      await transport.sendMail({ from: 'bob@sender.test', to, subject: 'Hi', text: 'Hi' });
      return 250;
    } catch (error) {
      assert.ok(error instanceof Error && 'responseCode' in error);
      return Number(error.responseCode);
    } finally {
      transport.close();
    }
  }

  test('a new account logs in at once with its one-time password, by master too', async () => {
    const bea = await create('bea');
    assert.equal(await logIn(bea), 0);
    assert.equal(await countMail(dovecot.loginAs(bea.address)), 0);
    assert.equal(await logIn({ ...bea, address: bea.address.toUpperCase() }), 0);
    await assert.rejects(logIn({ ...bea, password: 'wrong' }));
  });

  test('every character that a local part may have is accepted', async () => {
    for (const localPart of ["o'brien", 'a&b', '!#$%', 'a=b?c^_`{|}~', 'a/b']) {
      const account = await create(localPart);
      assert.equal(await deliver(account.address), 250, localPart);
      assert.equal(await logIn(account), 1, localPart);
      assert.equal(await countMail(dovecot.loginAs(account.address)), 1, localPart);
    }
  });

  test('a password reset counts at once', async () => {
    const cid = await create('cid');
    await logIn(cid);
    const path = `/v2/email-accounts/${cid.id}/password/reset`;
    const reset = await postroom.v2('POST', path, { user_id: ann.userId });
    await assert.rejects(logIn(cid));
    await logIn({ ...cid, password: reset.body.password });
  });

  test('a suspended account cannot log in, and its mail is refused for now', async () => {
    const dan = await create('dan');
    const set = (status: string) =>
      postroom.v2('PUT', `/v2/email-accounts/${dan.id}`, { user_id: ann.userId, status });
    assert.equal(await deliver(dan.address), 250);
    await set('suspended');
    await assert.rejects(logIn(dan));
    await assert.rejects(countMail(dovecot.loginAs(dan.address)));
    assert.equal(Math.floor((await deliver(dan.address)) / 100), 4);
    await set('active');
    assert.equal(await deliver(dan.address), 250);
    assert.equal(await logIn(dan), 2);
  });

  test('a deleted account cannot log in, and a new one of the same address starts empty', async () => {
    const eve = await create('eve');
    assert.equal(await deliver(eve.address), 250);
    assert.equal(await deliver(eve.address.replace('@', '+tag@')), 250);
    assert.equal(await logIn(eve), 2);
    await postroom.v2('POST', '/v2/email-accounts/delete', { id: eve.id, user_id: ann.userId });
    await assert.rejects(logIn(eve));
    await assert.rejects(countMail(dovecot.loginAs(eve.address)));
    assert.equal(await deliver(eve.address), 550);
    assert.equal(await logIn(await create('eve')), 0);
  });

  test('an unknown recipient is refused for good', async () => {
    assert.equal(await deliver(`nobody@${ann.domain}`), 550);
  });
}

// Dovecot asks each engine in another way, so both run here.
for (const engine of ['sqlite', 'postgres'] as const) {
  void suite(`Dovecot users on ${engine}`, () => testUsers(engine));
}
