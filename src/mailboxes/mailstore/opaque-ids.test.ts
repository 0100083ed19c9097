/** An account sees no number that counts the mail of others. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';
import { EmbeddedMailstore } from './embedded.ts';
import { OpaqueIds } from './opaque-ids.ts';

suite('sealed texts', () => {
  const ids = new OpaqueIds('secret');

  test('open to what they were, on each node', () => {
    const sealed = ids.seal('1-2-3');
    assert.equal(new OpaqueIds('secret').open(sealed), '1-2-3');
    assert.notEqual(ids.seal('1-2-3'), sealed);
  });

  test('do not open when they were changed, cut or made with another secret', () => {
    const sealed = ids.seal('1-2-3');
    const changed = (sealed.startsWith('A') ? 'B' : 'A') + sealed.slice(1);
    for (const text of ['', 'x', changed, sealed.slice(4), sealed.slice(0, -4), 'A'.repeat(512)]) {
      assert.equal(ids.open(text), undefined, text);
    }
    assert.equal(ids.open(new OpaqueIds('another').seal('1-2-3')), undefined);
  });
});

onEachEngine('ids that an account sees', (engine) => {
  test('do not show how much mail there is', async () => {
    const { database, bodies, mailstore, makeUser, stage, append } =
      await openTestMailstore(engine);
    const user = await makeUser();
    // Without a Message-ID the thread is named by the message itself.
    for (const text of ['one', 'two']) {
      await append(await stage(`Subject: ${text}\r\n\r\n${text}\r\n`), [
        { user, mailbox: 'INBOX' },
      ]);
    }
    await mailstore.copy(user, { mailbox: 'INBOX', uids: [1] }, 'Archive');
    const fields = ['emailId', 'threadId'] as const;
    const read = async (store: EmbeddedMailstore, mailbox: string) =>
      (await store.sync(user, { mailbox, fields })).changes.added;
    const open = (idSecret: string) => new EmbeddedMailstore({ database, bodies, idSecret });
    const told = await read(mailstore, 'INBOX');
    assert.deepEqual(await read(open('secret'), 'INBOX'), told, 'after a start');
    const [first, second] = told;
    const [copy] = await read(mailstore, 'Archive');
    assert.deepEqual([copy?.emailId, copy?.threadId], [first?.emailId, first?.threadId]);
    assert.notEqual(first?.emailId, second?.emailId);
    assert.match(first?.emailId ?? '', /^e[\w-]{22}$/);
    const other = await read(open('another'), 'INBOX');
    assert.notEqual(other[0]?.emailId, first?.emailId, 'nobody makes it without the secret');

    const older = { preview: null, has_attachment: null, thread_id: null };
    await database.write((tx) => tx.updateTable('messages').set(older).execute());
    assert.deepEqual((await read(mailstore, 'INBOX'))[0], first);
    const otherThread = (await read(open('another'), 'INBOX'))[0]?.threadId;
    assert.notEqual(otherThread, first?.threadId, 'nor the thread of one without an id');

    const { cursor = '' } = await mailstore.search(user, { texts: {}, limit: 1 });
    assert.doesNotMatch(Buffer.from(cursor, 'base64url').toString('latin1'), /^[\da-z]+-[\da-z]+-/);
    assert.doesNotMatch(cursor, /^[\da-z]+-[\da-z]+-[\da-z]+-[\da-z]+$/);
    assert.equal((await mailstore.search(user, { texts: {}, limit: 5, cursor })).matches.length, 2);
  });
});
