/** Mail programs on mailboxes of a real mail server: the login is ours, then they talk to that server. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ImapFlow } from 'imapflow';
import { createTransport } from 'nodemailer';
import pino from 'pino';
import { openRaw } from '../../src/mailboxes/mail-server/imap-client/log-in.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { type DovecotServer, startDovecot } from './dovecot.ts';
import { connectAs, deliveryUrl, mailstoreUrl, servers } from './imap-client.ts';
import type { MailServer } from './mail-server.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** A service in front of a mail server, and what it logged. */
async function front(server: MailServer, environment: Record<string, string> = {}) {
  const logged: { [field: string]: string }[] = [];
  const logger = pino({ level: 'warn' }, { write: (text) => logged.push(JSON.parse(text)) });
  const service = await startTestService(
    'sqlite',
    {
      MAILSTORE_URL: mailstoreUrl(server),
      ...deliveryUrl(server),
      IMAP_PORT: String(await freePort()),
      ...environment,
    },
    logger,
  );
  const port = service.addresses.imap?.port ?? 0;
  let count = 0;
  const makeAccount = async () => {
    const account = await service.makeAccount(`ann${++count}`);
    await server.addAccount(account.address);
    // Once it lets the account in, it lets everybody in who speaks for it.
    const client = await connectAs(server, account.address);
    await client.mailboxOpen('INBOX');
    await client.logout();
    return account;
  };
  const connect = () => ImapLines.connect(port);
  const open = async ({ address, password }: TestAccount) => {
    const client = await connect();
    await client.ok(`LOGIN ${address} "${password}"`);
    return client;
  };
  return { service, port, logged, makeAccount, connect, open };
}

type Front = Awaited<ReturnType<typeof front>>;

async function appPassword(service: TestService, { id, userId }: TestAccount) {
  const path = `/v2/email-accounts/${id}/app-passwords`;
  const { body } = await service.v2('POST', path, { user_id: userId, name: 'phone' });
  return { id: body.app_password.id, password: String(body.password) };
}

for (const name of ['dovecot', 'cyrus', 'courier']) {
  void suite(`mail programs on ${name}`, () => {
    let server: MailServer;
    let all: Front;
    before(async () => {
      const started = await servers[name]?.();
      assert.ok(started);
      server = started;
      all = await front(server);
    });
    after(async () => {
      await all?.service.stop();
      await server?.stop();
    });

    void test('an account is opened by its password, an app password and a token', async () => {
      const ann = await all.makeAccount();
      const app = await appPassword(all.service, ann);
      for (const login of [
        `LOGIN ${ann.address} "${ann.password}"`,
        `AUTHENTICATE PLAIN ${base64(`\0${ann.address}\0${app.password}`)}`,
        `AUTHENTICATE XOAUTH2 ${base64(`user=${ann.address}\x01auth=Bearer ${ann.token}\x01\x01`)}`,
      ]) {
        const client = await all.connect();
        assert.deepEqual(await client.ok('CAPABILITY'), [
          '* CAPABILITY IMAP4rev1 ID STARTTLS SASL-IR AUTH=PLAIN AUTH=LOGIN AUTH=OAUTHBEARER AUTH=XOAUTH2',
        ]);
        const [answer = ''] = await client.command(login);
        assert.match(answer, /^OK \[CAPABILITY [^\]]*\bNAMESPACE\b[^\]]*\] /);
        assert.deepEqual(
          (await client.ok('STATUS INBOX (MESSAGES)')).map((line) => line.replaceAll('"', '')),
          ['* STATUS INBOX (MESSAGES 0)'],
        );
        assert.match((await client.ok('LOGOUT'))[0] ?? '', /^\* BYE/);
        assert.equal(await client.next(), '');
      }
    });

    void test('a wrong password never reaches it', async () => {
      const ann = await all.makeAccount();
      const client = await all.connect();
      for (const password of ['wrong', server.loginAs(ann.address).pass]) {
        const answer = await client.command(`LOGIN ${ann.address} "${password}"`);
        assert.match(answer[0] ?? '', /^NO \[AUTHENTICATIONFAILED\]/);
      }
      assert.match((await client.command('SELECT INBOX'))[0] ?? '', /^BAD/);
    });

    void test('what follows a login in the same packet is answered in order', async () => {
      const { address, password } = await all.makeAccount();
      const client = await all.connect();
      const commands = [`LOGIN ${address} "${password}"`, 'SELECT INBOX', 'NOOP', 'LOGOUT'];
      client.send(commands.map((text, at) => `c${at} ${text}\r\n`).join(''));
      const tagged: string[] = [];
      for (let line = await client.next(); line !== ''; line = await client.next()) {
        if (line.startsWith('c')) tagged.push(line.slice(0, 5));
      }
      assert.deepEqual(tagged, ['c0 OK', 'c1 OK', 'c2 OK', 'c3 OK']);
    });

    void test('a large message comes back octet by octet', async () => {
      const { address: user, password: pass } = await all.makeAccount();
      const client = new ImapFlow({
        ...{ host: '127.0.0.1', port: all.port, secure: false, doSTARTTLS: true },
        ...{ tls: { rejectUnauthorized: false }, auth: { user, pass }, logger: false },
      });
      await client.connect();
      const lines = Array.from({ length: 30_000 }, (_, at) => `${at}`.padStart(76, '.'));
      const source = Buffer.from(`Subject: large\r\n\r\n${lines.join('\r\n')}\r\n`);
      await client.append('INBOX', source, ['\\Seen']);
      await client.mailboxOpen('INBOX');
      const { content } = await client.download('1');
      const read = Buffer.concat((await content?.toArray()) ?? []);
      assert.equal(Buffer.compare(read, source), 0);
      await client.logout();
    });

    void test('a suspension ends its sessions at once', async () => {
      const ann = await all.makeAccount();
      const client = await all.open(ann);
      const path = `/v2/email-accounts/${ann.id}`;
      await all.service.v2('PUT', path, { user_id: ann.userId, status: 'suspended' });
      assert.match(await client.next(), /^\* BYE The account was suspended/);
      assert.equal(await client.next(), '');
      const again = await all.connect();
      const answer = await again.command(`LOGIN ${ann.address} "${ann.password}"`);
      assert.match(answer[0] ?? '', /^NO \[AUTHORIZATIONFAILED\]/);
    });
  });
}

