/** The list of mailboxes: which stands below which, and by what name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MailboxInfo } from '../../sdk/src/mail/client.ts';
import { listMailboxes } from '../state/describe.ts';

const specialUses: Readonly<Record<string, string>> = {
  'INBOX/Gesendet': '\\Sent',
  Archive: '\\Archive',
};

const mailbox = (name: string): MailboxInfo => ({
  name,
  mailboxId: name,
  uidvalidity: '1',
  specialUse: specialUses[name],
  total: 0,
  unseen: 0,
  complete: true,
});

test('a folder follows the one that it is within, also one of the mail program, by its name there', () => {
  const names = ['Work/a', 'Archive/2024', 'Work b', 'Work', 'INBOX', 'Archive', 'INBOX/Gesendet'];
  names.push('Old/x', 'Old/x/y/z', 'Work/a/b');
  const listed = listMailboxes(names.map(mailbox));
  assert.deepEqual(
    listed.map(({ level, title }) => `${'  '.repeat(level)}${title}`),
    ['Inbox', 'Sent', 'Archive', '  2024', 'Old/x', '  y/z', 'Work', '  a', '    b', 'Work b'],
  );
});
