/** Lists in commands: each item may be worked on for each message or mailbox, so that there are not many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { BadCommand, Cursor } from './cursor.ts';
import { list } from './list.ts';
import type { Session } from './session.ts';
import { readStatusItems } from './status.ts';
import { readFlags } from './store.ts';

test('STATUS, which LIST answers for each mailbox, has each item once', () => {
  const items = readStatusItems(new Cursor(['(MESSAGES UNSEEN messages UNSEEN)']));
  assert.deepEqual(items, ['MESSAGES', 'UNSEEN']);
});

test('a list that is longer than any command needs is not read to its end', () => {
  let read = 0;
  const flag = (cursor: Cursor) => {
    read++;
    return cursor.atom('a flag');
  };
  const list = new Cursor([`(${'a '.repeat(100_000)}a)`]);
  assert.throws(() => list.list(() => flag(list)), BadCommand);
  const names = new Cursor([' a'.repeat(100_000)]);
  assert.throws(() => names.others(() => flag(names)), BadCommand);
  assert.ok(read < 3_000, `${read} items were read`);
  assert.throws(() => readFlags(new Cursor(['a '.repeat(100_000)])), BadCommand);
  assert.equal(readFlags(new Cursor([`(${'a '.repeat(500)}a)`])).length, 501);
});

test('LIST leaves others their turn between the mailboxes whose STATUS it tells', async (t) => {
  let now = performance.now();
  t.mock.method(performance, 'now', () => {
    now += 11;
    return now;
  });
  const mailboxes = Array.from({ length: 50 }, (_, at) => ({ id: at, name: `m${at}` }));
  const imap = {
    list: async () => mailboxes,
    subscriptions: async () => new Map(),
    deleted: async () => ({ messages: 1, octets: 2 }),
  };
  const session = {
    user: { accountId: 1, userId: 'u', address: 'a@b.test' },
    channel: { signal: new AbortController().signal },
    services: { mailstore: { imap }, recents: { from: () => 1 } },
  } as unknown as Session;
  const lines: unknown[] = [];
  let isOver = false;
  const reading = (async () => {
    for await (const line of list.run(session, new Cursor([' "" * RETURN (STATUS (DELETED))'])))
      lines.push(line);
  })().finally(() => {
    isOver = true;
  });
  let turns = 0;
  for (; !isOver; turns++) await turn();
  await reading;
  assert.equal(lines.length, 100);
  // One for each as it is looked for, and one as it is told.
  assert.ok(turns >= 100, `${turns} turns`);
});
