/** Pages of one sync show one state but for what is removed between them, on servers of each kind. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { startFakeServer } from '../../../../test/support/imap-client/fake-server.ts';
import { openImapStore } from '../../../../test/support/imap-client/open-store.ts';
import type { MessageField, SyncResult } from '../../mailstore/mailstore.ts';

const kinds = {
  'CONDSTORE and QRESYNC': 'ENABLE CONDSTORE QRESYNC ESEARCH',
  'CONDSTORE alone': 'ENABLE CONDSTORE',
  neither: '',
};

for (const [title, extensions] of Object.entries(kinds)) {
  void suite(`pages with ${title}`, () => {
    async function open(messages: number) {
      const server = await startFakeServer();
      server.capabilities = `IMAP4rev1 AUTH=PLAIN UIDPLUS ${extensions}`;
      for (let count = 0; count < messages; count++) server.add('Subject: m\r\n\r\n');
      const { store, user } = await openImapStore(server.port);
      const sync = (last?: SyncResult, limit?: number, fields: readonly MessageField[] = []) =>
        store.sync(user, {
          mailbox: 'INBOX',
          ...(last && { uidvalidity: last.uidvalidity, token: last.token }),
          ...(limit !== undefined && { limit }),
          fields,
        });
      return { server, sync };
    }

    const told = ({ changes }: SyncResult) => ({
      added: changes.added.map(({ uid }) => uid),
      updated: changes.updated.map(({ uid }) => uid),
      removed: changes.removed.map(({ uid }) => uid),
    });
    const nothing = { added: [], updated: [], removed: [] };

    void test('a removal after the first page is reported by the next sync, once', async () => {
      const { server, sync } = await open(6);
      const whole = await sync();
      server.setFlags(1, '\\Seen');
      server.setFlags(2, '\\Seen');
      server.expunge(4);
      const first = await sync(whole, 1);
      assert.deepEqual(told(first), { ...nothing, updated: [1] });
      server.expunge(6);
      const second = await sync(first, 1);
      assert.deepEqual(told(second), { ...nothing, updated: [2] });
      const third = await sync(second, 5);
      assert.deepEqual(told(third), { ...nothing, removed: [4] });
      assert.equal(third.hasMore, undefined);
      const next = await sync(third);
      assert.deepEqual(told(next), { ...nothing, removed: [6] });
      assert.equal(next.reset, undefined);
      assert.deepEqual(told(await sync(next)), nothing);
    });

    void test('mail that comes and is removed while a page is read causes no reset', async () => {
      const { server, sync } = await open(6);
      const whole = await sync();
      for (const uid of [1, 2, 3]) server.setFlags(uid, '\\Seen');
      const first = await sync(whole, 1);
      server.add('Subject: after the snapshot\r\n\r\n');
      let changes = [() => void server.add('Subject: meanwhile\r\n\r\n'), () => server.expunge(6)];
      server.fault = ({ name, args }) => {
        const [change, ...others] = changes;
        if (name !== 'UID FETCH' || !args.includes('VANISHED') || !change) return undefined;
        changes = others;
        const told = `${server.rowsOf(args)}TAG OK done\r\n`;
        const before = server.messages.length;
        change();
        const isGone = server.messages.length < before;
        return { send: `${isGone ? '* VANISHED 6' : `* ${before + 1} EXISTS`}\r\n${told}` };
      };
      const second = await sync(first, 1);
      assert.deepEqual(told(second), { ...nothing, updated: [2] });
      assert.equal(second.reset, undefined);
      const third = await sync(second, 5);
      assert.deepEqual(told(third), { ...nothing, updated: [3] });
      assert.equal(third.reset, undefined);
      const next = await sync(third);
      assert.equal(next.reset, undefined);
      const came = server.messages.map(({ uid }) => uid).filter((uid) => uid > 6);
      assert.deepEqual(told(next).added, came);
    });

    void test('a new message that is removed before its page is not added, only removed', async () => {
      const { server, sync } = await open(2);
      const whole = await sync();
      for (let count = 0; count < 3; count++) server.add('Subject: new\r\n\r\n');
      const first = await sync(whole, 1);
      assert.deepEqual(told(first), { ...nothing, added: [3] });
      server.expunge(5);
      server.add('Subject: later\r\n\r\n');
      const second = await sync(first, 9);
      assert.deepEqual(told(second), { ...nothing, added: [4] });
      const next = await sync(second);
      assert.deepEqual(told(next), { added: [6], updated: [], removed: [5] });
    });

    void test('the same in a first sync; a message that came and was removed is never reported', async () => {
      const { server, sync } = await open(5);
      const first = await sync(undefined, 2);
      assert.deepEqual(told(first), { ...nothing, added: [1, 2] });
      server.expunge(1);
      server.expunge(4);
      const passing = server.add('Subject: passing\r\n\r\n');
      server.expunge(passing.uid);
      const second = await sync(first, 9);
      assert.deepEqual(told(second), { ...nothing, added: [3, 5] });
      const next = await sync(second);
      assert.deepEqual(told(next), { ...nothing, removed: [1, 4] });
    });

    void test('a page of large envelopes ends at its size, before its limit', async () => {
      const { server, sync } = await open(3);
      const name = 'x'.repeat(60_000);
      const fields = ['From', 'To', 'Cc', 'Bcc'].map((field) => `${field}: ${name} <a@b.test>\r\n`);
      const large = `${fields.join('')}\r\n`;
      const known = await sync();
      for (let count = 0; count < 20; count++) server.add(large);
      server.setFlags(1, '\\Seen');
      server.expunge(2);
      const first = await sync(known, 500, ['envelope', 'flags']);
      assert.equal(first.hasMore, true);
      const { added, ...others } = told(first);
      assert.deepEqual(others, { updated: [1], removed: [2] });
      assert.ok(added.length > 10 && added.length < 20, `${added.length} in a page of 4 MB`);
      assert.equal(first.changes.added[0]?.envelope?.bcc?.[0]?.name, name);
      server.expunge(3);
      server.expunge(23);
      const second = await sync(first, 500, ['envelope', 'flags']);
      assert.equal(second.hasMore, undefined);
      const all = Array.from({ length: 20 }, (_, index) => 4 + index);
      const left = all.slice(added.length).filter((uid) => uid !== 23);
      assert.deepEqual(told(second), { ...nothing, added: left });
      assert.deepEqual(told(await sync(second)), { ...nothing, removed: [3, 23] });
      const anew = await sync(undefined, undefined, ['envelope']);
      assert.equal(anew.hasMore, true);
      const rest = await sync(anew, undefined, ['envelope']);
      assert.equal(rest.hasMore, undefined);
      assert.deepEqual([...told(anew).added, ...told(rest).added], [1, ...all.slice(0, -1)]);
    });
  });
}
