/** What mail programs submit by SMTP: checked, signed, queued and listed as what apps send by HTTP. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createTransport, type SentMessageInfo } from 'nodemailer';
import { pino } from 'pino';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { verify } from '../support/outbound/dkim.ts';
import { type FarEnd, refusal, startFarEnd } from '../support/outbound/far-end.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { DialogueClient } from '../support/smtp/dialogue.ts';

/** What a program writes; without a Message-ID where it is `undefined`. */
function source(account: TestAccount, fields: Record<string, string | undefined> = {}): string {
  const all = { From: account.address, To: 'bob@far.test', 'Message-ID': newId(), ...fields };
  const lines = Object.entries(all).map(([name, value]) => (value ? `${name}: ${value}\r\n` : ''));
  return `${lines.join('')}\r\nHello, Bob.\r\n`;
}

let ids = 0;
const newId = () => `<${++ids}@program.test>`;

onEachEngine('submission', (engine) => {
  let service: TestService;
  let far: FarEnd;
  const logged: Record<string, unknown>[] = [];
  before(async () => {
    far = await startFarEnd({
      onRcptTo({ address }, _session, callback) {
        callback(address.startsWith('nobody@') ? refusal(550, '5.1.1 no such user') : undefined);
      },
    });
    const settings = {
      SMTP_RELAY_URL: `smtp://127.0.0.1:${far.port}`,
      SUBMISSIONS_PORT: String(await freePort()),
      SUBMISSION_PORT: String(await freePort()),
      SEND_RECIPIENTS_PER_DAY: '8',
    };
    const logger = pino({}, { write: (line: string) => logged.push(JSON.parse(line)) });
    service = await startTestService(engine, settings, logger);
  });

  const idOf = ({ response }: SentMessageInfo): string => String(response).split(' as ')[1] ?? '';

  /** Submits by nodemailer, by STARTTLS or TLS first. */
  async function submit(
    account: TestAccount,
    raw: string,
    envelope = { from: account.address, to: ['bob@far.test'] },
    auth: object = { user: account.address, pass: account.password },
    isSecure = true,
  ): Promise<SentMessageInfo> {
    const { submissions, submission } = service.addresses;
    const transport = createTransport({
      host: '127.0.0.1',
      port: (isSecure ? submissions : submission)?.port,
      secure: isSecure,
      requireTLS: !isSecure,
      tls: { rejectUnauthorized: false },
      auth,
    });
    try {
      return await transport.sendMail({ envelope, raw });
    } finally {
      transport.close();
    }
  }

  async function settled(account: TestAccount, id: string) {
    for (;;) {
      const { status, body } = await service.mail(account.token, 'GET', `/mail/sends/${id}`);
      assert.equal(status, 200);
      if (body.status !== 'queued') return body;
      await pause(20);
    }
  }

  /** A client that has logged in, and speaks by hand. */
  async function dialogue(account: TestAccount, isLoggedIn = true): Promise<DialogueClient> {
    const client = await DialogueClient.connect(service.addresses.submission?.port ?? 0);
    await client.reply();
    await client.ask('EHLO client.test');
    const login = Buffer.from(`\0${account.address}\0${account.password}`).toString('base64');
    if (isLoggedIn) assert.match(await client.ask(`AUTH PLAIN ${login}`), /^235 /);
    return client;
  }

  async function deliver(client: DialogueClient, from: string, raw: string): Promise<string> {
    assert.match(await client.ask(`MAIL FROM:<${from}>`), /^250 /);
    assert.match(await client.ask('RCPT TO:<bob@far.test>'), /^250 /);
    assert.match(await client.ask('DATA'), /^354 /);
    return client.ask(`${raw}.`);
  }

  async function publishedKey({ domain, userId }: TestAccount) {
    const { body } = await service.v2('GET', `/v2/domains/${domain}/dns?user_id=${userId}`);
    const record = body.dns.find(({ host }: { host: string }) => host.endsWith('._domainkey'));
    const selector = record.host.split('.')[0];
    return { domain, selector, record: record.expected_value, privateKey: '' };
  }

  const arrived = (id: string) =>
    far.received.filter(({ source }) => source.includes(`Message-ID: ${id}`));

  test('a header in UTF-8 asks hosts for SMTPUTF8 only where the program asked for it', async () => {
    const ulf = await service.makeAccount('ulf');
    const sent = async (subject: string, parameter = '') => {
      const id = newId();
      const client = await dialogue(ulf);
      const raw = source(ulf, { 'Message-ID': id, Subject: subject });
      assert.match(await client.ask(`MAIL FROM:<${ulf.address}>${parameter}`), /^250 /);
      assert.match(await client.ask('RCPT TO:<bob@far.test>'), /^250 /);
      assert.match(await client.ask('DATA'), /^354 /);
      const answer = await client.ask(`${raw}.`);
      assert.equal((await settled(ulf, answer.trim().split(' as ')[1] ?? '')).status, 'delivered');
      client.destroy();
      return arrived(id)[0];
    };
    assert.deepEqual((await sent('Grüße'))?.parameters, { BODY: '8BITMIME' });
    assert.equal((await sent('Grüße', ' SMTPUTF8'))?.parameters.SMTPUTF8, true);
  });

  test('a message goes out signed, without Bcc and the client, and is not in Sent', async () => {
    const ada = await service.makeAccount('ada');
    const id = newId();
    const fields = { 'Message-ID': id, Bcc: 'hidden@far.test', 'Return-Path': '<x@y.test>' };
    const to = ['bob@far.test', 'hidden@far.test'];
    const info = await submit(ada, source(ada, fields), { from: ada.address, to });
    const status = await settled(ada, idOf(info));
    assert.equal(status.status, 'delivered');
    assert.equal(status.messageId, id);
    const named = `/mail/sends/by-message-id?messageId=${encodeURIComponent(id)}`;
    assert.deepEqual((await service.mail(ada.token, 'GET', named)).body, status);
    const line = logged.find(({ mailId }) => mailId === idOf(info));
    const { msg, account, from, remoteAddress, protocol, recipients } = line ?? {};
    assert.deepEqual(
      { msg, account, from, remoteAddress, protocol, recipients },
      {
        msg: 'message submitted',
        account: ada.address,
        from: ada.address,
        remoteAddress: '127.0.0.1',
        protocol: 'ESMTPSA',
        recipients: 2,
      },
    );
    const eve = await service.addAccount(ada, 'eve');
    assert.equal((await service.mail(eve.token, 'GET', named)).body.code, 'send_not_found');
    assert.deepEqual(
      status.recipients.map(({ address }: { address: string }) => address),
      to,
    );
    const [one, ...more] = arrived(id);
    assert.ok(one);
    assert.deepEqual(more, []);
    assert.deepEqual(one.to, to);
    const text = one.source.toString('latin1');
    assert.doesNotMatch(text, /hidden|return-path|127\.0\.0\.1|localhost\]/i);
    assert.match(text, /^Received: by mail\.localhost with ESMTPSA id /m);
    assert.match(text, /^Date: /m);
    assert.deepEqual(await verify(one.source, await publishedKey(ada)), [`pass ${ada.domain}`]);
    assert.equal((await service.look(ada)).get('Sent')?.size ?? 0, 0);
  });

  test('passwords by STARTTLS and tokens open it; nothing else does', async () => {
    const ada = await service.makeAccount('ada');
    await submit(ada, source(ada), undefined, { user: ada.address, pass: ada.password }, false);
    const token = { type: 'OAuth2', user: ada.address, accessToken: ada.token };
    await submit(ada, source(ada), undefined, token);
    await assert.rejects(submit(ada, source(ada), undefined, { user: ada.address, pass: 'no' }), {
      responseCode: 535,
    });
    await assert.rejects(submit(ada, source(ada), undefined, { ...token, accessToken: 'no' }), {
      responseCode: 535,
    });
  });

  test('nobody sends as another: neither in the envelope, nor in From or Sender', async () => {
    const ada = await service.makeAccount('ada');
    const eve = await service.addAccount(ada, 'eve');
    const client = await dialogue(eve);
    assert.match(await client.ask(`MAIL FROM:<${ada.address}>`), /^550 5\.7\.1 /);
    const forged = [
      source(eve, { From: ada.address }),
      source(eve, { From: `${eve.address}, ${ada.address}` }),
      source(eve, { From: `${eve.address}\r\nFrom: ${ada.address}` }),
      source(eve, { From: undefined }),
      source(eve, { Sender: ada.address }),
      source(eve, { From: `=?utf-8?q?x?= <${ada.address}> <${eve.address}>` }),
    ];
    for (const raw of forged)
      assert.match(await deliver(client, eve.address, raw), /^550 5\.7\.1 /);
    const torn = source(eve, { Subject: 'a\u0001b' });
    assert.match(await deliver(client, eve.address, torn), /^554 5\.6\.0 /);
    const tagged = eve.address.replace('@', '+news@');
    assert.match(await deliver(client, tagged, source(eve, { From: tagged })), /^250 /);
    client.destroy();
  });

  test('the same message again is sent once; one without a Message-ID may be meant twice', async () => {
    const ada = await service.makeAccount('ada');
    const id = newId();
    const raw = source(ada, { 'Message-ID': id });
    const first = idOf(await submit(ada, raw));
    assert.equal(idOf(await submit(ada, raw)), first);
    // To others it is another one.
    const other = { from: ada.address, to: ['carol@far.test'] };
    assert.notEqual(idOf(await submit(ada, raw, other)), first);
    await settled(ada, first);
    assert.equal(arrived(id).filter(({ to }) => to.includes('bob@far.test')).length, 1);
    const unnamed = source(ada, { 'Message-ID': undefined });
    assert.notEqual(idOf(await submit(ada, unnamed)), idOf(await submit(ada, unnamed)));
  });

  test('a Message-ID that is not valid is replaced', async () => {
    const ada = await service.makeAccount('ada');
    for (const id of ['4711', '<4711>', '<47 11@scanner.test>']) {
      const raw = source(ada, { 'Message-ID': id, 'X-Scan': id });
      const { status, messageId } = await settled(ada, idOf(await submit(ada, raw)));
      assert.equal(status, 'delivered');
      const sent = far.received.findLast((one) => one.source.includes(`X-Scan: ${id}`));
      const ids = sent?.source.toString().match(/^Message-ID: .*$/gm);
      assert.deepEqual(ids, [`Message-ID: ${messageId}`]);
      assert.match(messageId, /^<.+@d\d+\.test>$/);
    }
  });

  test('limits and suppressions refuse as they do by HTTP', async () => {
    const ada = await service.makeAccount('ada');
    const gone = { from: ada.address, to: ['nobody@far.test'] };
    const bounced = idOf(await submit(ada, source(ada), gone));
    assert.equal((await settled(ada, bounced)).status, 'bounced');
    const client = await dialogue(ada);
    assert.match(await client.ask(`MAIL FROM:<${ada.address}> SIZE=99999999`), /^552 5\.3\.4 /);
    assert.match(await client.ask(`MAIL FROM:<${ada.address}>`), /^250 /);
    assert.match(await client.ask('RCPT TO:<Nobody@far.test>'), /^550 5\.1\.1 /);
    for (let at = 0; at < 8; at++) await client.ask(`RCPT TO:<p${at}@far.test>`);
    assert.match(await client.ask('DATA'), /^354 /);
    assert.match(await client.ask(`${source(ada)}.`), /^450 4\.7\.1 /);
    client.destroy();
  });

  test('a read receipt comes from nobody, and nobody is told of its end', async () => {
    const ada = await service.makeAccount('ada');
    const info = await submit(ada, source(ada), { from: '', to: ['nobody@far.test'] });
    assert.equal((await settled(ada, idOf(info))).status, 'bounced');
    assert.equal((await service.look(ada)).get('INBOX')?.size ?? 0, 0);
  });

  test('a login ends with the access of its account', async () => {
    const ada = await service.makeAccount('ada');
    const client = await dialogue(ada);
    const password = 'another good password';
    const path = `/v2/email-accounts/${ada.id}/password/reset`;
    const reset = await service.v2('POST', path, { user_id: ada.userId, password });
    assert.equal(reset.status, 200, JSON.stringify(reset.body));
    assert.match(await client.ask(`MAIL FROM:<${ada.address}>`), /^450 4\.2\.1 /);
    client.destroy();
  });

  test('a message that is under way while its account is suspended is not taken', async () => {
    const ada = await service.makeAccount('ada');
    const client = await dialogue(ada);
    assert.match(await client.ask(`MAIL FROM:<${ada.address}>`), /^250 /);
    assert.match(await client.ask('RCPT TO:<bob@far.test>'), /^250 /);
    assert.match(await client.ask('DATA'), /^354 /);
    const path = `/v2/email-accounts/${ada.id}`;
    const suspend = { user_id: ada.userId, status: 'suspended' };
    const suspended = await service.v2('PUT', path, suspend);
    assert.equal(suspended.status, 200, JSON.stringify(suspended.body));
    assert.match(await client.ask(`${source(ada)}.`), /^450 4\.2\.1 /);
    client.destroy();
  });

  test('an app password opens it, until it is revoked', async () => {
    const ada = await service.makeAccount('ada');
    const path = `/v2/email-accounts/${ada.id}/app-passwords`;
    const made = await service.v2('POST', path, { user_id: ada.userId, name: 'msmtp' });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const client = await dialogue({ ...ada, password: made.body.password });
    assert.match(await deliver(client, ada.address, source(ada)), /^250 /);
    const { id } = made.body.app_password;
    const revoked = await service.v2('POST', `${path}/${id}/delete`, { user_id: ada.userId });
    assert.equal(revoked.status, 200, JSON.stringify(revoked.body));
    assert.match(await client.ask(`MAIL FROM:<${ada.address}>`), /^450 4\.2\.1 /);
    client.destroy();
  });

  test('without a login nothing is taken, and guessing ends the connection', async () => {
    const ada = await service.makeAccount('ada');
    const client = await dialogue(ada, false);
    assert.match(await client.ask(`MAIL FROM:<${ada.address}>`), /^530 5\.7\.0 /);
    assert.match(await client.ask(`AUTH PLAIN ${'A'.repeat(13_000)}`), /^500 /);
    const wrong = Buffer.from(`\0${ada.address}\0wrong`).toString('base64');
    for (let at = 0; at < 4; at++) assert.match(await client.ask(`AUTH PLAIN ${wrong}`), /^535 /);
    assert.match(await client.ask(`AUTH PLAIN ${wrong}`), /^421 4\.7\.0 /);
    assert.equal(await client.line(), undefined);
  });
});
