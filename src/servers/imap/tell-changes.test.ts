/** What others changed cannot always be read: that changes nothing of what a command did. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import type { OpenMailbox, SyncResult } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { ImapMailstore } from './imap.ts';

test('a command that was carried out is OK where news cannot be read, and the next one tells them', async (t) => {
  const away = new Refusal('unavailable', 'the database does not answer');
  const page = (uid: number, hasMore?: true): SyncResult => ({
    mailbox: 'INBOX',
    uidvalidity: '1',
    token: String(uid),
    changes: { added: [{ uid, modseq: String(uid), flags: [] }], updated: [], removed: [] },
    ...(hasMore && { hasMore }),
  });
  // The second page cannot be read at first.
  const answers = [away, page(2, true), away, page(2, true), page(3)];
  const mailbox = { id: 1, name: 'INBOX', uidvalidity: 1, uidnext: 2, highestmodseq: 1, unseen: 0 };
  const listener = await startImapWith({
    mailstore: {
      imap: {
        select: async () => ({
          index: { uids: [1], flags: [''] },
          mailbox: mailbox as OpenMailbox,
        }),
        keywords: async () => [],
        keepRecent: async () => {},
        subscriptions: async () => new Set(['INBOX']),
        objectIds: { mailbox: () => 'm1' },
      },
      subscribe: async () => {},
      sync: async () => {
        const answer = answers.shift() ?? assert.fail('nothing else was asked');
        if (answer === away) throw answer;
        return answer;
      },
    } as unknown as ImapMailstore,
  });
  t.after(() => listener.close(1_000));
  const client = await ImapLines.connect(listener.address().port);
  await client.ok('LOGIN 1 x');
  await client.ok('SELECT INBOX');
  assert.deepEqual(await client.ok('SUBSCRIBE INBOX'), []);
  assert.deepEqual(await client.ok('SUBSCRIBE INBOX'), []);
  assert.equal((await client.ok('SUBSCRIBE INBOX'))[0], '* 3 EXISTS');
  client.close();
});
