/** From a message sent by SMTP to a mailbox that an app keeps in sync, in real time. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { openSocket } from '../support/web-socket.ts';

/** A mail server adds header fields of its own; see test/servers/journeys.ts. */
const onServer = process.env.TEST_MAIL_SERVER !== undefined;

onEachEngine('mail', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  const sync = (account: TestAccount, body: object = {}) =>
    service.mail(account.token, 'POST', '/mail/sync', body);

  test('a mail is sent, announced, synced, read, and its attachment is byte-identical', async () => {
    const ann = await service.makeAccount();
    const socket = await openSocket(service, ann.token);
    const hello = await socket.next();
    assert.equal(hello.type, 'hello');
    assert.equal(hello.user, ann.address);
    const inbox = hello.mailboxes.find(({ mailbox }: { mailbox: string }) => mailbox === 'INBOX');

    const attachment = randomBytes(150_000);
    await service.send({
      from: 'Bob <bob@example.test>',
      to: ann.address,
      subject: 'Grüße',
      text: 'See the attachment.',
      attachments: [{ filename: 'blätter "1".bin', content: attachment }],
    });

    const event = await socket.next();
    assert.deepEqual(Object.keys(event).sort(), [
      'eventType',
      'mailbox',
      'token',
      'type',
      'uidvalidity',
    ]);
    assert.equal(event.type, 'mailbox_changed');
    assert.equal(event.mailbox, 'INBOX');
    assert.equal(event.eventType, 'MailboxesChanged');

    const delta = await sync(ann, { ...inbox });
    assert.equal(delta.status, 200);
    assert.deepEqual(delta.body, {
      mailbox: 'INBOX',
      uidvalidity: inbox.uidvalidity,
      token: event.token,
      changes: { added: [{ uid: 1 }], updated: [], removed: [] },
    });
    const again = await sync(ann, { uidvalidity: event.uidvalidity, token: event.token });
    assert.deepEqual(again.body.changes, { added: [], updated: [], removed: [] });

    const message = await service.mail(ann.token, 'GET', '/mail/message?mailbox=INBOX&uid=1');
    assert.equal(message.status, 200);
    assert.equal(message.body.uid, 1);
    assert.equal(message.body.envelope.subject, 'Grüße');
    assert.deepEqual(message.body.envelope.from, [{ name: 'Bob', address: 'bob@example.test' }]);
    assert.deepEqual(message.body.flags, []);
    assert.equal(message.body.rfc822Encoding, 'utf-8');
    assert.match(
      message.body.rfc822,
      onServer
        ? /^Return-Path: <bob@example\.test>\r\n[\s\S]*?^Authentication-Results: [\s\S]+?\r\nReceived: from /m
        : /^Return-Path: <bob@example\.test>\r\nAuthentication-Results: [\s\S]+?\r\nReceived: from /,
    );
    const [, part] = message.body.bodyStructure.childNodes;
    assert.equal(part.part, '2');
    assert.equal(part.disposition, 'attachment');

    const response = await fetch(`${service.url}/mail/attachment?uid=1&part=2`, {
      headers: { authorization: `Bearer ${ann.token}` },
    });
    assert.equal(response.headers.get('content-type'), 'application/octet-stream');
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    assert.match(response.headers.get('content-disposition') ?? '', /^attachment; filename/);
    assert.deepEqual(Buffer.from(await response.arrayBuffer()), attachment);
    socket.close();
  });

  test('a flag that is set in the store is announced, and its token leads to no change', async () => {
    const ann = await service.makeAccount();
    await service.send({ from: 'bob@example.test', to: ann.address, text: 'Hello.' });
    const first = await sync(ann);
    const socket = await openSocket(service, ann.token);
    await socket.next();
    const wanted = { mailbox: 'INBOX', uids: [1] };
    const { state } = await service.mailstore.setFlags(ann, wanted, { add: ['\\Seen'] });
    let event = await socket.next();
    // On several nodes what was told of the mail before may still be on its way.
    while (event.token !== state.token) event = await socket.next();
    const delta = await sync(ann, { uidvalidity: first.body.uidvalidity, token: first.body.token });
    assert.deepEqual(delta.body.changes, {
      added: [],
      updated: [{ uid: 1, modseq: event.token.split('-')[0], flags: ['\\Seen'] }],
      removed: [],
    });
    const none = await sync(ann, { uidvalidity: event.uidvalidity, token: event.token });
    assert.deepEqual(none.body.changes, { added: [], updated: [], removed: [] });
    socket.close();
  });

  test('one message to several accounts reaches each, blind copies included', async () => {
    const ann = await service.makeAccount();
    const ben = await service.addAccount(ann, 'ben');
    const zoe = await service.makeAccount('zoe');
    await service.send({
      from: 'bob@example.test',
      to: ann.address,
      cc: `ben+lists@${ben.domain}`,
      bcc: [zoe.address, ann.address.toUpperCase()],
      text: 'To all of you.',
    });
    for (const account of [ann, ben, zoe]) {
      const { body } = await sync(account);
      assert.deepEqual(body.changes.added, [{ uid: 1 }], account.address);
      const message = await service.mail(account.token, 'GET', '/mail/message?uid=1');
      assert.ok(!message.body.rfc822.includes(zoe.address), 'a blind copy shows');
    }
  });

  test('fields come with the sync, so that a first one needs no call per message', async () => {
    const ann = await service.makeAccount();
    await service.send({ from: 'bob@example.test', to: ann.address, subject: 'one', text: '1' });
    await service.send({ from: 'bob@example.test', to: ann.address, subject: 'two', text: '2' });
    const { body } = await sync(ann, {
      limit: 1,
      fields: ['envelope', 'flags', 'size', 'internalDate', 'bodyStructure'],
    });
    assert.equal(body.hasMore, true);
    const [added] = body.changes.added;
    assert.equal(added.envelope.subject, 'one');
    assert.deepEqual(added.flags, []);
    assert.ok(added.size > 100);
    assert.ok(Math.abs(Date.parse(added.internalDate) - Date.now()) < 600_000);
    assert.equal(added.bodyStructure.type, 'text/plain');
    const rest = await sync(ann, { ...body, limit: 5, fields: ['envelope'] });
    assert.equal(rest.body.changes.added[0].envelope.subject, 'two');
    assert.equal(rest.body.hasMore, undefined);
    const bare = await sync(ann, { mailbox: 'INBOX', uidvalidity: '', token: '' });
    assert.deepEqual(bare.body.changes.added, [{ uid: 1 }, { uid: 2 }]);
    assert.equal(bare.body.reset, undefined);
  });

  test('a wrong field of a sync is named', async () => {
    const ann = await service.makeAccount();
    const { uidvalidity } = (await sync(ann)).body;
    for (const [body, field] of [
      [{ mailbox: 7 }, 'mailbox'],
      [{ mailbox: 'x'.repeat(2000) }, 'mailbox'],
      [{ uidvalidity: 1 }, 'uidvalidity'],
      [{ uidvalidity, token: 5 }, 'token'],
      [{ uidvalidity, token: 'soon' }, 'token'],
      [{ uidvalidity, token: '-1' }, 'token'],
      [{ token: '1' }, 'uidvalidity'],
      [{ limit: 0 }, 'limit'],
      [{ limit: -1 }, 'limit'],
      [{ limit: 1e19 }, 'limit'],
      [{ limit: '5' }, 'limit'],
      [{ limit: 1.5 }, 'limit'],
      [{ fields: ['body'] }, 'fields'],
      [{ fields: 'flags' }, 'fields'],
    ] as const) {
      const answer = await sync(ann, body);
      assert.equal(answer.status, 400, JSON.stringify(body));
      assert.equal(answer.body.code, 'invalid_request');
      assert.ok(answer.body.errors[0].field.startsWith(field), JSON.stringify(answer.body));
    }
    const missing = await sync(ann, { mailbox: 'Nowhere' });
    assert.equal(missing.status, 404);
    assert.equal(missing.body.code, 'mailbox_not_found');
  });

  test('tokens of another mailbox, from the future, or too large reset and lose nothing', async () => {
    const ann = await service.makeAccount();
    await service.send({ from: 'bob@example.test', to: ann.address, text: '1' });
    const listed = await service.mailstore.listMailboxes(ann);
    const named = listed.find(({ mailbox }) => mailbox.endsWith('Trash'))?.mailbox;
    const trash = (await sync(ann, { mailbox: named })).body;
    const { uidvalidity } = (await sync(ann)).body;
    for (const body of [
      { uidvalidity: trash.uidvalidity, token: trash.token },
      { uidvalidity, token: '999' },
      { uidvalidity, token: '9223372036854775808' },
      { uidvalidity: 'not one of ours', token: '1' },
    ]) {
      const answer = await sync(ann, body);
      assert.equal(answer.status, 200);
      assert.equal(answer.body.reset, true, JSON.stringify(body));
      assert.deepEqual(answer.body.changes.added, [{ uid: 1 }]);
    }
  });

  test('impossible uids and part numbers are refused, unknown ones are not found', async () => {
    const ann = await service.makeAccount();
    await service.send({ from: 'bob@example.test', to: ann.address, text: '1' });
    const get = (path: string) => service.mail(ann.token, 'GET', path);
    for (const uid of ['0', '-1', '9223372036854775808', '4294967296', '1.5', 'one', '', '1e3']) {
      const answer = await get(`/mail/message?uid=${uid}`);
      assert.equal(answer.status, 400, uid);
      assert.equal(answer.body.errors[0].field, 'uid');
    }
    assert.equal((await get('/mail/message')).status, 400);
    assert.equal((await get('/mail/message?uid=4294967295')).body.code, 'message_not_found');
    assert.equal((await get('/mail/message?uid=1&mailbox=No')).body.code, 'mailbox_not_found');
    const deep = (levels: number) => Array.from({ length: levels }, () => '1').join('.');
    for (const part of [
      '0',
      '-1',
      '1.',
      '.1',
      '1..2',
      '01',
      '9223372036854775808',
      'TEXT',
      deep(5_000),
    ]) {
      const answer = await get(`/mail/attachment?uid=1&part=${part}`);
      assert.equal(answer.status, 400, part.slice(0, 20));
      assert.equal(answer.body.errors[0].field, 'part');
    }
    // Beyond what Node takes of a request's head (RFC 6585 section 5).
    const endless = await get(`/mail/attachment?uid=1&part=${deep(10_000)}`);
    assert.equal(endless.status, 431);
    assert.equal(endless.body.code, 'invalid_request');
    assert.equal((await get('/mail/attachment?uid=1')).status, 400);
    assert.equal((await get('/mail/attachment?uid=1&part=2')).body.code, 'part_not_found');
    assert.equal((await get('/mail/attachment?uid=2&part=1')).body.code, 'message_not_found');
  });

  test('an attachment can be fetched in ranges and is not sent again when it is known', async () => {
    const ann = await service.makeAccount();
    const content = randomBytes(90_000);
    await service.send({
      from: 'bob@example.test',
      to: ann.address,
      text: 'x',
      attachments: [{ filename: 'a.bin', content }],
    });
    const get = (headers: Record<string, string>) =>
      fetch(`${service.url}/mail/attachment?uid=1&part=2`, {
        headers: { authorization: `Bearer ${ann.token}`, ...headers },
      });
    const whole = await get({});
    const etag = whole.headers.get('etag') ?? '';
    assert.equal(whole.headers.get('content-length'), '90000');
    assert.equal(whole.headers.get('accept-ranges'), 'bytes');
    assert.deepEqual(Buffer.from(await whole.arrayBuffer()), content);
    const some = await get({ range: 'bytes=1000-1999', 'if-range': etag });
    assert.equal(some.status, 206);
    assert.equal(some.headers.get('content-range'), 'bytes 1000-1999/90000');
    assert.deepEqual(Buffer.from(await some.arrayBuffer()), content.subarray(1000, 2000));
    const tail = await get({ range: 'bytes=-7' });
    assert.deepEqual(Buffer.from(await tail.arrayBuffer()), content.subarray(-7));
    const changed = await get({ range: 'bytes=0-9', 'if-range': '"another"' });
    assert.equal(changed.status, 200);
    await changed.arrayBuffer();
    const beyond = await get({ range: 'bytes=90000-' });
    assert.equal(beyond.status, 416);
    assert.equal(beyond.headers.get('content-range'), 'bytes */90000');
    await beyond.arrayBuffer();
    assert.equal((await get({ 'if-none-match': etag })).status, 304);
  });

  test('the source comes back byte for byte, as JSON and as message/rfc822', async () => {
    const ann = await service.makeAccount();
    const bodies = [
      Buffer.from('plain ascii\r\n'),
      Buffer.from('Grüße 🎉\r\n'),
      Buffer.from([0x80, 0xff, 0xfe, 0x41, 0x0d, 0x0a]),
      Buffer.concat([Buffer.alloc(400_000, 'Grüße 🎉 '), Buffer.from('\r\n')]),
      Buffer.concat([Buffer.alloc(400_000, 'x'), Buffer.from([0xff, 0x0d, 0x0a])]),
    ];
    for (const [index, body] of bodies.entries()) {
      await service.send({
        envelope: { from: 'bob@example.test', to: ann.address },
        raw: Buffer.concat([
          Buffer.from(`From: bob@example.test\r\nSubject: ${index}\r\n\r\n`),
          body,
        ]),
      });
      const path = `/mail/message?uid=${index + 1}`;
      const { body: json } = await service.mail(ann.token, 'GET', path);
      const source = Buffer.from(json.rfc822, json.rfc822Encoding);
      assert.equal(source.length, json.size);
      assert.ok(source.subarray(-body.length).equals(body), `message ${index}`);
      const raw = await fetch(service.url + path, {
        headers: { authorization: `Bearer ${ann.token}`, accept: 'message/rfc822' },
      });
      assert.equal(raw.headers.get('content-type'), 'message/rfc822');
      assert.deepEqual(Buffer.from(await raw.arrayBuffer()), source);
    }
  });

  test('reading sets no flag', async () => {
    const ann = await service.makeAccount();
    await service.send({ from: 'bob@example.test', to: ann.address, text: '1' });
    const { uidvalidity, token } = (await sync(ann)).body;
    await service.mail(ann.token, 'GET', '/mail/message?uid=1');
    await service.mail(ann.token, 'GET', '/mail/attachment?uid=1&part=1');
    assert.equal((await sync(ann, { uidvalidity, token })).body.token, token);
  });

  test('a token opens its own mailbox only, and only while its account may use it', async () => {
    const ann = await service.makeAccount();
    const eve = await service.makeAccount('eve');
    await service.send({ from: 'bob@example.test', to: ann.address, text: 'secret' });
    assert.deepEqual((await sync(eve)).body.changes.added, []);
    const stolen = await service.mail(eve.token, 'GET', '/mail/message?uid=1');
    assert.equal(stolen.body.code, 'message_not_found');
    for (const token of ['', 'x', 'a.b.c', `${eve.token}x`]) {
      const answer = await service.mail(token, 'POST', '/mail/sync', {});
      assert.equal(answer.status, 401);
      assert.equal(answer.body.code, 'unauthorized');
      assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer/);
    }
    await service.v2('PUT', `/v2/email-accounts/${eve.id}`, {
      user_id: eve.userId,
      status: 'suspended',
    });
    const suspended = await sync(eve);
    assert.equal(suspended.status, 403);
    assert.equal(suspended.body.code, 'account_inactive');
    await service.v2('POST', '/v2/email-accounts/delete', { user_id: ann.userId, id: ann.id });
    assert.equal((await sync(ann)).status, 401);
  });

  test('the mail of a deleted domain is removed, also for a later account of the address', async () => {
    const ann = await service.makeAccount();
    await service.send({ from: 'bob@example.test', to: ann.address, text: 'old' });
    const before = (await sync(ann)).body;
    const gone = await service.v2('POST', '/v2/domains/delete', {
      user_id: ann.userId,
      domain: ann.domain,
    });
    assert.deepEqual(gone.body, { ok: true, deleted: ann.domain });
    await assert.rejects(
      service.send({ from: 'bob@example.test', to: ann.address, text: 'nobody' }),
      /550 5\.7\.1/,
    );
    assert.equal((await sync(ann)).status, 401);
    assert.ok(before.uidvalidity);
  });
});
