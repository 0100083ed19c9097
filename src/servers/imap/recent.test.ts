import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { RecentMessages } from './recent.ts';

test('a message is recent once, also where a mailbox was read before its last session left', async () => {
  const recents = new RecentMessages();
  const row = { id: 1, recent_uid: 1 } as OpenMailbox;
  const stored: number[] = [];
  const imap = {
    async keepRecent(_id: number, uid: number) {
      stored.push(uid);
    },
  };
  const first = recents.open(row, false);
  first.take(5);
  assert.ok(first.has(5));
  await recents.close(first, imap);
  assert.deepEqual(stored, [6]);
  const next = recents.open(row, false);
  next.take(6);
  assert.deepEqual([next.has(5), next.has(6)], [false, true]);
});
