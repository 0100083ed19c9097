/** A mailbox that changes while it is opened, and while it is open. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd } from '../../../test/support/at-end.ts';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import type { SyncRequest, SyncResult } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { ImapMailstore } from './imap.ts';

const NOTHING = { added: [], updated: [], removed: [] };

/** A client of a mailbox with message 1. @param sync what changed in it */
async function start(sync: (request: SyncRequest) => SyncResult) {
  const mailbox = {
    ...{ id: 1, name: 'INBOX', uidvalidity: 1, highestmodseq: 5, pruned_modseq: 0, fork_modseq: 0 },
    ...{ uidnext: 2, messages: 1, unseen: 0, octets: 9, special_use: null },
    ...{ keywords: '', recent_uid: 2 },
  };
  const mailstore = {
    imap: {
      open: async () => ({ ...mailbox }),
      select: async () => ({
        mailbox: { ...mailbox },
        index: { uids: [1], modseqs: [1], flags: [''] },
      }),
      keywords: async () => [],
      keepRecent: async () => {},
      objectIds: { mailbox: () => 'M1' },
      rows: async () => [],
      passedSince: async () => [],
    },
    sync: async (_: unknown, request: SyncRequest) => sync(request),
  };
  const listener = await startImapWith({ mailstore: mailstore as unknown as ImapMailstore });
  const client = await ImapLines.connect(listener.address.port);
  atEnd(async () => {
    client.close();
    await listener.close(1_000);
  });
  await client.ok('LOGIN 1 x');
  await client.ok('ENABLE QRESYNC');
  return { client, mailbox };
}

const page = (token: string, changes: Partial<SyncResult['changes']> = {}): SyncResult => {
  return { mailbox: 'INBOX', uidvalidity: '1', token, changes: { ...NOTHING, ...changes } };
};

test('a SELECT that fails at what changed since leaves no mailbox selected', async () => {
  const { client } = await start(() => {
    throw new Refusal('mailbox_not_found', 'there is no mailbox "INBOX"');
  });
  const told = await client.command('SELECT INBOX (QRESYNC (1 1))');
  assert.match(told.at(-1) ?? '', /^NO \[NONEXISTENT\]/);
  assert.match((await client.command('FETCH 1 UID')).join(), /^BAD Not while .* authenticated/);
  await client.ok('NOOP');
});

test('removals of messages that came after SELECT are told of a set up to the last one', async () => {
  const { client, mailbox } = await start(({ token }) =>
    token === '1' ? page('9', { removed: [{ uid: 2 }] }) : page('9'),
  );
  await client.ok('SELECT INBOX');
  // Message 2 came and went, and the session was told of neither; its program knows it from another session.
  Object.assign(mailbox, { uidnext: 3, highestmodseq: 9 });
  const told = await client.ok('UID FETCH 1:* (FLAGS) (CHANGEDSINCE 1 VANISHED)');
  assert.deepEqual(told, ['* VANISHED (EARLIER) 2']);
});
