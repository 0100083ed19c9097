/** Lists in commands: each item may be worked on for each message or mailbox, so that there are not many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BadCommand, Cursor } from './cursor.ts';
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
