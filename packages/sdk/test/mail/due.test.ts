import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Copy } from '../../src/mail/copy.ts';
import { Due } from '../../src/mail/due.ts';

test('of two states of a mailbox that are told in the wrong order, the later one is read', () => {
  const row = { box: 1, name: 'INBOX', uidvalidity: '7', token: '1' };
  const copy = { mailboxes: [row], operations: [], mailbox: () => row } as unknown as Copy;
  const due = new Due({ copy, isOpen: () => false, syncAll: false });
  for (const one of due.next(0)) {
    due.begin(one, 0);
    due.end(one, false);
  }
  const note = (token: string) => due.note({ mailbox: 'INBOX', uidvalidity: '7', token });
  note('3');
  note('2');
  // The answer to a change of this app was written between the two.
  row.token = '2';
  assert.deepEqual(due.next(0), [1]);
  due.begin(1, 0);
  due.end(1, false);
  row.token = '3';
  note('4');
  note('4');
  row.token = '4';
  assert.deepEqual(due.next(0), []);
});
