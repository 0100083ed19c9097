/** Programs of Debian that submit mail: swaks, msmtp with the settings of the guide, curl, and Python's smtplib. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { atEnd } from '../support/at-end.ts';
import { makeCertificate } from '../support/certificate.ts';
import { readPage } from '../support/doc-pages.ts';
import { freePort } from '../support/free-port.ts';
import {
  API_KEY,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';

let service: TestService;
let folder: string;
/** For `localhost`: the programs compare the name. */
let certificate: string;
let ada: TestAccount;
let bob: TestAccount;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postroom-submission-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  const tls = await makeCertificate(folder);
  certificate = tls.TLS_CERT;
  service = await startTestService('sqlite', {
    SUBMISSIONS_PORT: String(await freePort()),
    SUBMISSION_PORT: String(await freePort()),
    IMAPS_PORT: String(await freePort()),
    ...tls,
  });
  ada = await service.makeAccount('ada');
  bob = await service.addAccount(ada, 'bob');
});

const tlsPort = () => String(service.addresses.submissions?.port);
const imapsPort = () => String(service.addresses.imaps?.port);
const startTlsPort = () => String(service.addresses.submission?.port);

interface Run {
  readonly code: number | null;
  readonly output: string;
}

async function run(command: string, args: readonly string[], input = ''): Promise<Run> {
  const child = spawn(command, args, { timeout: 60_000, env: { ...process.env, HOME: folder } });
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const code = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await code, output: out + err };
}

const messageOf = (subject: string) =>
  `From: ${ada.address}\r\nTo: ${bob.address}\r\nBcc: carol@d1.test\r\nSubject: ${subject}\r\n\r\nHello\r\n`;

/** The source of the message with a subject, once bob has it. */
async function arrived(subject: string): Promise<string> {
  for (;;) {
    const request = { mailbox: 'INBOX', fields: ['envelope'] };
    const { body } = await service.mail(bob.token, 'POST', '/mail/sync', request);
    const found = body.changes.added.find(
      ({ envelope }: { envelope: { subject: string } }) => envelope.subject === subject,
    );
    if (found) {
      const path = `/mail/message?mailbox=INBOX&uid=${found.uid}`;
      return (await service.mail(bob.token, 'GET', path)).body.rfc822;
    }
    await pause(50);
  }
}

function assertSubmitted(source: string): void {
  assert.match(source, /^Received: by mail\.localhost with ESMTPSA id /m);
  assert.match(source, /^Message-ID: /im);
  assert.match(source, /^Date: /im);
  assert.doesNotMatch(source, /^Bcc:/im);
}

const swaks = (mechanism: string, password = ada.password) => [
  ...['--server', 'localhost', '--from', ada.address, '--to', bob.address],
  ...['--auth', mechanism, '--auth-user', ada.address, '--auth-password', password],
];

test('swaks submits by STARTTLS and by TLS first, with PLAIN and LOGIN', async () => {
  const plain = [...swaks('PLAIN'), '--port', startTlsPort(), '-tls', '--h-Subject', 'swaks plain'];
  const one = await run('swaks', plain);
  assert.equal(one.code, 0, one.output);
  assertSubmitted(await arrived('swaks plain'));
  const login = [...swaks('LOGIN'), '--port', tlsPort(), '-tlsc', '--h-Subject', 'swaks login'];
  const other = await run('swaks', login);
  assert.equal(other.code, 0, other.output);
  assertSubmitted(await arrived('swaks login'));
  const wrong = [...swaks('LOGIN', 'wrong'), '--port', tlsPort(), '-tlsc'];
  assert.match((await run('swaks', wrong)).output, /535 5\.7\.8 /);
});

test('msmtp submits with the settings of the guide', async () => {
  const block = readPage('docs/guides/mail-programs.md').blocks.find(
    ({ label }) => label === 'msmtprc',
  );
  const settings = (block?.text ?? '')
    .replace('host mail.example', `host localhost\ntls_trust_file ${certificate}`)
    .replace('port 465', `port ${tlsPort()}`)
    .replaceAll('ada@acme.test', ada.address)
    .replace(/passwordeval .*/, `passwordeval echo "${ada.password}"`);
  const path = join(folder, 'msmtprc');
  await writeFile(path, settings);
  await chmod(path, 0o600);
  const { code, output } = await run('msmtp', ['-C', path, bob.address], messageOf('msmtp'));
  assert.equal(code, 0, output);
  assertSubmitted(await arrived('msmtp'));
});

