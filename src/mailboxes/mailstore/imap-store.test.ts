/** What IMAP reads of our own mail store with as few queries as it can. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';
import { deletedIn, ImapStore, type ImapStoreOptions } from './imap-store.ts';

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

test('messages that are marked as deleted are counted without the rows of all others', async () => {
  const { database } = await openTestMailstore('sqlite');
  const text = deletedIn(database.read, 1).compile().sql.replaceAll('?', '1');
  const plan = sql<{ detail: string }>`explain query plan ${sql.raw(text)}`;
  const { rows } = await plan.execute(database.read);
  assert.match(
    rows.map(({ detail }) => detail).join('; '),
    /^SEARCH messages USING INDEX messages_by_uid \(mailbox_id=\? AND uid=\?\).*COVERING INDEX/,
  );
});
