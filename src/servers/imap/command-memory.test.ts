/** Long commands that have begun, and do not end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import { CommandMemory, HeldCommand } from './command-memory.ts';
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
    assert.ok(slots.memory.take(user, 8 * 1024 * 1024), 'all was given back');
  }
});

test('neither a user nor all together have more than their part', () => {
  const memory = new CommandMemory();
  const held = (accountId: number, userId: string) => {
    const user = { accountId, userId, address: '', credentialVersion: 0, expiresAt: 0 };
    const command = new HeldCommand(memory);
    return command.reach(8 * 1024 * 1024, user) ? command : undefined;
  };
  const first = [1, 2, 3, 4].map((n) => held(n, 'u'));
  assert.ok(first.every(Boolean));
  assert.equal(held(5, 'u'), undefined);
  const others = Array.from({ length: 20 }, (_, n) => held(10 + n, `other ${n}`)).filter(Boolean);
  assert.equal(others.length, 12);
  first[0]?.release();
  first[0]?.release();
  assert.ok(held(5, 'u'));
  assert.equal(held(6, 'v'), undefined);
});
