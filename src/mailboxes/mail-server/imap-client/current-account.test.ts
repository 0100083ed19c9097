import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Command, startFakeServer } from '../../../../test/support/imap-client/fake-server.ts';
import { openImapStore } from '../../../../test/support/imap-client/open-store.ts';
import { Refusal } from '../../../platform/errors/errors.ts';
import type { MailUser } from '../../mailstore/mailstore.ts';

test('an account whose address now belongs to another account cannot open that one’s mailboxes', async () => {
  const server = await startFakeServer();
  server.add('Subject: of the new owner\r\n\r\nText\r\n');
  let current = 1;
  const { store } = await openImapStore(
    server.port,
    {},
    { isCurrent: async ({ accountId }) => accountId === current },
  );
  const old: MailUser = { accountId: 1, address: 'ann@acme.test' };
  const now: MailUser = { accountId: 2, address: 'ann@acme.test' };
  assert.equal((await store.sync(old, { mailbox: 'INBOX' })).changes.added.length, 1);

  // The domain goes to another claim, with an account of the same address.
  current = 2;
  const before = server.commands.length;
  const isRefused = (error: unknown) =>
    error instanceof Refusal && error.code === 'account_inactive';
  const attempts: (() => Promise<unknown>)[] = [
    () => store.listMailboxes(old),
    () => store.sync(old, { mailbox: 'INBOX' }),
    () => store.fetchMessage(old, 'INBOX', 1),
    () => store.fetchPart(old, 'INBOX', 1, '1'),
    () => store.setFlags(old, { mailbox: 'INBOX', uids: [1] }, { add: ['\\Seen'] }),
    () => store.move(old, { mailbox: 'INBOX', uids: [1] }, 'Trash'),
    () => store.expunge(old, { mailbox: 'INBOX', uids: [1] }),
    () => store.changeOf(old, 'INBOX'),
  ];
  for (const attempt of attempts) await assert.rejects(attempt(), isRefused, String(attempt));
  assert.equal(server.commands.length, before, 'not one command went to the server');
  assert.equal((await store.sync(now, { mailbox: 'INBOX' })).changes.added.length, 1);
});

test('an address that changes its owner while its connection is opened is not read either', async () => {
  const server = await startFakeServer();
  server.add('Subject: of the new owner\r\n\r\nText\r\n');
  const old: MailUser = { accountId: 1, address: 'ann@acme.test' };
  let current = 1;
  const { store } = await openImapStore(
    server.port,
    {},
    { isCurrent: async ({ accountId }) => accountId === current },
  );
  server.fault = ({ name }) => {
    if (name === 'AUTHENTICATE' || name === 'LOGIN') current = 2;
    return undefined;
  };
  await assert.rejects(store.sync(old, { mailbox: 'INBOX' }), { code: 'account_inactive' });
  assert.ok(!server.commands.some(({ name }) => name === 'EXAMINE'));
  assert.equal(store.load.open, 0);
});

test('an address with the separator in it is opened by SASL PLAIN, where the server does that', async () => {
  const server = await startFakeServer();
  server.add('Subject: one\r\n\r\nText\r\n');
  const { store } = await openImapStore(server.port);
  const user: MailUser = { accountId: 1, address: 'a*b@acme.test' };
  const refusing = (who: string) => (command: Command) =>
    command.name === 'AUTHENTICATE' && command.user === who
      ? { send: 'TAG NO [AUTHENTICATIONFAILED] no\r\n' }
      : undefined;
  server.fault = refusing('a*b@acme.test*master');
  assert.equal((await store.sync(user, { mailbox: 'INBOX' })).changes.added.length, 1);
  store.close();

  const second = await openImapStore(server.port);
  server.fault = refusing('a*b@acme.test');
  assert.equal((await second.store.sync(user, { mailbox: 'INBOX' })).changes.added.length, 1);
});
