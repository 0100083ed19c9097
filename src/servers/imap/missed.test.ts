/** Events that never came: a connection does not outlive the access to its account. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import type { AccountAccess } from '../../tenants/accounts/accounts.ts';

test('who lost the access without an event is told BYE at the next check, and nobody else', async () => {
  const access = new Map<number, AccountAccess>(
    [1, 2, 3, 4, 5].map((id) => [id, { status: 'active', credentialVersion: 5 }]),
  );
  const appPasswords = new Set([7]);
  let looks = 0;
  const listener = await startImapWith({
    logins: {
      withPassword: async (address) => ({
        accountId: Number(address),
        address,
        userId: 'u',
        credentialVersion: 5,
        expiresAt: 0,
        ...(address === '5' && { appPasswordId: 7 }),
      }),
      withToken: () => assert.fail(),
    },
    accessOf: async () => {
      looks++;
      return access;
    },
    appPasswordsThere: async () => appPasswords,
    recheckMs: 20,
  });
  const open = async (id: number) => {
    const client = await ImapLines.connect(listener.address.port);
    await client.ok(`LOGIN ${id} x`);
    return client;
  };
  const [staying, suspended, deleted, reset] = [
    await open(1),
    await open(2),
    await open(3),
    await open(4),
  ];
  const revoked = await open(5);
  access.set(2, { status: 'suspended', credentialVersion: 5 });
  access.delete(3);
  access.set(4, { status: 'active', credentialVersion: 6 });
  for (const client of [suspended, deleted, reset]) {
    assert.match(await client.next(), /^\* BYE The account was suspended or deleted/);
    assert.equal(await client.next(), '');
  }
  await revoked.ok('NOOP');
  appPasswords.delete(7);
  assert.match(await revoked.next(), /^\* BYE The app password was revoked/);
  const before = looks;
  await staying.ok('NOOP');
  while (looks < before + 2) await staying.ok('NOOP');
  staying.close();
  await listener.close(1_000);
});
