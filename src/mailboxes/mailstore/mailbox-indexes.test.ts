/** Indexes of mailboxes in memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';

/** More than a large mailbox has; of so many are orders made. */
const MESSAGES = 500_000;

onEachEngine('the index of a mailbox', (engine) => {
  test('stays in memory, however large it is: an answer of many pieces would read it for each', async () => {
    const store = await openTestMailstore(engine);
    const { imap } = store.mailstore;
    const user = await store.makeUser();
    await store.append(await store.stage('Subject: a\r\n\r\nb'), [{ user, mailbox: 'INBOX' }]);
    const { id } = await imap.open(user, 'INBOX');
    await store.database.write(async (tx) => {
      await sql`with recursive n (uid) as (select 2 union all select uid + 1 from n where uid < ${sql.lit(MESSAGES)})
        insert into messages (mailbox_id, uid, created_modseq, modseq, flags, size, internal_date, body_id,
          envelope, structure, has_attachment)
        select mailbox_id, n.uid, 1, 1, '', 1, 1, body_id, '{}', '{}', 0 from messages, n
        where mailbox_id = ${id}`.execute(tx);
      await tx.updateTable('mailboxes').set({ messages: MESSAGES }).where('id', '=', id).execute();
    });
    const mailbox = await imap.open(user, 'INBOX');
    assert.equal(await imap.indexAtHand(user, mailbox), undefined);
    const index = await imap.index(user, mailbox);
    assert.equal(index.uids.length, MESSAGES);
    // Not by `equal`, which would print half a million UIDs.
    assert.ok((await imap.indexAtHand(user, mailbox)) === index);
  });
});
