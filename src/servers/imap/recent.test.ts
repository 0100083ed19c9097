import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { RecentMessages } from './recent.ts';
import type { Session } from './session.ts';
import { writeStatus } from './status.ts';

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

test('STATUS counts messages only where some may be what it asks for', async () => {
  const recents = new RecentMessages();
  const counted: string[] = [];
  const imap = {
    async countFrom({ name }: OpenMailbox, uid: number) {
      counted.push(`${name} from ${uid}`);
      return 2;
    },
    async deleted({ name }: OpenMailbox) {
      counted.push(`deleted of ${name}`);
      return { messages: 1, octets: 9 };
    },
  };
  const session = { services: { recents, mailstore: { imap } } } as unknown as Session;
  const statusOf = (name: string, messages: number, recent_uid: number) => {
    const mailbox = { id: 1, name, messages, recent_uid, uidnext: 6 } as OpenMailbox;
    return writeStatus(session, mailbox, ['RECENT', 'DELETED', 'DELETED-STORAGE']);
  };
  assert.equal(
    await statusOf('Empty', 0, 6),
    '* STATUS "Empty" (RECENT 0 DELETED 0 DELETED-STORAGE 0)\r\n',
  );
  assert.deepEqual(counted, []);
  assert.equal(
    await statusOf('New', 3, 4),
    '* STATUS "New" (RECENT 2 DELETED 1 DELETED-STORAGE 9)\r\n',
  );
  assert.deepEqual(counted, ['New from 4', 'deleted of New']);
});
