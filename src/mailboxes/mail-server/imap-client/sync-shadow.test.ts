import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { startFakeServer } from '../../../../test/support/imap-client/fake-server.ts';
import { openImapStore } from '../../../../test/support/imap-client/open-store.ts';
import type { SyncResult } from '../../mailstore/mailstore.ts';

test('after a failover that lost the seen state of a mailbox, its tokens get a reset', async () => {
  const server = await startFakeServer();
  server.capabilities = 'IMAP4rev1 AUTH=PLAIN UIDPLUS';
  server.add('Subject: one\r\n\r\n');
  const { database, user } = await openImapStore(server.port);
  const open = async (timeline: number) => {
    // MODSEQs are of the clock: within one millisecond what is lost would have that of what comes after the failover.
    const { store } = await openImapStore(
      server.port,
      {},
      {
        database: { ...database, timeline: sql<number>`${sql.lit(timeline)}` },
        now: () => 1_000 * timeline,
      },
    );
    return (last?: SyncResult) => store.sync(user, { mailbox: 'INBOX', fields: [], ...last });
  };
  const sync = await open(1);
  const known = await sync();
  const kept = await database.read
    .selectFrom('shadow_mailboxes')
    .where('account_id', '=', user.accountId)
    .selectAll()
    .executeTakeFirstOrThrow();
  const keptMessages = await database.read
    .selectFrom('shadow_messages')
    .where('shadow_id', '=', kept.id)
    .selectAll()
    .execute();
  const { uid } = server.add('Subject: lost\r\n\r\n');
  const lost = await sync(known);
  assert.deepEqual(lost.changes.added, [{ uid }]);

  // The standby never got that.
  await database.write(async (tx) => {
    await tx.deleteFrom('shadow_messages').where('shadow_id', '=', kept.id).execute();
    await tx.deleteFrom('shadow_mailboxes').where('id', '=', kept.id).execute();
    await tx.insertInto('shadow_mailboxes').values(kept).execute();
    await tx.insertInto('shadow_messages').values(keptMessages).execute();
  });
  server.expunge(uid);
  server.setFlags(1, '\\Seen');
  const afterwards = await open(2);
  const anew = await afterwards(lost);
  assert.equal(anew.reset, true);
  assert.deepEqual(
    anew.changes.added.map((message) => message.uid),
    [1],
  );
  server.setFlags(1, '\\Flagged');
  const next = await afterwards(anew);
  assert.equal(next.reset, undefined);
  assert.equal(next.changes.updated.length, 1);
  assert.equal((await afterwards(lost)).reset, true);
});

test('what was removed is forgotten after its time, and older tokens get a reset', async () => {
  const DAY = 86_400_000;
  const server = await startFakeServer();
  server.capabilities = 'IMAP4rev1 AUTH=PLAIN UIDPLUS';
  const [first, second] = [server.add('Subject: one\r\n\r\n'), server.add('Subject: two\r\n\r\n')];
  let now = Date.now();
  const { store, user } = await openImapStore(server.port, {}, { now: () => now });
  const sync = (last?: SyncResult) => store.sync(user, { mailbox: 'INBOX', fields: [], ...last });
  const old = await sync();
  server.expunge(first.uid);
  const between = await sync(old);
  now += 31 * DAY;
  server.expunge(second.uid);
  await sync(between);
  assert.ok((await store.pruneTombstones(30 * DAY)) >= 1);
  assert.equal((await sync(old)).reset, true);
  const kept = await sync(between);
  assert.equal(kept.reset, undefined);
  assert.deepEqual(kept.changes.removed, [{ uid: second.uid }]);
});
