/** What a list of messages is made of, from syncs alone: previews, conversations, the newest first. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

const onMailServer = process.env.TEST_MAIL_SERVER !== undefined;

interface Row {
  readonly uid: number;
  readonly preview: string;
  readonly threadId: string;
  readonly emailId?: string;
  readonly hasAttachment: boolean;
  readonly modseq: string;
}

onEachEngine('lists of messages', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  const call = async ({ token }: TestAccount, path: string, body: object) => {
    const answer = await service.mail(token, 'POST', path, body);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  };

  const rowsOf = async (account: TestAccount, mailbox = 'INBOX'): Promise<Row[]> => {
    const fields = ['preview', 'threadId', 'emailId', 'hasAttachment', 'flags'];
    return (await call(account, '/mail/sync', { mailbox, fields })).changes.added;
  };

  const deliver = (account: TestAccount, message: object) =>
    service.send({ from: 'bob@example.test', to: account.address, text: 'text', ...message });

  test('each new message carries its preview, and whether it has attachments', async () => {
    const ann = await service.makeAccount();
    await deliver(ann, { text: 'Shall we\n> not this\nhave lunch?' });
    await deliver(ann, { text: undefined, html: '<style>p{}</style><p>Only &lt;HTML&gt;</p>' });
    await deliver(ann, { text: 'x'.repeat(500), attachments: [{ filename: 'a', content: 'b' }] });
    const rows = await rowsOf(ann);
    assert.deepEqual(
      rows.map(({ uid, preview, hasAttachment }) => [uid, preview, hasAttachment]),
      [
        [1, 'Shall we have lunch?', false],
        [2, 'Only <HTML>', false],
        [3, 'x'.repeat(200), true],
      ],
    );
    const content = await service.mail(ann.token, 'GET', '/mail/content?uid=1');
    assert.equal(content.body.preview, rows[0]?.preview);
    assert.equal(content.body.threadId, rows[0]?.threadId);
    const flagged = await call(ann, '/mail/flags', { mailbox: 'INBOX', uids: [2], add: ['a'] });
    const [, second] = await rowsOf(ann);
    assert.equal(second?.modseq, flagged.updated[0].modseq);
    const plain = await call(ann, '/mail/sync', {});
    assert.deepEqual(plain.changes.added, [{ uid: 1 }, { uid: 2 }, { uid: 3 }]);
  });

  test('a moved message keeps its ids, and a copy has the same', async () => {
    const ann = await service.makeAccount();
    await deliver(ann, { subject: 'one' });
    const [inbox] = await rowsOf(ann);
    const { body: made } = await service.mail(ann.token, 'POST', '/mail/mailboxes/create', {
      mailbox: 'Shelf',
    });
    const to = made.mailbox;
    await call(ann, '/mail/copy', { mailbox: 'INBOX', uids: [1], to });
    await call(ann, '/mail/move', { mailbox: 'INBOX', uids: [1], to });
    const shelf = await rowsOf(ann, to);
    assert.equal(shelf.length, 2);
    for (const { emailId, threadId, preview } of shelf) {
      assert.deepEqual(
        [emailId, threadId, preview],
        [inbox?.emailId, inbox?.threadId, inbox?.preview],
      );
    }
    if (!onMailServer) assert.match(inbox?.emailId ?? '', /^[\w-]{1,255}$/);
  });

  /** A conversation as programs write it that give all references. */
  const conversation = [
    { messageId: '<a@x.test>' },
    { messageId: '<b@x.test>', inReplyTo: '<a@x.test>', references: '<a@x.test>' },
    { messageId: '<c@x.test>', inReplyTo: '<b@x.test>', references: '<a@x.test> <b@x.test>' },
    { messageId: '<d@x.test>', inReplyTo: '<a@x.test>' },
  ];

  test('a conversation has one thread in whatever order it comes, in every mailbox', async () => {
    for (const order of [
      [0, 1, 2, 3],
      [3, 2, 1, 0],
      [2, 0, 3, 1],
    ]) {
      const ann = await service.makeAccount();
      await deliver(ann, { messageId: '<other@x.test>', subject: 'Re: the same subject' });
      for (const index of order) await deliver(ann, { ...conversation[index] });
      const [other, first, ...rest] = await rowsOf(ann);
      assert.match(first?.threadId ?? '', /^[\w-]{1,255}$/);
      for (const { threadId } of rest) assert.equal(threadId, first?.threadId);
      assert.notEqual(other?.threadId, first?.threadId);
      const found = await call(ann, '/mail/search', { subject: 'same' }).then(untilIndexed(ann));
      assert.equal(found.matches[0].threadId, other?.threadId);
    }
  });

  const untilIndexed = (account: TestAccount) => async (body: { indexing?: boolean }) => {
    let found = body;
    while (found.indexing) found = await call(account, '/mail/search', { subject: 'same' });
    // biome-ignore lint/suspicious/noExplicitAny: tests assert on whatever JSON came back
    return found as any;
  };

  test('an answer to an answer that names only that one joins the thread', {
    skip: onMailServer && 'a mail server is asked for no other messages',
  }, async () => {
    const ann = await service.makeAccount();
    const eve = await service.makeAccount();
    await deliver(ann, { messageId: '<r1@x.test>' });
    await deliver(ann, { messageId: '<r2@x.test>', inReplyTo: '<r1@x.test>' });
    const before = await rowsOf(ann);
    await deliver(ann, { messageId: '<r3@x.test>', inReplyTo: '<r2@x.test>' });
    const threads = new Set([...before, ...(await rowsOf(ann))].map(({ threadId }) => threadId));
    assert.equal(threads.size, 1);
    // Another account's messages lead nowhere.
    await deliver(eve, { messageId: '<r4@x.test>', inReplyTo: '<r3@x.test>' });
    assert.ok(!threads.has((await rowsOf(eve))[0]?.threadId ?? ''));
  });

  test('the newest come first where an app asks for them', async () => {
    const ann = await service.makeAccount();
    for (let n = 1; n <= 5; n++) await deliver(ann, { subject: `${n}` });
    const uids: number[][] = [];
    let request: object = { limit: 2, order: 'newest', fields: ['envelope'] };
    for (;;) {
      const { changes, uidvalidity, token, hasMore } = await call(ann, '/mail/sync', request);
      uids.push(changes.added.map(({ uid }: Row) => uid));
      request = { limit: 2, uidvalidity, token, fields: ['envelope'] };
      // What happens meanwhile is told by the next sync.
      if (uids.length === 1) {
        await call(ann, '/mail/flags', { mailbox: 'INBOX', uids: [1, 5], add: ['\\Seen'] });
        await deliver(ann, { subject: '6' });
      }
      if (!hasMore) break;
    }
    assert.deepEqual(uids, [[5, 4], [3, 2], [1]]);
    const { changes } = await call(ann, '/mail/sync', { ...request, limit: 10 });
    const has = (some: readonly Row[], uid: number) => some.some((one) => one.uid === uid);
    assert.ok(has(changes.added, 6));
    assert.ok(has(changes.updated, 5));
    const wrong = await service.mail(ann.token, 'POST', '/mail/sync', { order: 'random' });
    assert.equal(wrong.body.code, 'invalid_request');
  });
});
