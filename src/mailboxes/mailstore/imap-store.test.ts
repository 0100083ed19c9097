/** What IMAP reads of our own mail store with as few queries as it can. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';
import { ImapStore, type ImapStoreOptions } from './imap-store.ts';

onEachEngine('IMAP store', (engine) => {
  test('a list of mailboxes makes those that every account has, and looks for them no more', async () => {
    const { mailstore, database, makeUser } = await openTestMailstore(engine, Date.now);
    const user = await makeUser();
    await database.write((tx) =>
      tx.deleteFrom('mailboxes').where('account_id', '=', user.accountId).execute(),
    );
    const made = await mailstore.imap.list(user);
    assert.ok(made.some(({ name }) => name === 'INBOX'));
    const mailboxes = { find: () => assert.fail('one query more') };
    const imap = new ImapStore({ database, mailboxes } as unknown as ImapStoreOptions);
    assert.deepEqual(await imap.list(user), made);
  });
});
