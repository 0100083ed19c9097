import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import type { MailUser } from './mailstore.ts';

const DAY = 86_400_000;
const START = Date.UTC(2026, 4, 3);

onEachEngine('messages in Trash', (engine) => {
  let store: TestMailstore;
  let ann: MailUser;
  let ben: MailUser;
  let now = START;
  before(async () => {
    store = await openTestMailstore(engine, () => now);
    ann = await store.makeUser();
    ben = await store.makeUser();
  });

  const add = async (user: MailUser, mailbox: string) =>
    store.append(await store.stage(sampleMessage('m')), [{ user, mailbox, internalDate: 0 }]);

  /** Checks every mailbox as the maintenance does. */
  async function expire(keptDays = 30) {
    const all = { removed: 0, mailboxes: [] as string[] };
    for (let after = 0; ; ) {
      const expired = await store.mailstore.expireTrash(keptDays * DAY, after);
      if (!expired) return all;
      after = expired.last;
      all.removed += expired.removed;
      all.mailboxes.push(...expired.changes.map((one) => `${one.accountId} ${one.mailbox}`));
    }
  }

  const uidsOf = async (user: MailUser, mailbox: string) =>
    (await store.mailstore.sync(user, { mailbox })).changes.added.map(({ uid }) => uid);

  test('are removed some days after they came there, and apps see it', async () => {
    await add(ann, 'INBOX');
    await add(ann, 'Junk');
    await add(ben, 'Trash');
    const { token, uidvalidity } = await store.mailstore.sync(ann, { mailbox: 'Junk' });
    now += 29 * DAY;
    await store.mailstore.move(ann, { mailbox: 'INBOX', uids: [1] }, 'Trash');
    await add(ann, 'INBOX');
    assert.equal((await expire()).removed, 0);
    now += 2 * DAY;
    assert.deepEqual(await expire(), {
      removed: 2,
      mailboxes: [`${ann.accountId} Junk`, `${ben.accountId} Trash`],
    });
    assert.deepEqual(await uidsOf(ann, 'Trash'), [1], 'it came two days ago');
    assert.deepEqual(await uidsOf(ann, 'INBOX'), [2]);
    const { changes } = await store.mailstore.sync(ann, { mailbox: 'Junk', token, uidvalidity });
    assert.deepEqual(changes.removed, [{ uid: 1 }]);
    now += 40 * DAY;
    assert.equal((await expire()).removed, 1);
    assert.deepEqual(await uidsOf(ann, 'INBOX'), [2], 'nothing goes from elsewhere');
    const bodies = await store.database.read.selectFrom('bodies').select('id').execute();
    assert.equal(bodies.length, 1, 'the sources go with them');
  });

  test('are removed in many transactions; those from before 0.3.0 count from the first check', async () => {
    const staged = await store.stage(sampleMessage('many'));
    const many = Array.from({ length: 201 }, () => ({ user: ben, mailbox: 'Trash' }));
    await store.append(staged, many);
    await store.database.write((tx) =>
      tx.updateTable('messages').set({ saved_at: null }).execute(),
    );
    const known = store.database.read.selectFrom('counters').select('value');
    const since = await known.where('name', '=', 'saved_at').executeTakeFirst();
    assert.equal(since?.value, START + 29 * DAY);
    now = START + 59 * DAY;
    assert.equal((await expire()).removed, 0);
    now += 1;
    assert.equal((await expire()).removed, 201);
    assert.deepEqual(await uidsOf(ben, 'Trash'), []);
  });
});
