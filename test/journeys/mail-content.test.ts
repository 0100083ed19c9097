/** Reading messages without a MIME parser. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

onEachEngine('reading messages', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  const content = (account: TestAccount, uid: number) =>
    service.mail(account.token, 'GET', `/mail/content?mailbox=INBOX&uid=${uid}`);
  const messages = (account: TestAccount, body: object) =>
    service.mail(account.token, 'POST', '/mail/messages', { mailbox: 'INBOX', ...body });

  test('text, HTML and attachments are returned', async () => {
    const ann = await service.makeAccount();
    await service.send({
      from: 'Bob <bob@example.test>',
      to: ann.address,
      subject: 'Grüße',
      text: 'Hello Änn,\n\n> old\n\nsee the file.',
      html: '<p>Hello <b>Änn</b></p>',
      attachments: [{ filename: 'a.csv', contentType: 'text/csv', content: '1,2,3\n' }],
    });
    const { status, body } = await content(ann, 1);
    assert.equal(status, 200);
    assert.equal(body.envelope.subject, 'Grüße');
    assert.equal(body.text.trim(), 'Hello Änn,\n\n> old\n\nsee the file.');
    assert.equal(body.html.trim(), '<p>Hello <b>Änn</b></p>');
    assert.equal(body.preview, 'Hello Änn, see the file.');
    assert.deepEqual(body.flags, []);
    assert.equal(body.attachments.length, 1);
    const [{ part, ...attachment }] = body.attachments;
    assert.deepEqual(attachment, {
      filename: 'a.csv',
      contentType: 'text/csv',
      size: 6,
      inline: false,
    });
    const file = await service.mail(ann.token, 'GET', `/mail/attachment?uid=1&part=${part}`);
    assert.equal(String(file.body), '1,2,3\n');
  });

  test('the results of the sender checks are returned as we wrote them, and no others', async () => {
    const ann = await service.makeAccount();
    await service.send({
      from: 'bob@example.test',
      to: ann.address,
      text: 'hello',
      headers: {
        'Authentication-Results': 'mail.localhost; spf=pass; dkim=pass; dmarc=pass',
      },
    });
    const { auth } = (await content(ann, 1)).body;
    // No DNS is asked for in tests: nothing passes.
    assert.deepEqual(Object.keys(auth), ['spf', 'dkim', 'dmarc']);
    assert.equal(auth.dkim, 'none');
    assert.notEqual(auth.spf, 'pass');
    const added = await fetch(`${service.url}/mail/append?mailbox=INBOX`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ann.token}`, 'content-type': 'message/rfc822' },
      body: 'Subject: draft\r\n\r\nnot checked\r\n',
    });
    const { uid } = (await added.json()) as { uid: number };
    assert.equal('auth' in (await content(ann, uid)).body, false);
    const { body } = await messages(ann, { uids: [1], fields: ['auth', 'threadId'] });
    assert.deepEqual(Object.keys(body.messages[0]), ['uid', 'threadId', 'auth']);
  });

  test('several messages come in one answer, with the fields that were asked for', async () => {
    const ann = await service.makeAccount();
    for (const subject of ['one', 'two', 'three']) {
      await service.send({ from: 'b@example.test', to: ann.address, subject, text: subject });
    }
    const { body } = await messages(ann, { uids: [3, 1, 99, 3], fields: ['preview', 'text'] });
    assert.deepEqual(
      body.messages.map(({ uid, preview }: { uid: number; preview: string }) => [uid, preview]),
      [
        [3, 'three'],
        [1, 'one'],
      ],
    );
    assert.equal('envelope' in body.messages[0], false);
    assert.equal(body.hasMore, undefined);
  });

  test('an answer that grows too long is cut after a message', async () => {
    const ann = await service.makeAccount();
    const text = `${'long line of text '.repeat(4)}\n`.repeat(25_000);
    for (const subject of ['one', 'two', 'three']) {
      await service.send({ from: 'b@example.test', to: ann.address, subject, text });
    }
    const first = await messages(ann, { uids: [1, 2, 3] });
    assert.equal(first.body.hasMore, true);
    const told = first.body.messages.map(({ uid }: { uid: number }) => uid);
    assert.deepEqual(told, [1, 2]);
    const rest = await messages(ann, { uids: [3] });
    assert.equal(rest.body.messages.length, 1);
  });

  test('unknown messages and too many messages are refused', async () => {
    const ann = await service.makeAccount();
    const eve = await service.makeAccount();
    await service.send({ from: 'b@example.test', to: ann.address, subject: 'x', text: 'x' });
    assert.equal((await content(eve, 1)).body.code, 'message_not_found');
    assert.deepEqual((await messages(eve, { uids: [1] })).body.messages, []);
    assert.equal((await messages(ann, { uids: [] })).status, 400);
    assert.equal((await messages(ann, { uids: Array(101).fill(1) })).status, 400);
    assert.equal((await messages(ann, { uids: [1], fields: ['raw'] })).status, 400);
    assert.equal(
      (await messages(ann, { mailbox: 'None', uids: [1] })).body.code,
      'mailbox_not_found',
    );
  });
});
