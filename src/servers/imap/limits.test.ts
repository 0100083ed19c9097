/** Who takes time or slots from others is told BYE. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import type { NewMessage } from '../../mailboxes/mailstore/mailstore.ts';
import { CommandReader } from './command-reader.ts';
import { timeouts } from './connection-settings.ts';
import { ImapSlots } from './imap.ts';
import { runCommand } from './run-command.ts';
import { type Channel, type ImapMailstore, type ImapServices, Session } from './session.ts';

const slots = new ImapSlots();
const refused: string[] = [];
const listener = await startImapWith({
  mailstore: {
    imap: { open: async () => {} },
    async appendMessages(_user: unknown, _name: string, all: AsyncIterable<NewMessage>) {
      for await (const { source } of all) for await (const _ of source);
      assert.fail('the message came whole');
    },
  } as unknown as ImapMailstore,
  slots,
  onRefused: (reason) => refused.push(reason),
});
const { port } = listener.address;

describe('the limits of a connection', () => {
  const usual = { ...timeouts };
  before(() => void Object.assign(timeouts, { stranger: 100, slow: 100 }));
  after(async () => {
    await listener.close(1_000);
    Object.assign(timeouts, usual);
  });

  test('a stranger has no more time, whatever he sends', async () => {
    const client = await ImapLines.connect(port);
    let line: string;
    do {
      client.send('x NOOP\r\n');
      line = await client.next();
    } while (line.startsWith('x OK'));
    assert.equal(line, '* BYE Too long without a login');
  });

  test('a stranger who sends what is no command is told BYE', async () => {
    const client = await ImapLines.connect(port);
    client.send('\r\n'.repeat(1_000));
    for (let count = 0; count < 20; count++) assert.match(await client.next(), /^\* BAD /);
    assert.equal(await client.next(), '* BYE Too many commands that are not valid');
    assert.equal(await client.next(), '');
  });

  test('the accounts of one user do not take all slots', async () => {
    const taken = Array.from({ length: 5_000 }, (_, at) =>
      slots.accounts.take({ accountId: 10 + at, userId: 'u' }),
    );
    const client = await ImapLines.connect(port);
    client.send('x LOGIN 2 x\r\n');
    assert.match(await client.next(), /^\* BYE \[LIMIT\]/);
    for (const giveBack of taken) {
      assert.ok(typeof giveBack !== 'string');
      giveBack();
    }
    assert.deepEqual(refused, ['of_user']);
    assert.equal(slots.accounts.taken, 0);
  });

  test('a message that stalls gives its turn to others', async () => {
    const client = await ImapLines.connect(port);
    await client.ok('LOGIN 1 x');
    client.send('x APPEND INBOX {900}\r\n');
    assert.match(await client.next(), /^\+ /);
    client.send('Subject: ');
    assert.equal(await client.next(), '* BYE The message came too slowly');
  });
});

test('an account has 64 connections, and one that ends gives its place to another', async () => {
  const slots = new ImapSlots();
  const refused: string[] = [];
  const listener = await startImapWith({ slots, onRefused: (reason) => refused.push(reason) });
  const logIn = async () => {
    const client = await ImapLines.connect(listener.address.port);
    client.send('x LOGIN 3 x\r\n');
    return { client, answer: await client.next() };
  };
  const all = [];
  while (all.length < 64) all.push(await logIn());
  assert.ok(all.every(({ answer }) => answer.startsWith('x OK ')));
  assert.match((await logIn()).answer, /^\* BYE \[LIMIT\]/);
  assert.deepEqual(refused, ['of_account']);
  await all[0]?.client.ok('LOGOUT');
  assert.equal(await all[0]?.client.next(), '');
  assert.match((await logIn()).answer, /^x OK /);
  await listener.close(1_000);
  assert.equal(slots.accounts.taken, 0);
});

describe('commands that came together leave others their turn', () => {
  // It never goes back: what was used of a turn is counted by it.
  let now = performance.now();
  for (const [who, text] of [
    ['a stranger', 'x NOOP'],
    ['a user', 'x NOOP'],
    ['a user', ''],
  ] as const) {
    test(`${who}: "${text}"`, async (t) => {
      t.mock.method(performance, 'now', () => {
        now += 10;
        return now;
      });
      const session = new Session({} as ImapServices, { address: '192.0.2.7' } as Channel);
      const user = { accountId: 1, userId: 'u', address: 'a@b.test', credentialVersion: 1 };
      if (who === 'a user') session.logIn({ ...user, expiresAt: 0 });
      let isOver = false;
      const running = (async () => {
        for (let count = 0; count < 20; count++) {
          await runCommand(
            session,
            [text],
            () => undefined,
            () => {},
          );
          session.isBehind = false;
        }
      })().finally(() => {
        isOver = true;
      });
      let turns = 0;
      for (; !isOver; turns++) await turn();
      await running;
      assert.ok(turns >= 19, `${turns} turns`);
    });
  }
});

test('whether there is room for a literal is known without a look at those before', () => {
  const reader = new CommandReader({ line: 100, literals: 2, literalOctets: 10 });
  const roomOf = (text: string) => {
    reader.push(Buffer.from(text));
    const rooms: boolean[] = [];
    for (let next = reader.next(); next?.kind === 'literal'; next = reader.next()) {
      const { octets } = next.literal;
      const parts = { get: () => assert.fail('the parts were counted again') };
      const literal = Object.defineProperty({ octets }, 'parts', parts);
      rooms.push(reader.hasRoomFor(literal));
      reader.keep(literal);
    }
    return rooms;
  };
  assert.deepEqual(roomOf('a {6+}\r\n123456 {5+}\r\n12345 {1+}\r\n1\r\n'), [true, false, false]);
  assert.deepEqual(roomOf('a {6+}\r\n123456 {4+}\r\n1234\r\n'), [true, true]);
});
