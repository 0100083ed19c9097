/** Set-ups of a real Dovecot: many accounts, with the guide's hash of the master password; ACLs. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MailUser } from '../../src/mailboxes/mailstore/mailstore.ts';
import { openImapStore } from '../support/imap-client/open-store.ts';
import { startTestService } from '../support/service.ts';
import { type DovecotServer, startDovecot } from './dovecot.ts';
import { mailstoreUrl } from './imap-client.ts';

const ACCOUNTS = 120;

void suite('many accounts of one Dovecot', () => {
  let server: DovecotServer;
  const users: MailUser[] = [];
  before(async () => {
    server = await startDovecot({ masterScheme: 'SSHA512' });
    while (users.length < ACCOUNTS) {
      const user = { accountId: users.length + 1, address: `u${users.length + 1}@acme.test` };
      await server.addAccount(user.address);
      users.push(user);
    }
    // Dovecot looks at most once a second whether its file of accounts has changed.
    await sleep(1_100);
  });
  after(() => server?.stop());

  void test('are served at once after a restart, each with its first request', async () => {
    const { password } = new URL(server.mailstoreUrl);
    const master = { user: 'postroom', password };
    const { store } = await openImapStore(server.imapPort, { master }, { timeoutMs: 20_000 });
    const syncAll = () => Promise.all(users.map((user) => store.sync(user, { mailbox: 'INBOX' })));
    assert.equal((await syncAll()).length, ACCOUNTS);
    await server.pause();
    await server.resume();
    assert.equal((await syncAll()).length, ACCOUNTS);
  });
});

void suite('a Dovecot with ACLs', () => {
  const settings = (acl: string) => `\
mail_plugins = $mail_plugins acl
plugin {
  acl = vfile
${acl}}`;

  for (const [title, acl, isOpen] of [
    ['that go by the master, as they come', '', false],
    ['that go by the account, as the guide has it', '  acl_user = %u\n', true],
  ] as const) {
    void test(title, async () => {
      const server = await startDovecot({ settings: settings(acl) });
      try {
        const user = { accountId: 1, address: 'ann@acme.test' };
        await server.addAccount(user.address);
        const { password } = new URL(server.mailstoreUrl);
        const master = { user: 'postroom', password };
        const { store, logged } = await openImapStore(server.imapPort, { master });
        for (const mailbox of ['INBOX', 'Sent']) {
          const synced = store.sync(user, { mailbox });
          await (isOpen ? synced : assert.rejects(synced, { code: 'unavailable' }));
        }
        assert.deepEqual(
          logged.map(({ failure }) => failure),
          isOpen ? [] : ['no_access', 'no_access'],
        );
        store.close();
      } finally {
        await server.stop();
      }
    });
  }
});

void suite('the master password of a Dovecot', () => {
  for (const [title, wrong, status] of [
    ['is right: ready', false, 200],
    ['is wrong: not ready', true, 503],
  ] as const) {
    void test(title, async () => {
      const server = await startDovecot();
      const url = new URL(mailstoreUrl(server));
      if (wrong) url.password = 'wrong';
      const service = await startTestService('sqlite', { MAILSTORE_URL: url.href });
      try {
        const { address } = await service.makeAccount();
        await server.addAccount(address);
        const ready = async () => (await fetch(`${service.url}/readyz`)).status;
        // Dovecot looks at most once a second whether its file of accounts has changed.
        for (let tries = 0; tries < 50 && (await ready()) !== status; tries++) await sleep(100);
        assert.equal(await ready(), status);
      } finally {
        await service.stop();
        await server.stop();
      }
    });
  }

  void test('is changed and restored while Postroom runs: not ready, then ready', async () => {
    const server = await startDovecot();
    const service = await startTestService('sqlite', { MAILSTORE_URL: mailstoreUrl(server) });
    try {
      const accounts = [];
      while (accounts.length < 3) {
        const account = await service.makeAccount();
        await server.addAccount(account.address);
        accounts.push(account);
      }
      const [first, second, third] = accounts;
      const sync = async (account = first) =>
        (await service.mail(account?.token ?? '', 'POST', '/mail/sync', {})).status;
      const ready = async () => (await fetch(`${service.url}/readyz`)).status;
      const until = async (ask: () => Promise<number>, status: number) => {
        for (let tries = 0; tries < 100 && (await ask()) !== status; tries++) await sleep(100);
        assert.equal(await ask(), status);
      };
      await until(sync, 200);
      assert.equal(await ready(), 200);
      const file = join(server.directory, 'master-users');
      const right = await readFile(file, 'utf8');
      await writeFile(file, 'postroom:{PLAIN}another\n');
      // Dovecot looks at most once a second whether the file has changed.
      await sleep(1_100);
      assert.equal(await sync(second), 503);
      await until(ready, 503);
      assert.equal(await sync(), 200, 'on the connection that it has');
      await writeFile(file, right);
      await sleep(1_100);
      await until(() => sync(third), 200);
      assert.equal(await ready(), 200);
    } finally {
      await service.stop();
      await server.stop();
    }
  });
});
