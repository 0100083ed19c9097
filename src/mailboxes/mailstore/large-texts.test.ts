/** Envelopes and structures are as long as senders make them: pages of a sync are limited by their size. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import type { MailUser, MessageField, SyncResult } from './mailstore.ts';

const MB = 1_000_000;
const texts: readonly MessageField[] = ['envelope', 'bodyStructure', 'size'];

onEachEngine('messages with large envelopes and structures', (engine) => {
  let store: TestMailstore;
  before(async () => {
    store = await openTestMailstore(engine);
  });

  /** Appends messages, each with an envelope of so many octets. */
  async function append(user: MailUser, lengths: readonly number[]): Promise<void> {
    const { parsed, body } = await store.stage(sampleMessage(''));
    for (const length of lengths) {
      const envelope = { ...parsed.envelope, subject: 'x'.repeat(length) };
      const message = { parsed: { ...parsed, envelope }, body };
      await store.append(message, [{ user, mailbox: 'INBOX' }]);
    }
  }

  const sync = (user: MailUser, last?: SyncResult, request: object = { fields: texts }) =>
    store.mailstore.sync(user, {
      mailbox: 'INBOX',
      ...(last && { uidvalidity: last.uidvalidity, token: last.token }),
      ...request,
    });

  async function allPages(user: MailUser, last?: SyncResult, request?: object) {
    const pages = [await sync(user, last, request)];
    while (pages.at(-1)?.hasMore) pages.push(await sync(user, pages.at(-1), request));
    return pages;
  }

  const uids = ({ changes }: SyncResult) => changes.added.map(({ uid }) => uid);

  test('a first sync ends its pages before they are too large, and each message is in one page', async () => {
    const user = await store.makeUser();
    await append(user, [1.5 * MB, 10, 1.5 * MB, 1.5 * MB, 10, 1.5 * MB, 1.5 * MB]);
    const pages = await allPages(user);
    assert.deepEqual(pages.map(uids), [[1, 2, 3], [4, 5, 6], [7]]);
    assert.deepEqual(
      pages.map(({ hasMore }) => hasMore),
      [true, true, undefined],
    );
    for (const { uid, envelope, bodyStructure, size } of pages.flatMap(
      ({ changes }) => changes.added,
    )) {
      assert.equal(envelope?.subject?.length, [2, 5].includes(uid) ? 10 : 1.5 * MB);
      assert.equal(bodyStructure?.type, 'text/plain');
      assert.ok(size);
    }
    const next = await sync(user, pages.at(-1));
    assert.deepEqual(next.changes, { added: [], updated: [], removed: [] });
  });

  test('a message that is larger than a page comes alone', async () => {
    const user = await store.makeUser();
    await append(user, [5 * MB, 5 * MB, 10, 10, 5 * MB]);
    const pages = await allPages(user);
    assert.deepEqual(pages.map(uids), [[1], [2], [3, 4], [5]]);
  });

  test('a page ends at its size or its limit, whichever comes first', async () => {
    const user = await store.makeUser();
    await append(user, [10, 10, 10, 3 * MB, 3 * MB, 10]);
    const pages = await allPages(user, undefined, { fields: texts, limit: 2 });
    assert.deepEqual(pages.map(uids), [
      [1, 2],
      [3, 4],
      [5, 6],
    ]);
  });

  test('without those fields, the size does not end a page', async () => {
    const user = await store.makeUser();
    await append(user, [3 * MB, 3 * MB]);
    const bare = await sync(user, undefined, {});
    assert.deepEqual(bare.changes.added, [{ uid: 1 }, { uid: 2 }]);
    const small = await sync(user, undefined, { fields: ['size', 'flags', 'internalDate'] });
    assert.deepEqual(uids(small), [1, 2]);
    assert.equal(small.hasMore, undefined);
    // Fields that were not requested do not count.
    const structures = await sync(user, undefined, { fields: ['bodyStructure'] });
    assert.deepEqual(uids(structures), [1, 2]);
  });

  test('pages that end by their size show one state, with its updates and removals', async () => {
    const user = await store.makeUser();
    await append(user, [3 * MB, 10, 10]);
    const [known] = await allPages(user);
    await store.mailstore.setFlags(user, { mailbox: 'INBOX', uids: [1] }, { add: ['\\Seen'] });
    await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [2] });
    await append(user, [3 * MB, 10, 3 * MB, 3 * MB]);
    await store.mailstore.setFlags(user, { mailbox: 'INBOX', uids: [4] }, { add: ['\\Seen'] });
    const first = await sync(user, known);
    // An update carries no envelope, so it takes no room.
    assert.deepEqual(uids(first), [4, 5]);
    assert.deepEqual(
      first.changes.updated.map(({ uid }) => uid),
      [1],
    );
    assert.deepEqual(first.changes.removed, [{ uid: 2 }]);
    assert.equal(first.hasMore, true);
    // Meanwhile a message that was already sent and one that was not are removed; the next sync reports both.
    await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [3, 7] });
    await append(user, [10]);
    const rest = await allPages(user, first);
    assert.deepEqual(rest.map(uids), [[6]]);
    assert.deepEqual(rest[0]?.changes.removed, []);
    const next = await sync(user, rest.at(-1));
    assert.deepEqual(uids(next), [8]);
    assert.deepEqual(next.changes.removed, [{ uid: 3 }, { uid: 7 }]);
  });
});
