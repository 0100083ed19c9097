/** What a command still does whose client has left, or may not go on. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { atEnd } from '../../../test/support/at-end.ts';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import type { AccountChange } from '../../mailboxes/changes/changes.ts';
import type { MessageSet, NewMessage } from '../../mailboxes/mailstore/mailstore.ts';
import { type ImapMailstore, ImapSlots, OpenSessions } from './imap.ts';

const MESSAGES = 2_500;
const MAILBOX = {
  ...{ id: 1, name: 'INBOX', uidvalidity: 1, highestmodseq: 1, pruned_modseq: 0, fork_modseq: 0 },
  ...{ uidnext: MESSAGES + 1, messages: MESSAGES, unseen: 0, octets: 0, special_use: null },
  ...{ keywords: '', recent_uid: MESSAGES },
};

/** A client of a mailbox whose batches end when the test says so. */
async function start() {
  const uids = Array.from({ length: MESSAGES }, (_, at) => at + 1);
  const index = { uids, modseqs: uids, flags: uids.map(() => '\\Deleted') };
  const batches: { readonly size: number; readonly end: () => void }[] = [];
  const begun = { wake: () => {} };
  const work = async (set: readonly number[]) => {
    const { promise, resolve: end } = Promise.withResolvers<void>();
    batches.push({ size: set.length, end });
    begun.wake();
    await promise;
  };
  const relocate = async (_: unknown, { uids: some }: MessageSet) => {
    await work(some);
    const state = { mailbox: 'Archive', uidvalidity: '2', token: '1' };
    return { state, uids: new Map(some.map((uid) => [uid, uid])), changes: [] };
  };
  const mailstore = {
    imap: {
      open: async () => MAILBOX,
      select: async () => ({ mailbox: MAILBOX, index }),
      index: async () => index,
      keywords: async () => [],
      keepRecent: async () => {},
      objectIds: { mailbox: () => 'M1' },
      facts: {
        async read(_: unknown, __: unknown, some: readonly number[]) {
          await work(some);
          return some.map((uid) => ({ uid, body_id: uid, size: uid }));
        },
      },
    },
    sync: async () => ({ token: '1', changes: { added: [], updated: [], removed: [] } }),
    move: relocate,
    copy: relocate,
    expunge: async (_: unknown, { uids: some }: MessageSet) => work(some),
    async setFlags(_: unknown, { uids: some }: MessageSet) {
      await work(some);
      return { updated: some.map((uid) => ({ uid, flags: [], modseq: '2' })), changes: [] };
    },
    async appendMessages(_: unknown, __: string, all: AsyncIterable<NewMessage>) {
      for await (const { source } of all) for await (const _ of source) void work([1]);
      assert.fail('the message came whole');
    },
  };
  const sessions = new OpenSessions();
  const slots = new ImapSlots();
  let tell: (change: AccountChange) => void = () => {};
  const listener = await startImapWith({
    mailstore: mailstore as unknown as ImapMailstore,
    changes: {
      subscribe: (_, listen) => {
        tell = listen;
        return () => {};
      },
    },
    sessions,
    slots,
    maxMessageBytes: 1_000_000,
  });
  atEnd(() => listener.close(1_000));
  const client = await ImapLines.connect(listener.address.port);
  await client.ok('LOGIN 1 x');
  await client.ok('SELECT INBOX');
  /** The next batch that begins. */
  const batch = async () => {
    const before = batches.length;
    const { promise, resolve } = Promise.withResolvers<void>();
    begun.wake = resolve;
    await promise;
    return batches[before] ?? assert.fail();
  };
  const endSession = () => {
    const [session] = sessions.list({ limit: 1 });
    tell({ kind: 'mail_sessions', accountId: 1, by: 'session', id: session?.id ?? '' });
  };
  /** The server knows that the client has left. */
  const seen = async () => {
    while (sessions.list({ limit: 1 }).length > 0) await turn();
  };
  /** It has given its slots back. */
  const gone = async () => {
    while (slots.accounts.taken > 0) await turn();
  };
  return { client, batch, batches, endSession, seen, gone };
}

const ENDED = '* BYE The session was ended by the operator of the server';
const IN_BATCHES = ['MOVE 1:* Archive', 'EXPUNGE', 'CLOSE', 'STORE 1:* +FLAGS.SILENT (x)'];

for (const command of IN_BATCHES) {
  test(`${command} ends with its batch where its client has left`, async () => {
    const { client, batch, batches, seen, gone } = await start();
    const first = batch();
    client.send(`x ${command}\r\n`);
    const { size, end } = await first;
    assert.equal(size, 1_000);
    client.socket.resetAndDestroy();
    await seen();
    end();
    await gone();
    assert.equal(batches.length, 1);
  });

  test(`${command} ends with its batch where an operator ends its session`, async () => {
    const { client, batch, batches, endSession } = await start();
    const first = batch();
    client.send(`x ${command}\r\n`);
    const { end } = await first;
    endSession();
    end();
    const lines: string[] = [];
    for (let line = await client.next(); line !== ''; line = await client.next()) lines.push(line);
    assert.deepEqual(lines, [ENDED]);
    assert.equal(batches.length, 1);
  });
}

test('COPY is of all or none: it ends, and then its session', async () => {
  const { client, batch, batches, endSession } = await start();
  const first = batch();
  client.send('x COPY 1:* Archive\r\n');
  const { size, end } = await first;
  assert.equal(size, MESSAGES);
  endSession();
  end();
  assert.equal(await client.next(), 'x OK [COPYUID 2 1:2500 1:2500] Copied');
  assert.equal(await client.next(), ENDED);
  assert.equal(batches.length, 1);
});

test('FETCH sends what it has read, and no more', async (t) => {
  // Others have their turn between any two messages.
  let now = performance.now();
  t.mock.method(performance, 'now', () => {
    now += 11;
    return now;
  });
  const { client, batch, batches, endSession } = await start();
  const first = batch();
  client.send('x FETCH 1:* (RFC822.SIZE)\r\n');
  const { size, end } = await first;
  endSession();
  end();
  for (let number = 1; number <= size; number++) {
    assert.equal(await client.next(), `* ${number} FETCH (RFC822.SIZE ${number})`);
  }
  assert.equal(await client.next(), ENDED);
  assert.equal(batches.length, 1);
});

test('a message that did not come whole is not waited for', async () => {
  const { client, batch, endSession } = await start();
  client.send('x APPEND INBOX {900}\r\n');
  assert.match(await client.next(), /^\+ /);
  const first = batch();
  client.send('Subject: ');
  await first;
  endSession();
  assert.equal(await client.next(), ENDED);
  assert.equal(await client.next(), '');
});

test('who waits in IDLE is told BYE alone', async () => {
  const { client, endSession } = await start();
  client.send('x IDLE\r\n');
  assert.equal(await client.next(), '+ Waiting for changes');
  endSession();
  assert.equal(await client.next(), ENDED);
  assert.equal(await client.next(), '');
});
