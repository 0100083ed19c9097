/**
 * Forwarding and sending to a real far end: Postfix takes the mail over STARTTLS, OpenDKIM and mailauth
 * verify what arrived, and Postfix's own bounce finds its way back to the sender.
 */
import assert from 'node:assert/strict';
import { Resolver } from 'node:dns/promises';
import { after, before, test } from 'node:test';
import { authenticate } from 'mailauth';
import { type DnsServer, startDnsServer } from '../support/dns-server.ts';
import { freePort } from '../support/free-port.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { untilFound } from './mail-load.ts';
import { type PostfixServer, startPostfix } from './postfix.ts';

let dns: DnsServer;
let service: TestService;
let postfix: PostfixServer;
let ann: TestAccount;

before(async () => {
  dns = await startDnsServer();
  // Each has to know the other's port before it starts.
  const relayPort = await freePort();
  postfix = await startPostfix({
    domains: ['far.test', 'sender.test'],
    refused: { 'refused@far.test': '550 5.1.1 no such user', 'grey@far.test': '451 4.7.1 later' },
    bounced: ['bounced@far.test'],
    relayPort,
  });
  service = await startTestService('sqlite', {
    SMTP_PORT: String(relayPort),
    MAIL_HOSTNAME: 'mail.postroom.test',
    DNS_SERVERS: dns.address,
    MX_PORT: String(postfix.port),
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
  });
  ann = await service.makeAccount();
  const { body } = await service.v2('GET', `/v2/domains/${ann.domain}/dns?user_id=${ann.userId}`);
  const dkim = body.dns.find(({ host }: { host: string }) => host.endsWith('._domainkey'));
  const keyName = `${dkim.host}.${ann.domain}`;
  await postfix.startDkim(new Map([[keyName, dkim.expected_value]]));
  dns.publish([
    ...['far.test', 'sender.test'].map((name) => [name, 'MX', '10 mx.far.test'] as const),
    ['mx.far.test', 'A', '127.0.0.1'],
    // Who is behind p=reject, and passes it on the way in.
    ['sender.test', 'TXT', 'v=spf1 ip4:127.0.0.1 -all'],
    ['_dmarc.sender.test', 'TXT', 'v=DMARC1; p=reject'],
    [keyName, 'TXT', dkim.expected_value],
    [ann.domain, 'TXT', 'v=spf1 ip4:127.0.0.1 -all'],
    [`_dmarc.${ann.domain}`, 'TXT', 'v=DMARC1; p=reject'],
  ]);
});
after(() => postfix.stop());

async function forward(to: string, subject: string, more: object = {}): Promise<void> {
  const set = await service.v2('PUT', `/v2/domains/${ann.domain}/route`, {
    user_id: ann.userId,
    forward_mode: 'forward_email',
    forward_to_email: to,
  });
  assert.equal(set.status, 200);
  const message = { from: 'Bob <bob@sender.test>', to: ann.address, subject, text: 'Grüße.\n.\n' };
  await service.send({ ...message, ...more });
}

/** The mail that has this in it, once it is there. */
async function arrival(text: string | RegExp): Promise<string> {
  const find = async () => (await postfix.mails()).find((mail) => mail.search(text) >= 0);
  return untilFound(`the far end has ${text}`, find);
}

const delivery = async (kind: string) => {
  const path = `/v2/domains/${ann.domain}/deliveries?user_id=${ann.userId}&limit=1000`;
  const { items } = (await service.v2('GET', path)).body;
  return items.findLast((item: { kind: string }) => item.kind === kind);
};

async function whenAttempted(kind: string) {
  return untilFound(`${kind} is attempted`, async () => {
    const found = await delivery(kind);
    return found?.attempts > 0 ? found : undefined;
  });
}

/** What mailauth makes of a mail, as if it came from us to it. */
async function judge(mail: string) {
  const resolver = new Resolver();
  resolver.setServers([dns.address]);
  const [, sender = ''] = /^Return-Path: <(.*)>$/m.exec(mail) ?? [];
  return authenticate(Buffer.from(mail.replaceAll('\n', '\r\n'), 'latin1'), {
    ip: '127.0.0.1',
    helo: 'mail.postroom.test',
    sender,
    // Of the types that are asked for, as its types have them.
    resolver: async (name: string, type: string) =>
      (await resolver.resolve(name, type)) as string[] | string[][],
  });
}

/** Fails unless a mail passes all checks for the account's own domain, and has one signature. */
async function assertAuthentic(mail: string): Promise<void> {
  const { spf, dkim, dmarc } = await judge(mail);
  assert.equal(spf ? spf.status.result : undefined, 'pass');
  assert.deepEqual(
    dkim.results.map(({ status, signingDomain }) => [signingDomain, status.result]),
    [[ann.domain, 'pass']],
  );
  assert.equal(dmarc ? dmarc.status.result : undefined, 'pass');
}

