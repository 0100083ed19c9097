/** What accounts send: to a real SMTP receiver, with its copy, its status and its signature. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onEachEngine } from '../support/databases.ts';
import { verify } from '../support/outbound/dkim.ts';
import { type FarEnd, refusal, startFarEnd } from '../support/outbound/far-end.ts';
import {
  type Answer,
  nodeCount,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';

const someone = { address: 'bob@far.test' };

onEachEngine('sending mail', (engine) => {
  let service: TestService;
  /** The first account: its domain is above our own name. */
  let operator: TestAccount;
  let far: FarEnd;
  /** Recipients that the far end refused. */
  let refused = 0;
  /** Whether it takes mail for waits@ later alone. */
  let isBusy = false;
  before(async () => {
    // It takes mail for everybody but nobody@.
    far = await startFarEnd({
      onRcptTo({ address }, _session, callback) {
        if (isBusy && address.startsWith('waits@')) return callback(refusal(451, '4.3.2 later'));
        if (!address.toLowerCase().startsWith('nobody@')) return callback();
        refused++;
        return callback(refusal(550, '5.1.1 no such user'));
      },
    });
    service = await startTestService(engine, {
      SMTP_RELAY_URL: `smtp://127.0.0.1:${far.port}`,
      MAIL_HOSTNAME: 'mail.d1.test',
    });
    operator = await service.makeAccount('operator');
    assert.equal(operator.domain, 'd1.test');
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

  /** What a mailbox is called: mail servers have names of their own, or none before the first copy. */
  async function nameOf(account: TestAccount, use: string): Promise<string | undefined> {
    const { body } = await service.mail(account.token, 'GET', '/mail/mailboxes');
    const all: { mailbox: string; specialUse?: string }[] = body.mailboxes;
    return all.find(({ mailbox, specialUse }) => specialUse === `\\${use}` || mailbox === use)
      ?.mailbox;
  }

  async function inbox(account: TestAccount, use = 'INBOX') {
    const mailbox = await nameOf(account, use);
    if (mailbox === undefined) return [];
    const { body } = await service.mail(account.token, 'POST', '/mail/sync', {
      mailbox,
      fields: ['envelope', 'flags'],
    });
    return body.changes.added;
  }

  /** A mailbox once it has so many messages: on a mail server they come after the outcome. */
  async function filled(account: TestAccount, count: number) {
    for (;;) {
      const messages = await inbox(account);
      if (messages.length >= count) return messages;
      await pause(20);
    }
  }

  test('the statuses of several messages are read by one request, without those of others', async () => {
    const [ada, eve] = [await service.makeAccount(), await service.makeAccount()];
    const ids: string[] = [];
    for (const account of [ada, eve, ada]) {
      const { body } = await send(account, { to: [{ address: 'many@far.test' }], text: 'Hello' });
      ids.push(body.id);
    }
    const asked = { ids: [ids[2], ids[1], ids[0], ids[2]] };
    const read = (body: object) => service.mail(ada.token, 'POST', '/mail/sends/read', body);
    const { status, body } = await read(asked);
    assert.equal(status, 200);
    assert.deepEqual(
      body.sends.map(({ id }: { id: string }) => id),
      [ids[2], ids[0]],
    );
    const one = await settled(ada, ids[0] ?? '');
    assert.deepEqual((await read({ ids: [ids[0]] })).body, { sends: [one] });
    assert.equal((await read({ ids: [] })).status, 400);
  });

  test('messages that wait are listed for every app of the account, the last to go first', async () => {
    const ada = await service.makeAccount();
    const to = [{ address: 'listed@far.test' }];
    const later = { to, subject: 'later', text: 'Hello', delaySeconds: 3600 };
    const { body: first } = await send(ada, later);
    const { body: second } = await send(ada, { ...later, delaySeconds: 7200 });
    const { body: cancelled } = await send(ada, later);
    const cancel = { id: cancelled.id };
    await service.mail(ada.token, 'POST', '/mail/sends/cancel', cancel);
    const { body: gone } = await send(ada, { to, text: 'now' });
    await settled(ada, gone.id);
    const read = async (body: object) => {
      const answer = await service.mail(ada.token, 'POST', '/mail/sends/read', body);
      return (answer.body.sends as { id: string; copy?: object }[]).map(({ id, copy }) => [
        id,
        copy,
      ]);
    };
    const copyOf = ({ mailbox, uid, uidvalidity }: Record<string, unknown>) => {
      return { mailbox, uid, uidvalidity };
    };
    const [one, two] = [
      [first.id, copyOf(first)],
      [second.id, copyOf(second)],
    ];
    assert.deepEqual(await read({ ids: [], waiting: true }), [two, one]);
    const named = [gone.id, first.id, cancelled.id];
    assert.deepEqual(await read({ ids: named, waiting: true }), [
      [gone.id, copyOf(gone)],
      one,
      [cancelled.id, undefined],
      two,
    ]);
  });

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
    assert.equal(body.mailbox, await nameOf(ada, 'Sent'));
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
    assert.match(text, /^Received: by mail\.d1\.test with HTTP id /m);
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

  test('a recipient who is refused for good is reported in INBOX', async () => {
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
    const [dsn, ...more] = await filled(ada, 1);
    assert.deepEqual(more, []);
    assert.equal(dsn.envelope.inReplyTo, body.messageId);
    const read = await service.mail(ada.token, 'GET', `/mail/content?uid=${dsn.uid}`);
    assert.match(read.body.text, /<nobody@far\.test>\n +550 5\.1\.1 no such user/);
    const timeLine = async (id: string) =>
      (await service.v2('GET', `/v2/operator/trace/${id}`)).body.items;
    const told = (await timeLine(body.id)).find(
      ({ event }: { event: string }) => event === 'reported',
    );
    assert.equal(told?.recipient, ada.address);
    const [first] = await timeLine(told.detail.split(' ').at(-1));
    assert.equal(first.recipient, ada.address);
    // A mail server gets it in the next moment.
    assert.equal(first.event, process.env.TEST_MAIL_SERVER ? 'queued' : 'stored');
    const { body: deliveries } = await service.v2(
      'GET',
      `/v2/domains/${ada.domain}/deliveries?user_id=${ada.userId}`,
    );
    assert.deepEqual(
      deliveries.items
        .filter(({ kind }: { kind: string }) => kind === 'send')
        .map((one: Record<string, unknown>) => [one.kind, one.status]),
      [['send', 'failed']],
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

  const suppressions = async ({ domain, userId }: TestAccount) => {
    const path = `/v2/domains/${domain}/suppressions?user_id=${userId}`;
    return (await service.v2('GET', path)).body.items;
  };

  test('an address that does not exist gets no more mail, until an operator allows it', async () => {
    const ada = await service.makeAccount('ada');
    const message = {
      to: [{ address: 'Nobody@Far.test' }, someone],
      subject: 'Hello',
      text: 'Hi.',
    };
    const first = await send(ada, message);
    await settled(ada, first.body.id);
    const [entry, ...more] = await suppressions(ada);
    assert.deepEqual(more, []);
    assert.equal(entry.address, 'nobody@far.test');
    assert.match(entry.detail, /550 5\.1\.1 no such user/);
    const attempts = refused;
    const second = await settled(ada, (await send(ada, message)).body.id);
    assert.equal(refused, attempts, 'nothing was attempted');
    assert.match(second.recipients[0].detail, /^on the suppression list of d\d+\.test since 20/);
    assert.equal(second.recipients[0].status, 'bounced');
    assert.equal(second.recipients[1].status, 'delivered');
    // The list is the domain's own.
    const eve = await service.makeAccount('eve');
    assert.deepEqual(await suppressions(eve), []);
    const remove = (account: TestAccount, user_id = account.userId) =>
      service.v2('POST', `/v2/domains/${account.domain}/suppressions/delete`, {
        user_id,
        address: 'NOBODY@far.test',
      });
    assert.equal((await remove(ada, eve.userId)).body.code, 'domain_not_found');
    assert.deepEqual((await remove(ada)).body, { ok: true, deleted: 'nobody@far.test' });
    assert.equal((await remove(ada)).body.code, 'suppression_not_found');
    const { items } = (await service.v2('GET', '/v2/operator/audit')).body;
    const [{ action, target }, earlier] = items;
    assert.deepEqual([action, target], ['suppression.delete', `nobody@far.test of ${ada.domain}`]);
    assert.notEqual(earlier.action, action);
    await settled(ada, (await send(ada, message)).body.id);
    assert.equal(refused, attempts + 1);
  });

  test('a bounce from outside changes the status of an accepted message', async () => {
    const ada = await service.makeAccount('ada');
    const to = [{ address: 'gone@far.test' }, { address: 'slow@far.test' }, someone];
    const { body } = await send(ada, { to, subject: 'Hello', text: 'Hi.' });
    assert.equal((await settled(ada, body.id)).status, 'delivered');
    const report = (messageId: string) =>
      [
        'From: MAILER-DAEMON@far.test',
        'Subject: Undelivered',
        'MIME-Version: 1.0',
        'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
        '',
        '--b\r\nContent-Type: text/plain\r\n\r\nSorry.',
        '--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.far.test\r\n',
        'Final-Recipient: RFC822; <Gone@far.test>\r\nAction: failed\r\nStatus: 5.1.1',
        'Diagnostic-Code: smtp; 550 5.1.1 left the company\r\n',
        'Original-Recipient: rfc822;slow@far.test\r\nFinal-Recipient: rfc822; x@y.test',
        'Action: delayed\r\nStatus: 4.4.1\r\n',
        'Final-Recipient: rfc822; stranger@far.test\r\nAction: failed\r\nStatus: 5.1.1\r\n',
        `--b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: ${messageId}\r\n`,
        '--b--\r\n',
      ].join('\r\n');
    const deliver = (address: string, from: string, raw: string) =>
      service.send({ envelope: { from, to: address }, raw });
    const status = async () => {
      const { body: now } = await service.mail(ada.token, 'GET', `/mail/sends/${body.id}`);
      return now.recipients.map((one: Record<string, string>) => [one.status, one.detail]);
    };
    const before = await status();
    // Not from the null sender; of another message; to another account.
    const ben = await service.addAccount(ada, 'ben');
    await deliver(ada.address, 'eve@far.test', report(body.messageId));
    await deliver(ada.address, '', report('<other@acme.test>'));
    await deliver(ben.address, '', report(body.messageId));
    assert.deepEqual(await status(), before);
    await deliver(ada.address, '', report(body.messageId));
    const [gone, slow, bob] = await status();
    assert.deepEqual(gone, ['bounced', 'failed: 5.1.1 550 5.1.1 left the company']);
    assert.deepEqual(slow, ['delivered', 'delayed: 4.4.1']);
    assert.deepEqual(bob, before[2]);
    await deliver(ada.address, '', report(body.messageId));
    const counted = await service.v2('GET', `/v2/operator/accounts/${ada.id}`);
    const { sent_24h, bounced_24h } = counted.body;
    assert.deepEqual([sent_24h, bounced_24h], [3, 1], 'the same report counts once');
    const traced = await service.v2('GET', `/v2/operator/messages/${body.id}`);
    assert.deepEqual(
      traced.body.recipients.map((one: Record<string, string>) => [one.status, one.reason]),
      [gone, ['delivered', undefined], ['delivered', undefined]],
    );
    const bounces = await service.v2('GET', '/v2/operator/messages?status=bounced');
    assert.deepEqual([bounces.body.items[0].id, bounces.body.items[0].status], [body.id, 'partly']);
    // Whoever received the message could have written that.
    assert.deepEqual(await suppressions(ada), []);
  });

  test('the number of recipients of an account per day is limited', async () => {
    const limited = await startTestService(engine, {
      SEND_RECIPIENTS_PER_DAY: '3',
      SMTP_RELAY_URL: `smtp://127.0.0.1:${far.port}`,
    });
    const ada = await limited.makeAccount('ada');
    const sendTo = (count: number, more: object = {}) =>
      limited.mail(ada.token, 'POST', '/mail/send', {
        to: Array.from({ length: count }, (_, n) => ({ address: `r${n}@far.test` })),
        ...more,
      });
    assert.equal((await sendTo(4)).body.code, 'send_limit');
    // Written together with others, a moment later.
    const count = async () => (await limited.v2('GET', `/v2/operator/accounts/${ada.id}`)).body;
    while ((await count()).refused_24h === 0) await pause(50);
    const { sent_24h, refused_24h } = await count();
    assert.deepEqual([sent_24h, refused_24h], [0, 4]);
    assert.equal((await sendTo(1)).status, 202);
    const later = await sendTo(2, { delaySeconds: 3_600 });
    assert.equal(later.status, 202);
    const refused = await sendTo(1);
    assert.equal(refused.status, 429);
    assert.equal(refused.body.code, 'send_limit');
    assert.ok(Number(refused.headers.get('retry-after')) > 86_000);
    // What is cancelled does not count; each account has its own.
    await limited.mail(ada.token, 'POST', '/mail/sends/cancel', { id: later.body.id });
    assert.equal((await sendTo(2)).status, 202);
    const ben = await limited.addAccount(ada, 'ben');
    const bens = await limited.mail(ben.token, 'POST', '/mail/send', { to: [someone] });
    assert.equal(bens.status, 202);
  });

  test('an operator can switch sending off', async () => {
    const off = await startTestService(engine, { SEND_ENABLED: 'false' });
    const ada = await off.makeAccount('ada');
    const refused = await off.mail(ada.token, 'POST', '/mail/send', { to: [someone] });
    assert.equal(refused.status, 403);
    assert.equal(refused.body.code, 'send_disabled');
  });

  async function markDkim({ domain, userId }: TestAccount, status: string) {
    const { body } = await service.v2('GET', `/v2/domains/${domain}/dns?user_id=${userId}`);
    const { id } = body.dns.find(({ host }: { host: string }) => host.endsWith('._domainkey'));
    await service.v2('POST', `/v2/domains/${domain}/dns/mark`, { user_id: userId, id, status });
  }

  test('mail waits while the domain of its sender is not active', async () => {
    const ada = await service.makeAccount('ada');
    const path = `/v2/domains/${ada.domain}/deliveries`;
    const retry = async () => {
      const { items } = (await service.v2('GET', `${path}?user_id=${ada.userId}`)).body;
      await service.v2('POST', `${path}/${items[0].id}/retry`, { user_id: ada.userId });
    };
    // Its first attempt fails: at the second one the domain is not active.
    isBusy = true;
    const { body } = await send(ada, { to: [{ address: 'waits@far.test' }] });
    await settled(ada, body.id);
    await markDkim(ada, 'failed');
    isBusy = false;
    await retry();
    for (;;) {
      const waiting = await settled(ada, body.id);
      assert.equal(waiting.status, 'deferred');
      if (/has no verified DKIM record/.test(waiting.recipients[0].detail)) break;
      await pause(20);
    }
    assert.deepEqual(arrived('waits@far.test'), []);
    await markDkim(ada, 'verified');
    await retry();
    while (arrived('waits@far.test').length === 0) await pause(20);
  });

  test('a domain whose DKIM record is not verified sends nothing', async () => {
    const ada = await service.makeAccount('ada');
    await markDkim(ada, 'failed');
    const refused = await send(ada, { to: [{ address: 'bob@far.test' }], text: 'Hello.' });
    assert.equal(refused.status, 409);
    assert.equal(refused.body.code, 'domain_not_ready');
    assert.deepEqual(await inbox(ada, 'Sent'), []);
  });

  test('recipients hosted here get it without SMTP, by the route of their domain', async () => {
    const ada = await service.makeAccount('ada');
    const ben = await service.addAccount(ada, 'ben');
    const cy = await service.makeAccount('cy');
    const { body } = await send(ada, {
      to: [{ address: `ben+tag@${ada.domain}` }, { address: ben.address }],
      cc: [{ address: cy.address }, { address: `nobody@${cy.domain}` }],
      bcc: [{ address: ada.address }],
      subject: 'Here',
      text: 'Hello.',
    });
    const done = await settled(ada, body.id);
    const statuses = Object.fromEntries(
      done.recipients.map(({ address, status }: Record<string, string>) => [address, status]),
    );
    assert.deepEqual(statuses, {
      [`ben+tag@${ada.domain}`]: 'delivered',
      [ben.address]: 'delivered',
      [cy.address]: 'delivered',
      [`nobody@${cy.domain}`]: 'bounced',
      [ada.address]: 'delivered',
    });
    // Two addresses of one account bring one copy.
    const [bens, ...more] = await filled(ben, 1);
    assert.deepEqual(more, []);
    assert.equal(bens.envelope.bcc, undefined);
    assert.equal((await filled(cy, 1)).length, 1);
    const own = await filled(ada, 2);
    assert.deepEqual(own.map((one: typeof bens) => one.envelope.subject).toSorted(), [
      'Here',
      'Undelivered mail returned to sender',
    ]);
    const source = await service.mail(ben.token, 'GET', `/mail/message?uid=${bens.uid}`);
    assert.match(source.body.rfc822, new RegExp(`^Return-Path: <${ada.address}>\r\n`));
    assert.match(source.body.rfc822, /\r\nDKIM-Signature: /);
    assert.match(source.body.rfc822, /\r\nReceived: by mail\.d1\.test with HTTP id /);
  });

  test('mail for one domain here is delivered by the answer, and cannot be cancelled', async () => {
    const ada = await service.makeAccount('ada');
    const ben = await service.addAccount(ada, 'ben');
    const { body } = await send(ada, { to: [{ address: ben.address }], text: 'Now.' });
    const sent = await service.mail(ada.token, 'GET', `/mail/sends/${body.id}`);
    assert.equal(sent.body.status, 'delivered');
    const cancel = await service.mail(ada.token, 'POST', '/mail/sends/cancel', { id: body.id });
    assert.equal(cancel.body.code, 'already_sent');
    assert.equal((await filled(ben, 1)).length, 1);
  });

  test('mail to postmaster at our own name reaches the operator, as mail from outside does', async () => {
    const ada = await service.makeAccount('ada');
    const postmaster = 'Postmaster@mail.d1.test';
    const { body } = await send(ada, { to: [{ address: postmaster }], text: 'Help.' });
    assert.equal((await settled(ada, body.id)).status, 'delivered');
    assert.equal((await filled(operator, 1)).length, 1);
    // Also with a tag, and beside others at that name and elsewhere.
    const tagged = 'postmaster+help@mail.d1.test';
    const mixed = ['root@mail.d1.test', postmaster, tagged, 'bob@far.test'];
    const some = { to: mixed.map((address) => ({ address })), text: 'Help again.' };
    assert.equal((await settled(ada, (await send(ada, some)).body.id)).status, 'delivered');
    assert.equal((await filled(operator, 2)).length, 2);
    assert.deepEqual([...arrived(postmaster), ...arrived(tagged)], []);
    assert.equal(arrived('root@mail.d1.test').length, 1);
    // What else is at that name is not ours.
    const others = { to: [{ address: 'staff@mail.d1.test' }], text: 'Hello.' };
    await settled(ada, (await send(ada, others)).body.id);
    assert.equal(arrived('staff@mail.d1.test').length, 1);
  });

  test('about another account a sender learns what strangers learn by SMTP', async () => {
    const ada = await service.makeAccount('ada');
    const ben = await service.addAccount(ada, 'ben');
    const change = { user_id: ben.userId, status: 'suspended' };
    await service.v2('PUT', `/v2/email-accounts/${ben.id}`, change);
    const { body } = await send(ada, { to: [{ address: ben.address }], text: 'x' });
    const { status, recipients } = await settled(ada, body.id);
    const stranger = service.send({ from: 'x@far.test', to: ben.address, text: 'x' });
    const { response } = await stranger.then(
      () => assert.fail('the mail of a suspended account is taken'),
      (error: Error & { response?: string }) => error,
    );
    assert.deepEqual([status, recipients[0].detail], ['deferred', response]);
    assert.match(recipients[0].detail, /^450 4\.2\.1 /);
    assert.doesNotMatch(recipients[0].detail, /suspend|account|active/i);
  });

  test('waiting mail can be cancelled, and is a draft again', async () => {
    const ada = await service.makeAccount('ada');
    const message = {
      to: [{ address: 'later@far.test' }],
      bcc: [{ address: 'hidden@far.test' }],
      subject: 'Later',
      text: 'Later.',
    };
    const { body } = await send(ada, { ...message, delaySeconds: 3_600 });
    const waiting = await service.mail(ada.token, 'GET', `/mail/sends/${body.id}`);
    assert.equal(waiting.body.status, 'queued');
    assert.ok(Date.parse(waiting.body.sendAt) > Date.now() + 3_500_000);
    assert.equal((await inbox(ada, 'Sent')).length, 1);
    const cancel = () => post(ada, '/mail/sends/cancel', { id: body.id });
    const [one, two] = await Promise.all([cancel(), cancel()]);
    assert.equal(one.status, 200, JSON.stringify(one.body));
    assert.deepEqual(two.body, one.body);
    assert.deepEqual((await cancel()).body, one.body);
    assert.deepEqual(await inbox(ada, 'Sent'), []);
    const [draft, ...more] = await inbox(ada, 'Drafts');
    assert.deepEqual(more, []);
    assert.deepEqual(draft.flags, ['\\Draft', '\\Seen']);
    assert.equal(draft.uid, one.body.draft.uid);
    assert.deepEqual(draft.envelope.bcc, [{ name: '', address: 'hidden@far.test' }]);
    const after = await service.mail(ada.token, 'GET', `/mail/sends/${body.id}`);
    assert.equal(after.body.status, 'cancelled');

    // The draft is sent now: it goes with the mail.
    const { mailbox, uid, uidvalidity } = one.body.draft;
    const sent = await send(ada, { ...message, draft: { mailbox, uid, uidvalidity } });
    assert.deepEqual(await inbox(ada, 'Drafts'), []);
    await settled(ada, sent.body.id);
    const late = await post(ada, '/mail/sends/cancel', { id: sent.body.id });
    assert.equal(late.status, 409);
    assert.equal(late.body.code, 'already_sent');
    assert.equal((await inbox(ada, 'Sent')).length, 1);
    assert.equal(arrived('later@far.test').length, 1);
    assert.equal((await post(ada, '/mail/sends/cancel', { id: 'x' })).body.code, 'send_not_found');
  });

  test('mail that a recipient got cannot be cancelled, also where others of its delivery wait', async () => {
    const ada = await service.makeAccount('ada');
    const [ben, cy] = [await service.addAccount(ada, 'ben'), await service.addAccount(ada, 'cy')];
    const suspended = { user_id: ada.userId, status: 'suspended' };
    await service.v2('PUT', `/v2/email-accounts/${ben.id}`, suspended);
    const { body } = await send(ada, { to: [{ address: cy.address }, { address: ben.address }] });
    const waiting = await settled(ada, body.id);
    const statuses = waiting.recipients.map(({ status }: { status: string }) => status);
    assert.deepEqual(statuses, ['delivered', 'deferred']);
    const late = await post(ada, '/mail/sends/cancel', { id: body.id });
    assert.equal(late.body.code, 'already_sent');
    const { body: after } = await service.mail(ada.token, 'GET', `/mail/sends/${body.id}`);
    assert.deepEqual(after, waiting);
    assert.deepEqual(await inbox(ada, 'Drafts'), []);
    assert.equal((await inbox(ada, 'Sent')).length, 1);
  });

  test('a draft stays while its mail waits, and is removed when it is sent', async () => {
    const ada = await service.makeAccount('ada');
    const draft = await appendDraft(ada);
    const message = { to: [{ address: 'soon@far.test' }], subject: 'Soon', text: 'Soon.', draft };
    const kept = await send(ada, { ...message, delaySeconds: 3_600 });
    assert.equal((await inbox(ada, 'Drafts')).length, 1);
    const cancelled = await post(ada, '/mail/sends/cancel', { id: kept.body.id });
    assert.deepEqual(cancelled.body.draft, draft);
    assert.equal((await inbox(ada, 'Drafts')).length, 1);
    const sendAt = new Date(Date.now() + 2_000).toISOString();
    const sent = await send(ada, { ...message, sendAt });
    await settled(ada, sent.body.id);
    assert.ok(Date.now() >= Date.parse(sendAt));
    // On a mail server it goes after the outcome is written.
    while ((await inbox(ada, 'Drafts')).length > 0) await pause(20);
  });

  async function appendDraft(account: TestAccount) {
    const mailbox = (await nameOf(account, 'Drafts')) ?? 'Drafts';
    await post(account, '/mail/mailboxes/create', { mailbox });
    const response = await fetch(`${service.url}/mail/append?mailbox=${mailbox}&flags=%5CDraft`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.token}`, 'content-type': 'message/rfc822' },
      body: `From: ${account.address}\r\nSubject: Soon\r\n\r\nSoon.\r\n`,
    });
    assert.equal(response.status, 201);
    return response.json();
  }

  test('only a draft can be named as one', async () => {
    const ada = await service.makeAccount('ada');
    const message = { to: [{ address: 'draft@far.test' }], subject: 'Mine', text: 'Mine.' };
    const append = async (mailbox: string, flags = '') => {
      const response = await fetch(
        `${service.url}/mail/append?mailbox=${mailbox}&flags=${encodeURIComponent(flags)}`,
        {
          method: 'POST',
          headers: { authorization: `Bearer ${ada.token}`, 'content-type': 'message/rfc822' },
          body: 'From: bob@far.test\r\nSubject: Other\r\n\r\nOther.\r\n',
        },
      );
      assert.equal(response.status, 201);
      const appended: Answer['body'] = await response.json();
      return appended;
    };
    const other = await append('INBOX');
    const refused = await send(ada, { ...message, draft: { mailbox: 'inbox', uid: other.uid } });
    assert.equal(refused.status, 400);
    assert.equal(refused.body.errors[0].field, 'draft');
    for (const member of ['draft', 'inReplyTo']) {
      const changed = await send(ada, { ...message, [member]: { ...other, uidvalidity: '1' } });
      assert.equal(changed.status, 409, member);
      assert.equal(changed.body.code, 'uidvalidity_changed', member);
    }
    assert.equal((await inbox(ada)).length, 1);

    // A draft of another mailbox is one by its flag; the mailbox is made anew while its mail waits.
    // Its name is the server's: Courier keeps every mailbox below INBOX.
    const create = () => post(ada, '/mail/mailboxes/create', { mailbox: 'Work' });
    const made = await create();
    assert.equal(made.status, 201);
    const work: string = made.body.mailbox;
    const draft = { mailbox: work, uid: (await append(work, '\\Draft')).uid };
    const cancelled = await send(ada, { ...message, draft, delaySeconds: 3_600 });
    const gone = await send(ada, { ...message, draft, delaySeconds: 2 });
    assert.equal(gone.status, 202, JSON.stringify(gone.body));
    assert.equal((await post(ada, '/mail/mailboxes/delete', { mailbox: work })).status, 200);
    assert.equal((await create()).status, 201);
    assert.equal((await append(work, '\\Draft')).uid, draft.uid);
    await settled(ada, gone.body.id);
    assert.equal((await inbox(ada, work)).length, 1);
    const { body } = await post(ada, '/mail/sends/cancel', { id: cancelled.body.id });
    assert.notEqual(body.draft.mailbox, work);
    const [anew] = await inbox(ada, 'Drafts');
    assert.equal(anew.envelope.subject, 'Mine');
    // Who removed the draft on another device sends all the same.
    await post(ada, '/mail/delete', { mailbox: work, uids: [draft.uid] });
    assert.equal((await send(ada, { ...message, draft })).status, 202);
  });

  test('an answer is threaded, and forwards parts of the account without their bytes', async () => {
    const ada = await service.makeAccount('ada');
    const picture = Buffer.from(Array.from({ length: 100_000 }, (_, n) => n % 251));
    await service.send({
      from: 'bob@example.test',
      to: ada.address,
      subject: 'Question',
      text: 'Well?',
      messageId: '<q2@example.test>',
      references: ['<q0@example.test>', '<q1@example.test>'],
      attachments: [{ filename: 'größe.png', contentType: 'image/png', content: picture }],
    });
    const question = { mailbox: 'INBOX', uid: 1 };
    const { uidvalidity } = (
      await service.mail(ada.token, 'POST', '/mail/sync', { mailbox: 'INBOX' })
    ).body;
    const { status, body } = await send(ada, {
      to: [{ address: 'answer@far.test' }],
      subject: 'Re: Question',
      text: 'Well.',
      inReplyTo: question,
      attachments: [{ ...question, uidvalidity, part: '2' }],
    });
    assert.equal(status, 202, JSON.stringify(body));
    assert.deepEqual((await inbox(ada))[0].flags, ['\\Answered']);
    await settled(ada, body.id);
    const [copy] = await inbox(ada, 'Sent');
    assert.equal(copy.envelope.inReplyTo, '<q2@example.test>');
    const [arrival] = arrived('answer@far.test');
    const text = arrival?.source.toString('latin1') ?? '';
    const references = '<q0@example.test> <q1@example.test> <q2@example.test>';
    assert.equal(
      /^References: ([^\r]*(?:\r\n [^\r]*)*)/m.exec(text)?.[1]?.replace(/\r\n/g, ''),
      references,
    );
    const read = await service.mail(
      ada.token,
      'GET',
      `/mail/content?mailbox=${body.mailbox}&uid=${copy.uid}`,
    );
    const [file] = read.body.attachments;
    assert.deepEqual(
      [file.filename, file.contentType, file.size],
      ['größe.png', 'image/png', 100_000],
    );
    const part = await fetch(
      `${service.url}/mail/attachment?mailbox=${body.mailbox}&uid=${copy.uid}&part=${file.part}`,
      { headers: { authorization: `Bearer ${ada.token}` } },
    );
    assert.deepEqual(Buffer.from(await part.arrayBuffer()), picture);

    const missing: [body: object, code: string][] = [
      [{ attachments: [{ ...question, part: '9' }] }, 'part_not_found'],
      [{ attachments: [{ ...question, uid: 77, part: '2' }] }, 'message_not_found'],
      [{ attachments: [{ ...question, mailbox: 'Nowhere', part: '2' }] }, 'mailbox_not_found'],
      [{ attachments: [{ ...question, uidvalidity: '1', part: '2' }] }, 'uidvalidity_changed'],
      [{ inReplyTo: { ...question, uid: 77 } }, 'message_not_found'],
      [{ attachments: [{ mailbox: 'INBOX' }] }, 'invalid_request'],
    ];
    for (const [more, code] of missing) {
      const refused = await send(ada, { to: [someone], ...more });
      assert.equal(refused.body.code, code, JSON.stringify(more));
    }
  });

  test('a message that the app wrote is sent unchanged, without Bcc', async () => {
    const ada = await service.makeAccount('ada');
    const source = (from: string, more = '') =>
      `From: Ada <${from}>\r\nTo: raw@far.test\r\nBcc: rawbcc@far.test\r\nSubject: Raw\r\n${more}` +
      'X-Own: kept\r\n\r\nBody.\n.\nEnd';
    const sendSource = async (
      body: string,
      query = '',
      headers: Record<string, string> = {},
    ): Promise<Answer> => {
      const response = await fetch(`${service.url}/mail/send${query}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${ada.token}`,
          'content-type': 'message/rfc822',
          ...headers,
        },
        body,
      });
      return { status: response.status, headers: response.headers, body: await response.json() };
    };
    const key = { 'idempotency-key': 'raw-1' };
    const { status, body } = await sendSource(source(ada.address), '', key);
    assert.equal(status, 202, JSON.stringify(body));
    assert.deepEqual((await sendSource(source(ada.address), '', key)).body, body);
    const reused = await sendSource(source(ada.address, 'X: y\r\n'), '', key);
    assert.equal(reused.body.code, 'idempotency_key_reused');
    await settled(ada, body.id);
    const [raw, ...more] = arrived('raw@far.test');
    assert.ok(raw);
    assert.deepEqual(more, []);
    const text = raw.source.toString();
    assert.match(text, /\r\nX-Own: kept\r\n/);
    assert.doesNotMatch(text, /rawbcc/i);
    assert.match(text, new RegExp(`\r\nMessage-ID: ${body.messageId}\r\nDate: `));
    assert.match(text, /\r\n\r\nBody\.\r\n\.\r\nEnd\r\n$/);
    assert.deepEqual(await verify(raw.source, await publishedKey(ada)), [`pass ${ada.domain}`]);
    assert.equal(arrived('rawbcc@far.test').length, 1);
    const [copy] = await inbox(ada, 'Sent');
    assert.deepEqual(copy.envelope.bcc, [{ name: '', address: 'rawbcc@far.test' }]);

    const own = source(ada.address, 'Message-ID: <mine@acme.test>\r\n');
    assert.equal((await sendSource(own)).body.messageId, '<mine@acme.test>');
    const later = await sendSource(own, '?delaySeconds=600');
    assert.ok((await service.mail(ada.token, 'GET', `/mail/sends/${later.body.id}`)).body.sendAt);
    const bad: [source: string, field: string][] = [
      [source('eve@far.test'), 'from'],
      [`${source(ada.address).replace('From:', 'X-From:')}`, 'from'],
      [source(ada.address, 'From: eve@far.test\r\n'), 'from'],
      [source(ada.address, 'Sender: eve@far.test\r\n'), 'sender'],
      [source(`eve@far.test>, <${ada.address}`), 'from'],
      [source(ada.address).replace(/^To.*\r\nBcc.*\r\n/m, ''), 'to'],
      [source(ada.address).replace('raw@far.test', 'raw@'), 'to'],
      [source(ada.address).replace('raw@far.test', '"x> SIZE=1"@far.test'), 'to'],
      [source(`"ada+<z>"@${ada.domain}`), 'from'],
      [source(ada.address, 'Message-ID: none\r\n'), 'message-id'],
      ['', 'body'],
      // Readers take these for fields, and we do not.
      ...['\0From', 'From\0', '\uFEFFFrom', '\xA0From', '\x0bFrom', 'no field', 'X\r\nFrom'].map(
        (line): [string, string] => [source(ada.address, `${line}: eve@far.test\r\n`), 'subject'],
      ),
      [source(ada.address, 'X-A: a\rFrom: eve@far.test\r\n'), 'x-a'],
      [source(ada.address, 'Resent-From: eve@far.test\r\n'), 'resent-from'],
      [source(ada.address, 'ARC-Seal: i=1; d=localhost\r\n'), 'arc-seal'],
      [source(ada.address, 'X-Spam-Status: No\r\n'), 'x-spam-status'],
      [source(ada.address, 'Errors-To: eve@far.test\r\n'), 'errors-to'],
      [source(ada.address, 'Apparently-From: eve@far.test\r\n'), 'apparently-from'],
      [source(ada.address, 'Subject: another\r\n'), 'subject'],
      [source(ada.address, 'TO: another@far.test\r\n'), 'to'],
      [source(ada.address, 'Content-Type: x/y\r\nContent-type: x/y\r\n'), 'content-type'],
      [source(ada.address, `X-A: ${'x'.repeat(1_000)}\r\n`), 'x-a'],
      [source(ada.address, 'Received-SPF: pass\r\n'), 'received-spf'],
      [source(ada.address, 'Authentication-Results: x; dmarc=pass\r\n'), 'authentication-results'],
    ];
    for (const [body, field] of bad) {
      const refused = await sendSource(body);
      assert.equal(refused.status, 400, body);
      assert.equal(refused.body.errors[0].field, field, body);
    }
    // What was accepted is answered again, also where it would be refused by now.
    await markDkim(ada, 'failed');
    assert.equal((await sendSource(own)).body.code, 'domain_not_ready');
    assert.deepEqual((await sendSource(source(ada.address), '', key)).body, body);
  });

  const refusals: [title: string, body: object, field: string][] = [
    ['no recipient', { subject: 'Hello' }, 'to'],
    [
      '101 recipients',
      { to: Array.from({ length: 101 }, (_, n) => ({ address: `r${n}@far.test` })) },
      'to',
    ],
    ['what is no address', { to: [{ address: 'bob' }] }, 'to.0.address'],
    [
      'a From of somebody else',
      { from: { address: 'eve@far.test' }, to: [someone] },
      'from.address',
    ],
    [
      'a From that no command can hold',
      { from: { address: '"ADA+<z>"@ACME' }, to: [someone] },
      'from.address',
    ],
    [
      'a recipient that no command can hold',
      { to: [{ address: '"x> SIZE=1"@far.test' }] },
      'to.0.address',
    ],
    ['CR LF in the subject', { to: [someone], subject: 'a\r\nBcc: x@far.test' }, 'subject'],
    ['CR LF in a name', { to: [{ ...someone, name: 'a\r\nb' }] }, 'to.0.name'],
    [
      'CR LF in an address',
      { to: [{ address: 'bob@far.test\r\nRCPT TO:<x@y.test>' }] },
      'to.0.address',
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
      'attachments.0.content',
    ],
    ['sendAt in the past', { to: [someone], sendAt: '2020-01-31T12:00:00Z' }, 'sendAt'],
    [
      'sendAt in ten years',
      { to: [someone], sendAt: new Date(Date.now() + 10 * 365 * 86_400_000).toISOString() },
      'sendAt',
    ],
    ['sendAt that is no time', { to: [someone], sendAt: 'tomorrow' }, 'sendAt'],
    ['sendAt without a time', { to: [someone], sendAt: '2027-01-31' }, 'sendAt'],
    ['a day that is not', { to: [someone], sendAt: '2027-02-30T12:00:00Z' }, 'sendAt'],
    ['an hour that is not', { to: [someone], sendAt: '2027-01-31T25:00:00Z' }, 'sendAt'],
    [
      'sendAt and delaySeconds',
      { to: [someone], sendAt: '2027-01-31T12:00:00Z', delaySeconds: 1 },
      'delaySeconds',
    ],
    ['a delay below 0', { to: [someone], delaySeconds: -1 }, 'delaySeconds'],
    [
      'CR LF in a file name',
      { to: [someone], attachments: [{ filename: 'a\r\nb', content: '' }] },
      'attachments.0.filename',
    ],
  ];
  test('bad input is refused by the name of its field', async () => {
    const ada = await service.makeAccount('ada');
    const texts = { to: ['a@far.test'], cc: 'a@far.test' };
    const said = await send(ada, texts);
    assert.match(said.body.detail, /to\.0 must be an object with address/);
    assert.match(said.body.detail, /cc must be an array of objects with address/);
    for (const [title, body, field] of refusals) {
      // A From of the account's own.
      const own = JSON.parse(
        JSON.stringify(body).replace('ADA', 'ada').replace('ACME', ada.domain),
      );
      const refused = await send(ada, own);
      assert.equal(refused.status, 400, title);
      assert.equal(refused.body.errors?.[0]?.field, field, title);
    }
    const badKey = await send(ada, { to: [someone] }, { 'idempotency-key': 'a b' });
    assert.equal(badKey.body.errors[0].field, 'idempotency-key');
    // Of a source they are parameters; ignored beside JSON, they would send at once what was meant for later.
    for (const later of ['delaySeconds=60', 'sendAt=2126-01-31T12:00:00Z']) {
      const misplaced = await post(ada, `/mail/send?${later}`, { to: [someone] });
      assert.equal(misplaced.body.errors?.[0]?.field, later.split('=')[0]);
    }
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

  const skip = nodeCount > 1 && 'each node has room of its own';
  test('uploads that break off leave room for others, and small ones need none', {
    skip,
  }, async () => {
    const ann = await service.makeAccount();
    const large = { to: [someone], text: 'x'.repeat(1_100_000) };
    const begun = Array.from({ length: 5 }, () => {
      const socket = connect(Number(new URL(service.url).port), '127.0.0.1');
      socket.write(
        'POST /mail/send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n' +
          `Authorization: Bearer ${ann.token}\r\nContent-Length: 2000000\r\n\r\n{"text":"`,
      );
      socket.write('x'.repeat(1_200_000));
      return socket;
    });
    // Four are held from here on: the fifth is refused.
    const [refused] = await Promise.race(begun.map((socket) => once(socket, 'data')));
    assert.match(String(refused), /^HTTP\/1.1 429 /);
    assert.equal((await send(ann, large)).status, 429);
    const chunked = await fetch(`${service.url}/mail/send`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ann.token}`, 'content-type': 'application/json' },
      body: new Blob([JSON.stringify({ to: [someone], text: 'small' })]).stream(),
      duplex: 'half',
    });
    assert.equal(chunked.status, 202);
    for (const socket of begun) socket.destroy();
    const until = Date.now() + 10_000;
    let { status } = await send(ann, large);
    while (status === 429 && Date.now() < until) {
      await pause(50);
      status = (await send(ann, large)).status;
    }
    assert.equal(status, 202);
  });
});
