/** Which names an account has subscribed: no more than it may, however many its programs have said anything of. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';

onEachEngine('subscriptions', (engine) => {
  let store: TestMailstore;
  before(async () => {
    store = await openTestMailstore(engine, Date.now);
  });

  test('those that are there can be changed, also where there is no room for one more', async () => {
    const user = await store.makeUser();
    const { imap } = store.mailstore;
    const { accountId: account_id } = user;
    const names = Array.from({ length: 2_000 }, (_, at) => `Gone ${at}`);
    const rows = names.map((name) => ({ account_id, name, is_on: 1 }));
    await store.database.write((tx) => tx.insertInto('subscriptions').values(rows).execute());
    await assert.rejects(imap.subscribe(user, 'INBOX', false), /at most 2000/);
    await imap.subscribe(user, 'Gone 6', true);
    await imap.subscribe(user, 'Gone 7', false);
    assert.equal((await imap.subscriptions(user)).has('Gone 7'), false);
    await imap.subscribe(user, 'INBOX', false);
    await imap.subscribe(user, 'INBOX', true);
    assert.equal((await imap.subscriptions(user)).get('INBOX'), true);
  });

  test('names without a mailbox that nobody subscribed are not kept', async () => {
    const user = await store.makeUser();
    const { imap } = store.mailstore;
    await imap.subscribe(user, 'No such mailbox', false);
    await imap.subscribe(user, 'Archive', false);
    assert.deepEqual([...(await imap.subscriptions(user))], [['Archive', false]]);
  });
});
