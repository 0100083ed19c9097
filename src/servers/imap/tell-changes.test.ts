/** What others changed cannot always be read: that changes nothing of what a command did. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import type { OpenMailbox, SyncResult } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { ImapMailstore } from './imap.ts';
import type { Session } from './session.ts';
import { tellChanges } from './tell-changes.ts';
import { View } from './view.ts';

test('a command that was carried out is OK where news cannot be read, and the next one tells them', async (t) => {
  const away = new Refusal('unavailable', 'the database does not answer');
  const news: SyncResult = {
    ...{ mailbox: 'INBOX', uidvalidity: '1', token: '2' },
    changes: { added: [{ uid: 2, modseq: '2', flags: [] }], updated: [], removed: [] },
  };
  const answers = [away, away, news];
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
  const client = await ImapLines.connect(listener.address.port);
  await client.ok('LOGIN 1 x');
  await client.ok('SELECT INBOX');
  assert.deepEqual(await client.ok('SUBSCRIBE INBOX'), []);
  assert.deepEqual(await client.ok('SUBSCRIBE INBOX'), []);
  assert.equal((await client.ok('SUBSCRIBE INBOX'))[0], '* 2 EXISTS');
  client.close();
});

test('of many changes the flags are read as the client reads, and told again where they cannot be read', async () => {
  const count = 12_000;
  const uids = Array.from({ length: count }, (_, at) => at + 1);
  const updated = uids.map((uid) => ({ uid, modseq: '2', flags: ['\\Seen'] }));
  const mailbox = { ...{ id: 1, name: 'INBOX', uidvalidity: 1 }, highestmodseq: 1 } as OpenMailbox;
  const view = new View({ mailbox, uids, token: '1', isReadOnly: false });
  const asked: string[] = [];
  let [reads, isAway] = [0, true];
  const mailstore = {
    sync: async (_: unknown, { token }: { token: string }) => {
      asked.push(token);
      const [added, removed] = [[{ uid: count + 1 }], [{ uid: 7 }]];
      return { token: '2', changes: { added, updated, removed } };
    },
    imap: {
      index: async () => {
        if (++reads > 1 && isAway) throw new Refusal('unavailable', 'away');
        return { uids, modseqs: uids.map(() => 2), flags: uids.map(() => '\\Seen') };
      },
    },
  };
  const session = {
    ...{
      selected: view,
      told: new Map([[5, '2']]),
      made: new Set(),
      user: { accountId: 1, address: 'a@b.test' },
    },
    ...{ channel: { signal: new AbortController().signal }, services: { mailstore } },
  } as unknown as Session;
  const tell = async () => {
    const lines: string[] = [];
    for await (const part of tellChanges(session, true)) {
      lines.push(...String(part).split(/(?<=\r\n)/));
      // Not all is read for a client that takes what is there.
      assert.ok(reads <= Math.ceil(lines.length / 5_000) + 1, `${reads} for ${lines.length} lines`);
    }
    return lines;
  };
  await assert.rejects(tell(), /away/);
  assert.deepEqual([view.size, view.token, view.untold.size], [count, '1', 0]);
  [reads, isAway] = [0, false];
  const lines = await tell();
  assert.deepEqual(asked, ['1', '1']);
  assert.equal(reads, 3);
  // But for message 5, whose flags the command itself has told.
  const fetched = uids.filter((uid) => uid !== 5);
  assert.deepEqual(
    lines,
    fetched
      .map((uid) => `* ${uid} FETCH (UID ${uid} FLAGS (\\Seen))\r\n`)
      .concat('* 7 EXPUNGE\r\n', `* ${count} EXISTS\r\n`),
  );
});