/** What became of a send, once its first attempt is over. */
async function whenSettled(id: string, isSo = (status: string) => status !== 'queued') {
  return untilFound('the send has another status', async () => {
    const { status, body } = await service.mail(ann.token, 'GET', `/mail/sends/${id}`);
    assert.equal(status, 200);
    return isSo(body.status) ? body : undefined;
  });
}

test('forwarded mail arrives by TLS and passes SPF, DKIM and DMARC there', async () => {
  await forward('me@far.test', 'Forwarded');
  const mail = await arrival(/^Subject: Forwarded$/m);
  assert.match(mail, /using TLSv1\.[23] with cipher/);
  assert.match(mail, new RegExp(`dkim=pass[^;]* header\\.d=${ann.domain}`));
  assert.match(mail, /^Return-Path: <SRS0=.*>$/m);
  // Its author's domain asks to refuse what it did not send: From is ours, replies are his.
  assert.match(mail, new RegExp(`^From: "Bob via ${ann.domain}"\\n <${ann.address}>$`, 'm'));
  assert.match(mail, /^Reply-To: Bob <bob@sender\.test>$/m);
  await assertAuthentic(mail);
  // What we found before From was rewritten, under our seal.
  assert.match(mail, /^ARC-Authentication-Results: i=1; mail\.postroom\.test;[^=]*spf=pass/m);
  const { arc } = await judge(mail);
  assert.equal(arc ? arc.status.result : undefined, 'pass');
});

test('mail that an account sends arrives and passes SPF, DKIM and DMARC there', async () => {
  const { status, body } = await service.mail(ann.token, 'POST', '/mail/send', {
    to: [{ name: 'Me', address: 'me@far.test' }],
    subject: 'Sent by ann',
    text: 'Grüße.\n.\nFrom the start of a line\n',
    html: '<p>Grüße.</p>',
    attachments: [
      {
        filename: 'räte.txt',
        contentType: 'text/plain',
        content: Buffer.from('Räte').toString('base64'),
      },
    ],
  });
  assert.equal(status, 202);
  const mail = await arrival(/^Subject: Sent by ann$/m);
  assert.match(mail, /using TLSv1\.[23] with cipher/);
  assert.match(mail, new RegExp(`^Return-Path: <${ann.address}>$`, 'm'));
  assert.match(mail, new RegExp(`dkim=pass[^;]* header\\.d=${ann.domain}`));
  await assertAuthentic(mail);
  assert.equal((await whenSettled(body.id)).status, 'delivered');
});

test('mail that the far end accepts and then bounces is no longer delivered mail of the account', async () => {
  const sent = await service.mail(ann.token, 'POST', '/mail/send', {
    to: [{ address: 'bounced@far.test' }],
    subject: 'Sent and bounced',
    text: 'Hello.\n',
  });
  assert.equal(sent.status, 202);
  const { recipients } = await whenSettled(sent.body.id, (status) => status === 'bounced');
  assert.equal(recipients[0].address, 'bounced@far.test');
});

test('a bounce of the far end reaches the sender', async () => {
  await forward('bounced@far.test', 'Bounces later');
  const bounce = await arrival(/^Content-Type: multipart\/report;[\s\S]*Subject: Bounces later/m);
  assert.match(bounce, /^Return-Path: <>$/m);
  assert.match(bounce, /^X-Original-To: bob@sender\.test$/m);
  assert.match(bounce, /^From: .*<MAILER-DAEMON@mx\.far\.test>$/m);
});

test('mail that the far end refuses is bounced from here, signed', async () => {
  await forward('refused@far.test', 'Refused');
  const dsn = await arrival(/^Content-Type: multipart\/report;[\s\S]*Subject: Refused/m);
  assert.match(dsn, /^Return-Path: <>$/m);
  assert.match(dsn, new RegExp(`^Final-Recipient: rfc822; ${ann.address}$`, 'm'));
  assert.match(dsn, /^Diagnostic-Code: smtp; 550 5\.1\.1 .*no such user/m);
  assert.match(dsn, new RegExp(`dkim=pass[^;]* header\\.d=${ann.domain}`));
});

test('mail that the far end defers is retried', async () => {
  await forward('grey@far.test', 'Grey');
  const { status, last_error } = await whenAttempted('forward');
  assert.equal(status, 'queued');
  assert.equal(last_error.status, 451);
});

test('8-bit text arrives whole, as much of it as Postfix accepts', async () => {
  const line = `${'ä'.repeat(38)}\r\n`;
  const lines = line.repeat(9_500_000 / Buffer.byteLength(line));
  const raw = `From: bob@sender.test\r\nSubject: Large\r\n\r\n${lines}`;
  const envelope = { from: 'bob@sender.test', to: ann.address, use8BitMime: true };
  await forward('me@far.test', '', { envelope, raw });
  const mail = await arrival(/^Subject: Large$/m);
  assert.match(mail, new RegExp(`dkim=pass[^;]* header\\.d=${ann.domain}`));
  const text = Buffer.from(mail.slice(mail.indexOf('\n\n') + 2), 'latin1').toString();
  assert.ok(text === lines.replaceAll('\r\n', '\n'));
});
