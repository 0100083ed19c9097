/** Who holds messages in memory while they come in, and how large they may become. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { AppendedByClient, NewMessage } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { RecentMessages } from './recent.ts';
import { runCommand } from './run-command.ts';
import { type Channel, type ImapMailstore, Session } from './session.ts';
import type { Output } from './write.ts';

const APPENDED: AppendedByClient = {
  uid: 1,
  uids: [1],
  state: { mailbox: 'INBOX', uidvalidity: '1', token: '1' },
  changes: [],
};

type Store = (
  user: { readonly accountId: number },
  mailbox: string,
  messages: AsyncIterable<NewMessage>,
) => Promise<AppendedByClient>;

/** Runs an APPEND of a message, in pieces, to its answer. */
async function append(
  { accountId, userId }: { accountId: number; userId: string },
  pieces: readonly string[],
  appendMessages: Store,
  count = 1,
): Promise<string> {
  let left = count;
  const channel: Channel = {
    ...{ address: '192.0.2.1', isSecure: true, mayLogIn: true },
    signal: new AbortController().signal,
    startTls: () => {},
    admit: () => Promise.resolve(true),
    flush: () => Promise.resolve(),
    passOnTo: () => {},
    nextLine: () => Promise.resolve(undefined),
    literal: { octets: pieces.join('').length },
    async *readLiteral() {
      for (const piece of pieces) yield Buffer.from(piece);
    },
    nextMessage: () => Promise.resolve(--left > 0 ? [' '] : undefined),
  };
  const mailstore = {
    imap: { open: () => Promise.resolve({}) },
    appendMessages,
  } as unknown as ImapMailstore;
  const refuse = () => Promise.reject(new Error('nobody logs in here'));
  const logins = { withPassword: refuse, withToken: refuse };
  const recents = new RecentMessages();
  const session = new Session({ mailstore, logins, recents, maxMessageBytes: 20 }, channel);
  session.logIn({ accountId, userId, address: 'a@a.test', credentialVersion: 1, expiresAt: 0 });
  let text = '';
  const send = (output: Output) => {
    text += output;
    return undefined;
  };
  await runCommand(session, ['x APPEND INBOX '], send, () => {});
  return text;
}

test('an account holds 4 messages at once and a user 20: others have room, and who waits comes next', async (t) => {
  const started: string[] = [];
  let isOver = false;
  const held: { readonly who: string; end(): void }[] = [];
  const answers: Promise<string>[] = [];
  const begin = (userId: string, accountId: number, times: number) => {
    for (let count = 0; count < times; count++) {
      const store: Store = async () => {
        const who = `${userId} ${accountId}`;
        started.push(who);
        if (!isOver) await new Promise<void>((resolve) => held.push({ who, end: resolve }));
        return APPENDED;
      };
      answers.push(append({ accountId, userId }, ['a'], store));
    }
  };
  // Who held their places after a failure here would let the tests of other files wait for good.
  t.after(() => {
    isOver = true;
    for (const { end } of held) end();
  });
  /** How many have started where these were expected, and no other one may. */
  const settled = async (expected: number) => {
    while (started.length < expected) await turn();
    for (let count = 0; count < 20; count++) await turn();
    return started.length;
  };
  begin('ann', 1, 6);
  assert.equal(await settled(4), 4);
  for (const account of [2, 3, 4, 5]) begin('ann', account, 4);
  assert.equal(await settled(20), 20);
  // Not together with the others: where these have used their part of a turn, it would come before them.
  begin('ann', 6, 4);
  assert.equal(await settled(20), 20);
  assert.ok(!started.includes('ann 6'));
  begin('bob', 7, 1);
  assert.equal(await settled(21), 21);
  // One of account 1 ends: its slot of the user goes to who waits longest for one.
  held.shift()?.end();
  assert.equal(await settled(22), 22);
  assert.equal(started.at(-1), 'ann 6');
  while ((await settled(0)) < 27 || held.length > 0) held.shift()?.end();
  const told = await Promise.all(answers);
  assert.deepEqual(new Set(told), new Set(['x OK [APPENDUID 1 1] Stored\r\n']));
});

test('a message whose lines get their CR while it comes in is not larger than the limit for it', async () => {
  const stored: string[] = [];
  const store: Store = async (_, __, messages) => {
    for await (const { source } of messages) {
      let text = '';
      for await (const piece of source) text += Buffer.from(piece).toString();
      stored.push(text);
    }
    return APPENDED;
  };
  const ann = { accountId: 8, userId: 'ann' };
  // One of 20 octets when it is stored, and one of 20 octets in which each line end lacks its CR.
  assert.match(await append(ann, ['012345678901234\r', '\na\n'], store), /^x OK /);
  assert.deepEqual(stored.splice(0), ['012345678901234\r\na\r\n']);
  const lines = await append(ann, ['0\n1\n2\n3\n4\n', '5\n6\n7\n8\n9\n'], store);
  assert.match(lines, /^x NO \[TOOBIG\] A message has at most 20 octets/);
  assert.deepEqual(stored, []);
});

test('what is refused because the account has too much under way has the code of limits', async () => {
  const refuse: Store = async () => {
    throw new Refusal('rate_limited', 'too many long requests of this account are under way');
  };
  const told = await append({ accountId: 9, userId: 'ann' }, ['a'], refuse);
  assert.equal(told, 'x NO [LIMIT] too many long requests of this account are under way\r\n');
});

test('messages of one command that come at once leave others their turn', async (t) => {
  let now = performance.now();
  t.mock.method(performance, 'now', () => {
    now += 10;
    return now;
  });
  let read = 0;
  const store: Store = async (_user, _mailbox, messages) => {
    for await (const { source } of messages) for await (const _ of source) read++;
    return APPENDED;
  };
  let isOver = false;
  const running = append({ accountId: 1, userId: 'u' }, ['a'], store, 15).finally(() => {
    isOver = true;
  });
  let turns = 0;
  for (; !isOver; turns++) await turn();
  assert.match(await running, /^x OK /);
  assert.equal(read, 15);
  assert.ok(turns >= 14, `${turns} turns`);
});
