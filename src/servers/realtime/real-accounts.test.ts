/** The channel with the real tokens, accounts and mail store, as in the service. */

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, sampleMessage } from '../../../test/support/mail.ts';
import {
  askForUpgrade,
  startRealtime,
  TestClient,
} from '../../../test/support/realtime/start-realtime.ts';
import { openTenants, openTokens } from '../../../test/support/tenants.ts';
import { InProcessChanges } from '../../mailboxes/changes/changes.ts';
import { findAccess } from '../../tenants/accounts/accounts.ts';

const SECRET = 'a secret of thirty-two bytes, or more';

onEachEngine('realtime', (engine) => {
  async function start() {
    const { database, mailstore, makeUser, stage, append } = await openTestMailstore(engine);
    const changes = new InProcessChanges();
    const { accounts } = openTenants(database, { changes });
    const tokens = openTokens(database, { secret: [SECRET] });
    const { port, realtime } = await startRealtime({
      changes,
      shared: {
        state: {
          accessOf: (ids) => findAccess(database.read, ids),
          tipsOf: (users) => mailstore.tipsOf(users.map(({ accountId }) => accountId)),
        },
        slots: { take: async (_key, wanted) => wanted, give: () => {} },
      },
      authenticate: (token) => tokens.authenticate(token),
      listMailboxes: (user) => mailstore.listMailboxes(user),
    });
    const user = await makeUser();
    const { token } = await tokens.issue({ id: user.accountId });
    return { changes, accounts, mailstore, stage, append, port, realtime, database, user, token };
  }

  test('an incoming message is announced with the token of a sync', async () => {
    const { changes, mailstore, stage, append, port, user, token } = await start();
    const client = new TestClient(port, token);
    const hello = (await client.next()) as { user: string; mailboxes: { mailbox: string }[] };
    assert.equal(hello.user, user.address);
    assert.equal(hello.mailboxes[0]?.mailbox, 'INBOX');

    const staged = await stage(sampleMessage('first'));
    const [appended] = await append(staged, [{ user, mailbox: 'INBOX' }]);
    assert.ok(appended);
    changes.publish(appended.change);
    const told = (await client.next()) as { mailbox: string; uidvalidity: string; token: string };
    const { changes: synced, ...now } = await mailstore.sync(user, { mailbox: 'INBOX' });
    assert.equal(synced.added.length, 1);
    assert.deepEqual(told, {
      type: 'mailbox_changed',
      mailbox: 'INBOX',
      uidvalidity: now.uidvalidity,
      token: now.token,
      eventType: 'MailboxesChanged',
    });

    // A client that connects later sees it in hello.
    const later = new TestClient(port, token);
    const { mailboxes } = (await later.next()) as { mailboxes: { token: string }[] };
    assert.equal(mailboxes[0]?.token, now.token);
  });

  test('tokens with a foreign signature are refused', async () => {
    const { port, user, token } = await start();
    const [header = '', payload = '', signature = ''] = token.split('.');
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const sign = (text: string, key: string) =>
      `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`;
    const none = encode({ alg: 'none', typ: 'JWT' });
    const expired = encode({ sub: user.address, iat: 1, exp: 2 });
    for (const garbage of [
      `${none}.${payload}.`,
      `${none}.${payload}.${signature}`,
      `${encode({ alg: 'nOnE' })}.${payload}.`,
      `${header}.${payload}`,
      `${header}.${payload}.`,
      `${header}.${encode({ sub: user.address, exp: 4e9 })}.${signature}`,
      sign(`${header}.${payload}`, 'another secret of thirty-two bytes'),
      sign(`${header}.${expired}`, SECRET),
      '...',
      'x'.repeat(10_000),
    ]) {
      const answer = await askForUpgrade(port, { authorization: `Bearer ${garbage}` });
      assert.equal(answer.status, 401, garbage);
      assert.equal(answer.body.code, 'unauthorized');
    }
  });

  test('a password reset ends the connection and its token', async () => {
    const { accounts, port, user, token } = await start();
    const client = new TestClient(port, token);
    await client.next();
    await accounts.resetPassword('user1', user.accountId);
    assert.equal((await client.closed).code, 4401);
    const again = await askForUpgrade(port, { authorization: `Bearer ${token}` });
    assert.equal(again.status, 401);
  });

  test('a suspension ends the connection, and no client can connect until it ends', async () => {
    const { accounts, port, user, token } = await start();
    const client = new TestClient(port, token);
    await client.next();
    await accounts.update('user1', user.accountId, { status: 'suspended' });
    assert.equal((await client.closed).code, 4403);
    const refused = await askForUpgrade(port, { authorization: `Bearer ${token}` });
    assert.equal(refused.status, 403);
    assert.equal(refused.body.code, 'account_inactive');
    await accounts.update('user1', user.accountId, { status: 'active' });
    await new TestClient(port, token).next();
  });

  test('a deletion ends the connection', async () => {
    const { accounts, port, user, token } = await start();
    const client = new TestClient(port, token);
    await client.next();
    await accounts.remove('user1', user.accountId);
    assert.equal((await client.closed).code, 4403);
    const refused = await askForUpgrade(port, { authorization: `Bearer ${token}` });
    assert.equal(refused.status, 401);
  });

  test('a change of another node without an event is found by a look, once', async () => {
    const { append, stage, mailstore, port, realtime, user, token } = await start();
    const client = new TestClient(port, token);
    await client.next();
    await realtime.resync(false);
    await append(await stage(sampleMessage('first')), [{ user, mailbox: 'INBOX' }]);
    await mailstore.createMailbox(user, 'Projects');
    await realtime.resync(false);
    await realtime.resync(false);
    await mailstore.deleteMailbox(user, 'Projects');
    await realtime.resync(false);
    const told = [];
    for (let i = 0; i < 4; i++) told.push(await client.next());
    const inbox = (await mailstore.listMailboxes(user)).find(({ mailbox }) => mailbox === 'INBOX');
    const [first, second, third, fourth] = told as { mailbox?: string; type: string }[];
    assert.deepEqual(first, {
      type: 'mailbox_changed',
      mailbox: 'INBOX',
      uidvalidity: inbox?.uidvalidity,
      token: inbox?.token,
      eventType: 'MailboxesChanged',
    });
    assert.equal(second?.mailbox, 'Projects');
    assert.deepEqual([third?.type, fourth?.type], ['mailboxes_changed', 'mailboxes_changed']);
  });

  test('a look ends connections of accounts that changed without an event', async () => {
    const { database, port, realtime, user, token } = await start();
    const client = new TestClient(port, token);
    await client.next();
    await database.write((tx) =>
      tx
        .updateTable('accounts')
        .set({ credential_version: 2 })
        .where('id', '=', user.accountId)
        .execute(),
    );
    await realtime.resync(false);
    assert.equal((await client.closed).code, 4401);
  });
});
