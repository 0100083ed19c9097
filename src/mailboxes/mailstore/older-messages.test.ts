/** Rows from before 0.3.0 give the same answers as new ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';

const answer =
  'From: bob@example.test\r\nSubject: Re: plans\r\nMessage-ID: <2@example.test>\r\n' +
  'References: <1@example.test>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n' +
  '--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße\r\n' +
  '--b\r\nContent-Disposition: attachment; filename=a\r\n\r\nx\r\n--b--\r\n';

onEachEngine('messages from before 0.3.0', (engine) => {
  test('are read from their sources, alone and in syncs and searches', async () => {
    const { database, mailstore, makeUser, stage, append } = await openTestMailstore(engine);
    const user = await makeUser();
    const targets = [{ user, mailbox: 'INBOX' }];
    const large = `Subject: large\r\n\r\n${'word '.repeat(20_000)}\r\n`;
    for (const source of [answer, large]) await append(await stage(source), targets);
    const fields = ['preview', 'threadId', 'hasAttachment', 'emailId', 'envelope'] as const;
    const sync = () => mailstore.sync(user, { mailbox: 'INBOX', fields });
    const search = () => mailstore.search(user, { texts: {}, limit: 10, hasAttachment: true });
    const fetched = async () => (await mailstore.fetchMessage(user, 'INBOX', 1)).describe();
    const today = [await sync(), await search(), await fetched()];
    assert.equal((await fetched()).preview, 'Grüße');
    await database.write((tx) =>
      tx
        .updateTable('messages')
        .set({ preview: null, has_attachment: null, thread_id: null, message_key: null })
        .execute(),
    );
    assert.deepEqual([await sync(), await search(), await fetched()], today);
    // None of them has the key that an answer looks for, but the answer still joins the thread of its references.
    await append(
      await stage('References: <1@example.test> <2@example.test>\r\n\r\nyes\r\n'),
      targets,
    );
    const { changes } = await sync();
    assert.equal(changes.added[2]?.threadId, changes.added[0]?.threadId);
  });
});
