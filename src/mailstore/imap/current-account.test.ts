import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refusal } from '../../errors/errors.ts';
import type { MailUser } from '../mailstore.ts';
import { startFakeServer } from './testing/fake-server.ts';
import { openImapStore } from './testing/open-store.ts';

test('an account whose address is another account’s now opens nothing of it', async () => {
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
    () => store.setFlags(old, 'INBOX', [1], { add: ['\\Seen'] }),
    () => store.move(old, 'INBOX', [1], 'Trash'),
    () => store.expunge(old, 'INBOX', [1]),
    () => store.changeOf(old, 'INBOX'),
  ];
  for (const attempt of attempts) await assert.rejects(attempt(), isRefused, String(attempt));
  assert.equal(server.commands.length, before, 'not one command went to the server');
  assert.equal((await store.sync(now, { mailbox: 'INBOX' })).changes.added.length, 1);
});
