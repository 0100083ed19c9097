/** Long commands that have begun, and do not end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import { ImapSlots } from './imap.ts';

test('an account has room for four of the longest commands, and gets it back', async () => {
  const slots = new ImapSlots();
  const listener = await startImapWith({ slots });
  const open = async (account: number) => {
    const client = await ImapLines.connect(listener.address.port);
    await client.ok(`LOGIN ${account} x`);
    return client;
  };
  const begin = async (client: ImapLines) => {
    client.send('x SEARCH TEXT {1048576}\r\n');
    assert.match(await client.next(), /^\+ /);
    client.send('a'.repeat(1024 * 1024 + 900_000));
  };
  const holding = await Promise.all([1, 1, 1, 1].map(open));
  await Promise.all(holding.map(begin));
  const fifth = await open(1);
  await begin(fifth);
  assert.match(await fifth.next(), /^\* BYE \[LIMIT\]/);
  const other = await open(2);
  await begin(other);
  other.send('\r\n');
  assert.match(await other.next(), /^x BAD/);
  for (const client of holding) {
    client.send('\r\n');
    assert.match(await client.next(), /^x BAD/);
    await client.ok('NOOP');
  }
  const again = await open(1);
  await begin(again);
  again.send('\r\n');
  assert.match(await again.next(), /^x BAD/);
  for (const client of [...holding, other, again]) client.close();
  await listener.close(1_000);
  for (let n = 0; n < 4; n++) {
    const user = { accountId: n, userId: `${n}`, address: '', credentialVersion: 0, expiresAt: 0 };
    for (let slot = 0; slot < 4; slot++) {
      assert.notEqual(typeof slots.longCommands.take(user), 'string', 'all was given back');
    }
  }
});

test('neither a user nor all together have more than their part, and short commands need none', async () => {
  const slots = new ImapSlots();
  const listener = await startImapWith({ slots });
  const user = (accountId: number, userId: string) => ({ accountId, userId });
  const held = Array.from({ length: 16 }, (_, n) => slots.longCommands.take(user(n % 4, 'u')));
  assert.ok(held.every((slot) => typeof slot === 'function'));
  assert.equal(slots.longCommands.take(user(5, 'u')), 'of_user');
  for (let n = 0; n < 48; n++) slots.longCommands.take(user(10 + n, `other ${n}`));
  const client = await ImapLines.connect(listener.address.port);
  await client.ok('LOGIN 7 x');
  client.send(`x SEARCH TEXT ${'a'.repeat(60_000)}\r\n`);
  assert.match(await client.next(), /^x BAD|^x NO/);
  client.send(`x SEARCH TEXT ${'a'.repeat(80_000)}`);
  assert.match(await client.next(), /^\* BYE \[LIMIT\]/);
  client.close();
  await listener.close(1_000);
});