void suite('mail programs on a Dovecot', () => {
  let server: DovecotServer;
  let all: Front;
  before(async () => {
    server = await startDovecot({ tls: true, settings: 'login_trusted_networks = 127.0.0.1' });
    const ca = join(server.directory, 'cert.pem');
    all = await front(server, {
      MAILSTORE_URL: `${server.secureMailstoreUrl}?ca=${ca}`,
      SUBMISSION_PORT: String(await freePort(1)),
    });
  });
  after(async () => {
    await all?.service.stop();
    await server?.stop();
  });

  const list = async (): Promise<Record<string, unknown>[]> =>
    (await all.service.v2('GET', '/v2/operator/imap-sessions')).body.items;

  void test('what a program sends is heard of in IDLE', async () => {
    const ann = await all.makeAccount();
    const client = await all.open(ann);
    await client.ok('SELECT INBOX');
    client.send('i IDLE\r\n');
    assert.match(await client.next(), /^\+ /);
    const transport = createTransport({
      host: '127.0.0.1',
      port: all.service.addresses.submission?.port ?? 0,
      requireTLS: true,
      tls: { rejectUnauthorized: false },
      auth: { user: ann.address, pass: ann.password },
    });
    await transport.sendMail({ from: ann.address, to: ann.address, subject: 'x', text: 'x' });
    transport.close();
    assert.equal(await client.next(), '* 1 EXISTS');
    client.close();
  });

  void test('operators see a session and end it; an app password takes its own with it', async () => {
    const ann = await all.makeAccount();
    const app = await appPassword(all.service, ann);
    const one = await all.connect();
    await one.ok('ID ("name" "Tester" "version" "1")');
    await one.ok(`LOGIN ${ann.address} "${ann.password}"`);
    const two = await all.open({ ...ann, password: app.password });
    const own = (await list()).filter(({ address }) => address === ann.address);
    assert.equal(own.length, 2);
    const first = own.find(({ program }) => program === 'Tester 1');
    assert.equal(first?.client, '127.0.0.1');
    const ended = await all.service.v2('POST', `/v2/operator/imap-sessions/${first?.id}/end`, {});
    assert.equal(ended.status, 200);
    assert.match(await one.next(), /^\* BYE The session was ended by the operator/);
    assert.equal(await one.next(), '');
    const revoke = `/v2/email-accounts/${ann.id}/app-passwords/${app.id}/delete`;
    await all.service.v2('POST', revoke, { user_id: ann.userId });
    assert.match(await two.next(), /^\* BYE The app password was revoked/);
    assert.deepEqual(
      (await list()).filter(({ address }) => address === ann.address),
      [],
    );
  });

  void test('the server is asked for TLS, and told the address of the program', async () => {
    const ann = await all.makeAccount();
    const { certificate: ca = '', imapPort: port } = server;
    const opened = await openRaw({
      server: { host: 'localhost', port, tls: 'starttls', verifyCertificate: true, ca },
      login: server.loginAs(ann.address),
      client: '192.0.2.7',
      timeoutMs: 20_000,
    });
    opened.destroy();
    const login = new RegExp(`Login: user=<${ann.address}>.* rip=192\\.0\\.2\\.7, .*TLS`);
    while (!login.test(await server.log())) await sleep(20);
  });

  void test('a new password ends its sessions', async () => {
    const ann = await all.makeAccount();
    const client = await all.open(ann);
    await all.service.v2('POST', `/v2/email-accounts/${ann.id}/password/reset`, {
      user_id: ann.userId,
    });
    assert.match(await client.next(), /^\* BYE The account was suspended or deleted, or its pass/);
  });

  void test('mbsync keeps a folder in step', async () => {
    const ann = await all.makeAccount();
    const send = (subject: string) =>
      all.service.send({ from: 'bob@example.test', to: ann.address, subject, text: subject });
    for (let at = 0; at < 20; at++) await send(`m${at}`);
    const folder = await mkdtemp(join(tmpdir(), 'postroom-mbsync-'));
    try {
      await mkdir(join(folder, 'mail'));
      const settings = `IMAPAccount postroom
Host 127.0.0.1
Port ${all.port}
User ${ann.address}
Pass "${ann.password}"
SSLType None

IMAPStore far
Account postroom

MaildirStore near
Path ${folder}/mail/
Inbox ${folder}/mail/INBOX

Channel all
Far :far:
Near :near:
Patterns INBOX Archive
Create Both
SyncState *
`;
      await writeFile(join(folder, 'mbsyncrc'), settings);
      const sync = () =>
        promisify(execFile)('mbsync', ['-a', '-c', join(folder, 'mbsyncrc')], { timeout: 60_000 });
      await sync();
      assert.equal((await readdir(join(folder, 'mail', 'INBOX', 'new'))).length, 20);
      await writeFile(join(folder, 'mail', 'Archive', 'new', '1.here'), 'Subject: h\n\nhere\n');
      await sync();
      const client = await all.open(ann);
      assert.deepEqual(await client.ok('STATUS Archive (MESSAGES)'), [
        '* STATUS Archive (MESSAGES 1)',
      ]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  void test('an account that it does not have is not called a wrong password', async () => {
    const eve = await all.service.makeAccount('eve');
    all.logged.splice(0);
    const client = await all.connect();
    const answers = await client.command(`LOGIN ${eve.address} "${eve.password}"`);
    assert.match(answers[1] ?? '', /^NO \[UNAVAILABLE\] /);
    assert.deepEqual(
      all.logged.map(({ failure, account }) => [failure, account]),
      [['login_refused', eve.address]],
    );
  });

  void test('a server that goes away is told, and a right password is never called wrong', async () => {
    const ann = await all.makeAccount();
    const idle = await all.open(ann);
    await server.doveadm('kick', ann.address);
    // Its own words where it had the time, else ours.
    assert.match(await idle.next(), /^\* BYE /);
    await server.pause();
    all.logged.splice(0);
    const client = await all.connect();
    const answers = await client.command(`LOGIN ${ann.address} "${ann.password}"`);
    assert.match(answers[0] ?? '', /^\* BYE /);
    assert.match(answers[1] ?? '', /^NO \[UNAVAILABLE\] /);
    const [line] = all.logged;
    assert.equal(line?.failure, 'unreachable');
    assert.match(line?.note ?? '', /the mail program is told/);
    await server.resume();
  });
});
