/** The clock that all nodes share decides, also where that of the machine is hours behind or ahead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { atEnd } from '../../../test/support/at-end.ts';
import { ImapLines } from '../../../test/support/imap-lines.ts';
import { startImapWith } from '../../../test/support/imap-listener.ts';
import { HOUR_MS } from '../../platform/time/time.ts';
import { type ImapMailstore, OpenSessions } from './imap.ts';

const mailbox = {
  ...{ id: 1, name: 'INBOX', uidvalidity: 1, highestmodseq: 5, pruned_modseq: 0, fork_modseq: 0 },
  ...{ uidnext: 2, messages: 1, unseen: 0, octets: 9, special_use: null },
  ...{ keywords: '', recent_uid: 2 },
};

const changes = { added: [], updated: [], removed: [] };
const NEWS = { mailbox: 'INBOX', uidvalidity: '1', token: '5', changes };

for (const hours of [-2, 2]) {
  test(`on a machine whose clock is ${hours} hours ahead`, async () => {
    const now = () => Date.now() - hours * HOUR_MS;
    const imap = {
      open: async () => ({ ...mailbox }),
      select: async () => ({ mailbox, index: { uids: [1], modseqs: [1], flags: [''] } }),
      keywords: async () => [],
      keepRecent: async () => {},
      objectIds: { mailbox: () => 'M1' },
      rows: async () => [{ uid: 1, internal_date: now() - 30_000 }],
    };
    const sessions = new OpenSessions();
    const listener = await startImapWith({
      mailstore: { imap, sync: async () => NEWS } as unknown as ImapMailstore,
      logins: {
        withPassword: () => assert.fail(),
        withToken: async (token) => ({
          ...{ accountId: 1, address: 'a@b.test', userId: 'u', credentialVersion: 5 },
          expiresAt: now() + (token === 'ended' ? -1 : HOUR_MS),
        }),
      },
      sessions,
      now,
    });
    atEnd(() => listener.close(1_000));
    const open = async (token: string) => {
      const client = await ImapLines.connect(listener.address.port);
      const login = Buffer.from(`n,,\x01auth=Bearer ${token}\x01\x01`).toString('base64');
      await client.ok(`AUTHENTICATE OAUTHBEARER ${login}`);
      return client;
    };
    const [good, ended] = [await open('good'), await open('ended')];
    // Both are looked at, one after the other.
    assert.match(await ended.next(), /^\* BYE The token has expired/);
    await good.ok('SELECT INBOX');
    assert.deepEqual(await good.ok('SEARCH YOUNGER 60'), ['* SEARCH 1']);
    assert.deepEqual(await good.ok('SEARCH OLDER 60'), ['* SEARCH']);
    const [seen] = sessions.list({ limit: 1 });
    for (const at of [seen?.since, seen?.commandAt]) {
      assert.ok(Math.abs(Number(at) - now()) < HOUR_MS);
    }
    good.close();
  });
}
