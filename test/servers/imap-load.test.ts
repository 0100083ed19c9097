/** Many accounts of a real Dovecot whose master password is hashed as the guide says. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openImapStore } from '../../src/mail-server/imap/testing/open-store.ts';
import type { MailUser } from '../../src/mailstore/mailstore.ts';
import { type DovecotServer, startDovecot } from './dovecot.ts';

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

  void test('get in at once after a restart, each with its first request', async () => {
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