test('curl submits with a password and with a token', async () => {
  const shared = ['-sS', '--cacert', certificate, '--url', `smtps://localhost:${tlsPort()}`];
  const path = ['--mail-from', ada.address, '--mail-rcpt', bob.address, '-T', '-'];
  const password = ['-u', `${ada.address}:${ada.password}`];
  const one = await run('curl', [...shared, ...path, ...password], messageOf('curl password'));
  assert.equal(one.code, 0, one.output);
  assertSubmitted(await arrived('curl password'));
  for (const mechanism of ['OAUTHBEARER', 'XOAUTH2']) {
    const token = ['-u', ada.address, '--oauth2-bearer', ada.token];
    const auth = ['--login-options', `AUTH=${mechanism}`];
    const args = [...shared, ...path, ...token, ...auth];
    const { code, output } = await run('curl', args, messageOf(mechanism));
    assert.equal(code, 0, output);
    assertSubmitted(await arrived(mechanism));
    const forged = ['-u', ada.address, '--oauth2-bearer', 'forged'];
    const refused = await run('curl', [...shared, ...path, ...forged, ...auth], messageOf('no'));
    assert.equal(refused.code, 67, refused.output);
  }
});

const PROGRAM = `
import smtplib, ssl, sys
trusted = ssl.create_default_context(cafile=sys.argv[2])
with smtplib.SMTP("localhost", int(sys.argv[1]), timeout=30) as server:
    server.starttls(context=trusted)
    print(server.login(sys.argv[3], sys.argv[4])[0])
    message = ("From: %s\\r\\nTo: %s\\r\\nSubject: smtplib\\r\\n\\r\\n.dot\\r\\n" % (sys.argv[3], sys.argv[5]))
    print(server.sendmail(sys.argv[3], [sys.argv[5]], message))
`;

test("Python's smtplib submits", async () => {
  const args = [startTlsPort(), certificate, ada.address, ada.password, bob.address];
  const { output } = await run('python3', ['-c', PROGRAM, ...args]);
  assert.equal(output, '235\n{}\n');
  assert.match(await arrived('smtplib'), /\r\n\r\n\.dot\r\n$/);
});

const READ_SETTINGS = `
import plistlib, sys, urllib.request
from xml.etree import ElementTree
url, query, key = sys.argv[1:4]
config = ElementTree.fromstring(urllib.request.urlopen(url + "/mail/config-v1.1.xml").read())
print([server.findtext("port") for server in config.iter("outgoingServer")])
outlook = ElementTree.fromstring(urllib.request.urlopen(url + "/autodiscover/autodiscover.xml").read())
print([one.text for one in outlook.iter() if one.tag.endswith("}Port")])
request = urllib.request.Request(url + query, headers={"x-api-key": key})
profile = plistlib.loads(urllib.request.urlopen(request).read())
account = profile["PayloadContent"][0]
print(account["OutgoingMailServerPortNumber"], account["EmailAddress"], account["EmailAccountName"])
`;

test('the settings are XML and a property list to other readers', async () => {
  const path = `/v2/email-accounts/${ada.id}`;
  const name = 'Ada <&"\u00e9> Lovelace';
  const renamed = await service.v2('PUT', path, { user_id: ada.userId, display_name: name });
  assert.equal(renamed.status, 200, JSON.stringify(renamed.body));
  const args = [service.url, `${path}/mobileconfig?user_id=${ada.userId}`, API_KEY];
  const { output } = await run('python3', ['-c', READ_SETTINGS, ...args]);
  const lines = [
    `['${tlsPort()}', '${startTlsPort()}']`,
    `['${imapsPort()}', '${tlsPort()}']`,
    `${tlsPort()} ${ada.address} ${name}`,
  ];
  assert.equal(output, `${lines.join('\n')}\n`);
});
