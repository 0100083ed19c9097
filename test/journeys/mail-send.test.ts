/** What accounts send: to a real SMTP receiver, with its copy, its status and its signature. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { verify } from '../../src/outbound/testing/dkim.ts';
import { type FarEnd, refusal, startFarEnd } from '../../src/outbound/testing/far-end.ts';
import { onEachEngine } from '../support/databases.ts';
import {
  type Answer,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';

onEachEngine('sending mail', (engine) => {
  let service: TestService;
  let far: FarEnd;
  before(async () => {
    // It takes mail for everybody but nobody@.
    far = await startFarEnd({
      onRcptTo({ address }, _session, callback) {
        if (address.startsWith('nobody@')) callback(refusal(550, '5.1.1 no such user'));
        else callback();
      },
    });
    service = await startTestService(engine, { SMTP_RELAY_URL: `smtp://127.0.0.1:${far.port}` });
  });

  const send = (account: TestAccount, body: object, headers: Record<string, string> = {}) =>
    post(account, '/mail/send', body, headers);

  async function post(
    account: TestAccount,
    path: string,
    body: object,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${account.token}`,
        'content-type': 'application/json',
        ...headers,
      },
      body: JSON.stringify(body),
    });
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  /** The send once every recipient has another status than `queued`. */
  async function settled(account: TestAccount, id: string) {
    for (;;) {
      const { status, body } = await service.mail(account.token, 'GET', `/mail/sends/${id}`);
      assert.equal(status, 200);
      if (body.status !== 'queued') return body;
      await pause(20);
    }
  }

  const arrived = (to: string) => far.received.filter((one) => one.to.includes(to));

  async function inbox(account: TestAccount, mailbox = 'INBOX') {
    const { body } = await service.mail(account.token, 'POST', '/mail/sync', {
      mailbox,
      fields: ['envelope', 'flags'],
    });
    return body.changes.added;
  }

  test('a message arrives signed, without Bcc, and has its copy in Sent', async () => {
    const ada = await service.makeAccount('ada');
    const { status, body } = await send(ada, {
      from: { name: 'Ada Lovelace', address: ada.address },
      to: [{ name: 'Bob', address: 'bob@far.test' }],
      bcc: [{ address: 'hidden@far.test' }],
      subject: 'Größe',
      text: 'Hello, Bob.',
      html: '<p>Hello, Bob.</p>',
      attachments: [
        {
          filename: 'a.csv',
          contentType: 'text/csv',
          content: Buffer.from('a,b').toString('base64'),
        },
      ],
      headers: { 'List-Unsubscribe': '<https://acme.test/u/1>' },
    });
    assert.equal(status, 202, JSON.stringify(body));
    assert.equal(body.mailbox, 'Sent');
    assert.equal(body.status, 'queued');
    const done = await settled(ada, body.id);
    assert.deepEqual(
      done.recipients.map(({ address, status }: Record<string, string>) => [address, status]),
      [
        ['bob@far.test', 'delivered'],
        ['hidden@far.test', 'delivered'],
      ],
    );
    assert.equal(done.status, 'delivered');
    assert.equal(done.messageId, body.messageId);

    const [bob, ...more] = arrived('bob@far.test');
    assert.ok(bob);
    assert.deepEqual(more, []);
    assert.equal(arrived('hidden@far.test').length, 1);
    assert.equal(bob.from, ada.address);
    const text = bob.source.toString('latin1');
    assert.doesNotMatch(text, /hidden@far\.test|^bcc:/im);
    assert.match(text, /^Received: by mail\.localhost with HTTP id /m);
    assert.match(text, /^List-Unsubscribe: <https:\/\/acme\.test\/u\/1>/m);
    assert.deepEqual(await verify(bob.source, await publishedKey(ada)), [`pass ${ada.domain}`]);

    const [copy] = await inbox(ada, 'Sent');
    assert.equal(copy.uid, body.uid);
    assert.deepEqual(copy.flags, ['\\Seen']);
    assert.equal(copy.envelope.subject, 'Größe');
    assert.deepEqual(copy.envelope.bcc, [{ name: '', address: 'hidden@far.test' }]);
  });

  async function publishedKey({ domain, userId }: TestAccount) {
    const { body } = await service.v2('GET', `/v2/domains/${domain}/dns?user_id=${userId}`);
    const record = body.dns.find(({ host }: { host: string }) => host.endsWith('._domainkey'));
    const selector = record.host.split('.')[0];
    return { domain, selector, record: record.expected_value, privateKey: '' };
  }

  test('a recipient who is refused for good is told of in INBOX', async () => {
    const ada = await service.makeAccount('ada');
    const { body } = await send(ada, {
      to: [{ address: 'nobody@far.test' }, { address: 'bob@far.test' }],
      subject: 'Hello',
      text: 'Hello.',
    });
    const done = await settled(ada, body.id);
    assert.equal(done.status, 'bounced');
    const [nobody, bob] = done.recipients;
    assert.equal(nobody.status, 'bounced');
    assert.match(nobody.detail, /550 5\.1\.1 no such user/);
    assert.equal(bob.status, 'delivered');
    const [dsn, ...more] = await inbox(ada);
    assert.deepEqual(more, []);
    assert.equal(dsn.envelope.inReplyTo, body.messageId);
    const read = await service.mail(ada.token, 'GET', `/mail/content?uid=${dsn.uid}`);
    assert.match(read.body.text, /<nobody@far\.test>\n +550 5\.1\.1 no such user/);
    const { body: deliveries } = await service.v2(
      'GET',
      `/v2/domains/${ada.domain}/deliveries?user_id=${ada.userId}`,
    );
    assert.deepEqual(
      deliveries.items.map((one: Record<string, unknown>) => [one.kind, one.status]),
      [
        ['send', 'failed'],
        ['send', 'delivered'],
      ],
    );
  });

  test('the same key sends once, also from two connections at once', async () => {
    const ada = await service.makeAccount('ada');
    const message = { to: [{ address: 'once@far.test' }], subject: 'Once', text: 'Once.' };
    const key = { 'idempotency-key': 'order-1' };
    const answers = await Promise.all([send(ada, message, key), send(ada, message, key)]);
    answers.push(await send(ada, message, key));
    const [first] = answers;
    for (const { status, body } of answers) {
      assert.equal(status, 202);
      assert.deepEqual(body, first?.body);
    }
    await settled(ada, first?.body.id);
    assert.equal(arrived('once@far.test').length, 1);
    assert.equal((await inbox(ada, 'Sent')).length, 1);
    const other = await send(ada, { ...message, text: 'Twice.' }, key);
    assert.equal(other.status, 409);
    assert.equal(other.body.code, 'idempotency_key_reused');
    const found = await service.mail(ada.token, 'GET', '/mail/sends?key=order-1');
    assert.equal(found.body.id, first?.body.id);
    // The key is the account's own.
    const ben = await service.addAccount(ada, 'ben');
    assert.equal((await service.mail(ben.token, 'GET', '/mail/sends?key=order-1')).status, 404);
    const foreign = await service.mail(ben.token, 'GET', `/mail/sends/${first?.body.id}`);
    assert.equal(foreign.body.code, 'send_not_found');
  });

  test('a domain whose DKIM record is not verified sends nothing', async () => {
    const ada = await service.makeAccount('ada');
    const { body } = await service.v2('GET', `/v2/domains/${ada.domain}/dns?user_id=${ada.userId}`);
    const { id } = body.dns.find(({ host }: { host: string }) => host.endsWith('._domainkey'));
    await service.v2('POST', `/v2/domains/${ada.domain}/dns/mark`, {
      user_id: ada.userId,
      id,
      status: 'failed',
    });
    const refused = await send(ada, { to: [{ address: 'bob@far.test' }], text: 'Hello.' });
    assert.equal(refused.status, 409);
    assert.equal(refused.body.code, 'domain_not_ready');
    assert.deepEqual(await inbox(ada, 'Sent'), []);
  });

  const someone = { address: 'bob@far.test' };
  const refusals: [title: string, body: object, field: string][] = [
    ['no recipient', { subject: 'Hello' }, 'to'],
    [
      '101 recipients',
      { to: Array.from({ length: 101 }, (_, n) => ({ address: `r${n}@far.test` })) },
      'to',
    ],
    ['what is no address', { to: [{ address: 'bob' }] }, 'to[0].address'],
    [
      'a From of somebody else',
      { from: { address: 'eve@far.test' }, to: [someone] },
      'from.address',
    ],
    ['CR LF in the subject', { to: [someone], subject: 'a\r\nBcc: x@far.test' }, 'subject'],
    ['CR LF in a name', { to: [{ ...someone, name: 'a\r\nb' }] }, 'to[0].name'],
    [
      'CR LF in an address',
      { to: [{ address: 'bob@far.test\r\nRCPT TO:<x@y.test>' }] },
      'to[0].address',
    ],
    ['CR LF in a field', { to: [someone], headers: { 'X-A': 'a\r\nb: c' } }, 'headers.X-A'],
    [
      'a field of ours',
      { to: [someone], headers: { 'Message-ID': '<1@x>' } },
      'headers.Message-ID',
    ],
    [
      'what is no base64',
      { to: [someone], attachments: [{ filename: 'a', content: 'a b' }] },
      'attachments[0].content',
    ],
    [
      'CR LF in a file name',
      { to: [someone], attachments: [{ filename: 'a\r\nb', content: '' }] },
      'attachments[0].filename',
    ],
  ];
  test('bad input is refused by the name of its field', async () => {
    const ada = await service.makeAccount('ada');
    for (const [title, body, field] of refusals) {
      const refused = await send(ada, body);
      assert.equal(refused.status, 400, title);
      assert.equal(refused.body.errors?.[0]?.field, field, title);
    }
    const badKey = await send(ada, { to: [someone] }, { 'idempotency-key': 'a b' });
    assert.equal(badKey.body.errors[0].field, 'idempotency-key');
    assert.deepEqual(await inbox(ada, 'Sent'), []);
  });

  test('attachments of 40 MB in JSON are refused', async () => {
    const ada = await service.makeAccount('ada');
    const content = 'AAAA'.repeat(10_000_000);
    const refused = await send(ada, { to: [someone], attachments: [{ content }] }).catch(
      () => undefined,
    );
    // The server may close while the client still writes.
    if (refused) assert.equal(refused.body.code, 'body_too_large');
    assert.deepEqual(await inbox(ada, 'Sent'), []);
  });
});
