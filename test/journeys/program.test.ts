/** The program `postroom` beside a service that runs, as an operator calls it. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { CERTIFICATE } from '../support/certificate.ts';
import { runHere } from '../support/commands.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import { environment, type Process, ROOT, run, startHere, stop } from '../support/process.ts';

const PROGRAM = fileURLToPath(new URL('../../postroom', import.meta.url));

const imapPort = await freePort();
const env = {
  ...(await environment('program')),
  DNS_SERVERS: '127.0.0.1:9',
  IMAP_PORT: String(imapPort),
};

function postroom(args: readonly string[], settings: Record<string, string> = env): Process {
  return run([PROGRAM, ...args], settings, 'pipe');
}

const command = (args: readonly string[], settings: Record<string, string> = env) =>
  runHere(args, settings);

/** Runs a command that has to succeed; its JSON. */
async function result(...args: string[]) {
  const { code, output } = await command([...args, '--json']);
  assert.equal(code, 0, output);
  return JSON.parse(output);
}

test('a command loads no more than it needs', async () => {
  const tell = `import { registerHooks } from 'node:module';
    registerHooks({ load(url, context, next) { console.log(url); return next(url, context); } });`;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(tell)}`;
  const packagesOf = async (...args: string[]) => {
    const { output } = await postroom(args, { ...env, NODE_OPTIONS }).ended();
    assert.match(output, /postroom\.js$/m);
    return new Set(Array.from(output.matchAll(/\/node_modules\/([^/\n]+)/g), ([, name]) => name));
  };
  assert.deepEqual(await packagesOf('--version'), new Set());
  // It only asks the service.
  const packages = await packagesOf('trace');
  assert.ok(packages.has('commander'));
  for (const name of ['kysely', 'pg', 'fastify', 'pino']) assert.ok(!packages.has(name), name);
});

test('demo starts a service, and makes a mailbox with a message', async () => {
  const demo = postroom(['demo', '--json']);
  while (!demo.output().includes('\n')) {
    assert.ok(demo.child.stdout && demo.child.exitCode === null, demo.output());
    await new Promise((resolve) => demo.child.stdout?.once('data', resolve));
  }
  const { url, token, inbox } = JSON.parse(demo.output());
  assert.equal(await subjects(url, token), 'Hello');
  assert.equal(inbox, `http://127.0.0.1:${env.PORT}/webmail`);
  await stop(demo);
});

async function subjects(url: string, token: string): Promise<string> {
  const answer = await fetch(`${url}/mail/sync`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ mailbox: 'INBOX', fields: ['envelope'] }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
  const { changes } = (await answer.json()) as any;
  return changes.added
    .map(({ envelope }: { envelope: { subject: string } }) => envelope.subject)
    .join();
}

/** What mail programs have open, and what lets them in: by the commands of an operator. */
async function seeMailPrograms(url: string, key: string, account: string): Promise<void> {
  const appPassword = await fetch(`${url}/v2/email-accounts/${account}/app-passwords`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify({ user_id: 'demo', name: 'Phone' }),
  });
  const { app_password: phone, password } = (await appPassword.json()) as {
    readonly app_password: { readonly id: number };
    readonly password: string;
  };
  const ended = await ImapLines.connect(imapPort);
  await ended.ok(`LOGIN ada@acme.test ${password}`);
  const { items: sessions } = await result('imap-sessions', 'list', '--account-id', account);
  assert.deepEqual([sessions.length, sessions[0].app_password_id], [1, phone.id]);
  assert.equal((await result('imap-sessions', 'end', sessions[0].id)).id, sessions[0].id);
  assert.match(await ended.next(), /^\* BYE /);
  const revoked = await ImapLines.connect(imapPort);
  await revoked.ok(`LOGIN ada@acme.test ${password}`);
  const passwords = await command(['app-passwords', 'list', 'ada@acme.test']);
  assert.match(passwords.output, new RegExp(`^${phone.id} +Phone +\\S+ +\\S+ +imap$`, 'm'));
  await result('app-passwords', 'revoke', account, String(phone.id));
  assert.match(await revoked.next(), /^\* BYE /);
  assert.equal((await command(['app-passwords', 'list', account])).output, 'No items found.\n');
}

test('demo beside a service that runs makes its mailbox again, with another mail', async () => {
  const service = await startHere(env);
  const { url, token } = await result('demo', '--password', 'correct horse');
  assert.equal(await subjects(url, token), 'Hello,Hello');
  // With the password that it has, what signed in before stays so.
  await result('demo', '--password', 'correct horse');
  assert.equal(await subjects(url, token), 'Hello,Hello,Hello');
  const exported = await command(['demo', '--export']);
  assert.match(
    exported.output,
    /^export URL='http:\S+' KEY='pr_\S+' TOKEN='\S+' ADDRESS='ada@acme\.test' PASSWORD='\S+'\n$/,
  );
  const [key = ''] = /(?<=KEY=')[^']+/.exec(exported.output) ?? [];
  // What only the operator's API knows.
  const { items } = await result('accounts', 'list', '--domain', 'acme.test');
  assert.deepEqual([items.length, items[0].address], [1, 'ada@acme.test']);
  const account = await command(['accounts', 'show', 'ada@acme.test']);
  assert.match(account.output, /^address +ada@acme\.test$/m);
  // Those without mail are left out; at midnight there are two with mail.
  const [, days = ''] =
    /^days:\nat +sent +received +bounced +refused\n((?:\S+ +\d+ .*\n)+)/m.exec(account.output) ??
    [];
  const received = days.match(/(?<=^\S+ +\d+ +)[1-9]\d*/gm) ?? [];
  assert.equal(received.length, days.split('\n').length - 1, account.output);
  assert.equal(
    received.map(Number).reduce((sum, one) => sum + one, 0),
    4,
    account.output,
  );
  const shown = await command(['domains', 'list']);
  assert.match(shown.output, /^domain +user_id +status .*\nacme\.test +demo +active /);
  const domain = await command(['domains', 'show', 'acme.test']);
  assert.match(domain.output, /^can_send +true$/m);
  assert.match(
    domain.output,
    /^DKIM: verified\n {2}publish {2}\S+\._domainkey\.acme\.test {2}TXT {2}"v=DKIM1/m,
  );
  // Its records were set by hand, so that they stay as they are.
  const verified = await command(['domains', 'verify', 'acme.test']);
  assert.equal(verified.code, 0, verified.output);
  assert.match(verified.output, /^MX: verified\n {2}publish {2}acme\.test {2}MX {2}10 /m);
  const { id: ada } = items[0];
  const quota = async (size: string) =>
    (await command(['accounts', 'quota', String(ada), size])).output;
  assert.match(await quota('34.5kb'), /^quota_bytes +34\.5 KB$/m);
  const listed = await command(['accounts', 'list']);
  assert.match(
    listed.output,
    /^\d+ +ada@acme\.test +demo +active(?: +\d+){4} +[\d.]+ K?B +34\.5 KB /m,
  );
  assert.match(await quota('none'), /^quota_bytes +none$/m);
  assert.doesNotMatch(await quota('default'), /quota_bytes/);
  assert.match(await quota('2000MB'), /^quota_bytes +2\.0 GB$/m);
  await quota('default');
  await seeMailPrograms(url, key, String(ada));
  assert.equal((await result('accounts', 'suspend', 'Ada@acme.test')).status, 'suspended');
  assert.equal((await result('accounts', 'resume', String(ada))).status, 'active');
  const nobody = await command(['accounts', 'suspend', 'nobody@acme.test']);
  assert.deepEqual([nobody.code, nobody.output], [1, 'there is no account nobody@acme.test\n']);
  const noId = await command(['keys', 'revoke', 'x']);
  assert.match(noId.output, /It is a number, as the list shows it\.\n$/);
  const unknown = await command(['accounts', 'quota', '999', '1GB']);
  assert.deepEqual([unknown.code, unknown.output], [1, 'there is no account 999\n']);
  assert.ok((await result('messages', '--since', '2020-01-31')).items.length > 0);
  const day = await command(['messages', '--since', 'yesterday']);
  const meant = '--since must be a date (2026-01-31) or a time (2026-01-31T12:00:00Z)\n';
  assert.deepEqual([day.code, day.output], [2, meant]);
  const quotas = await command(['accounts', 'list']);
  assert.match(quotas.output, / quota_bytes .*\n.*ada@acme\.test .* none /);
  const unfit = await command(['usage', '--by', 'moon']);
  assert.equal(unfit.output, '--by must be one of domain, account, user\n');
  const unable = await command(['domains', 'list', '--can-send', 'false']);
  assert.equal(unable.output, 'No items found.\n');
  await result('usage', '--by', 'account', '--all');
  const { items: traced } = await result('trace', '--recipient', 'ada@acme.test');
  const timeline = await result('trace', 'show', traced[0].id);
  assert.deepEqual(
    timeline.items.map(({ event }: { event: string }) => event),
    ['received', 'stored'],
  );
  const { items: messages } = await result('messages', '--recipient', 'ada@acme.test');
  assert.deepEqual([messages[0].id, messages[0].status], [traced[0].id, 'delivered']);
  const message = await command(['messages', 'show', messages[0].id]);
  assert.match(
    message.output,
    /^status +delivered\n[\s\S]*^recipients:\n.*\ndelivered .* ada@acme\.test +INBOX, UID /m,
  );
  const fit = await result('queue', 'retry', '--domain', 'acme.test', '--dry-run');
  const parts = { statuses: [], domains: [], reasons: [] };
  assert.deepEqual(fit, { ok: true, matched: 0, changed: 0, parts });
  const part = await command(['queue', 'show', '--domain', 'acme.test']);
  assert.match(part.output, /^counts +queued 0, /);
  assert.deepEqual((await result('queue', 'failed', '--q', 'acme')).items, []);
  const noneMatch = await command(['queue', 'retry', '--ids', '99']);
  assert.equal(noneMatch.output, 'No delivery matches: nothing was done.\n');
  const dropped = await command(['queue', 'drop', '--domain', 'acme.test']);
  assert.equal(dropped.code, 1);
  assert.match(
    dropped.output,
    /^This drops 0 deliveries\. Nothing was done\. To confirm, add --yes/,
  );
  const kept = await command(['domains', 'delete', 'acme.test']);
  assert.equal(kept.code, 1);
  assert.match(
    kept.output,
    /^acme\.test has 1 account, 4 messages .* Nothing was done\. To confirm, add --confirm/,
  );
  await result('domains', 'suspend', 'acme.test', '--reason', 'unpaid');
  const resumed = await result('domains', 'resume', 'acme.test');
  assert.equal(resumed.suspended, false);
  // Another user's claim on the same name; the list below shows that the first one is still there.
  const claimed = await fetch(`${url}/v2/domain`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify({ domain: 'acme.test', user_id: 'rival' }),
  });
  assert.equal(claimed.status, 201);
  const ofRival = ['acme.test', '--user-id', 'rival'];
  assert.equal((await result('domains', 'suspend', ...ofRival)).user_id, 'rival');
  await result('domains', 'delete', ...ofRival, '--confirm', 'acme.test');
  const { id } = await result('blocks', 'add', 'domain', 'BAD.test', '--note', 'phishing');
  const { items: blocked } = await result('blocks', 'list');
  assert.deepEqual([blocked.length, blocked[0].value], [1, 'bad.test']);
  assert.equal((await result('blocks', 'delete', String(id))).note, 'phishing');
  const { items: audited } = await result('audit', '--target', 'bad.test');
  assert.deepEqual(
    audited.map(({ action }: { action: string }) => action),
    ['block.delete', 'block.add'],
  );
  const scope = ['--user-id', 'demo', '--read-only', '--expires-at', '2099-01-31'];
  const made = await result('keys', 'create', 'billing', ...scope);
  const readWith = () =>
    fetch(`${url}/v2/domains?user_id=demo`, { headers: { 'x-api-key': made.api_key } });
  assert.equal((await readWith()).status, 200);
  assert.deepEqual(
    [made.key.scope, made.key.user_id, made.key.read_only, made.key.expires_at],
    ['product', 'demo', true, '2099-01-31T00:00:00.000Z'],
  );
  const unbound = await command(['keys', 'create', 'ops', '--scope', 'operator']);
  assert.match(unbound.output, /^api_key +prk_[\w-]{43}\nSave the key now/m);
  assert.equal((await result('keys', 'revoke', String(made.key.id))).status, 'revoked');
  assert.equal((await readWith()).status, 401);
  const { items: keys } = await result('keys', 'list');
  assert.deepEqual(
    keys.map(({ name, status }: Record<string, string>) => [name, status]),
    [
      ['ops', 'active'],
      ['billing', 'revoked'],
    ],
  );
  const { record } = await result('domains', 'rotate-dkim', 'acme.test');
  assert.equal(record.key_state, 'next');
  const { record: again } = await result('domains', 'rotate-dkim', 'acme.test');
  assert.equal(again.host, record.host);
  const wrong = await command(['domains', 'show', 'other.test']);
  assert.equal(wrong.code, 1);

  // There is no DNS here: that fails, and all else is looked at.
  const doctor = await command(['doctor', '--json'], { ...env, IMAPS_PORT: '1' });
  assert.equal(doctor.code, 1);
  assert.match(doctor.output, /the service runs, but nothing listens at 127\.0\.0\.1:1"/);
  const { findings } = JSON.parse(doctor.output.split('\n')[0] ?? '');
  const results = new Map<string, string>();
  for (const finding of findings) results.set(finding.check, finding.result);
  assert.deepEqual(
    ['data folder', 'database', 'service (HTTP)', 'certificate', 'DNS: resolver'].map((check) =>
      results.get(check),
    ),
    ['ok', 'ok', 'ok', 'failed', 'failed'],
  );

  const { value } = await result('rotate', 'api-key');
  assert.match(value, /^pr_/);
  // The service knows the old one alone until it is started again.
  const { items: left } = await result('domains', 'list');
  assert.deepEqual([left.length, left[0].user_id, left[0].suspended], [1, 'demo', false]);
  const refused = await postroom(['migrate']).ended();
  assert.equal(refused.code, 1);
  assert.match(refused.output, /^DATA_DIR: .* is in use/);
  await service.stop();
});

test('a new key is valid beside the old one, until that is dropped', async () => {
  const stored = async () =>
    JSON.parse(await readFile(join(env.DATA_DIR, 'secrets.json'), 'utf8')).apiKey;
  const [newest, old] = await stored();
  assert.notEqual(newest, old);
  assert.equal((await result('rotate', 'api-key', '--drop-old')).dropped, 1);
  assert.equal(await stored(), newest);
  const own = await command(['rotate', 'api-key'], { ...env, API_KEYS: newest });
  assert.equal(own.code, 1);
  assert.match(own.output, /^API_KEYS is set and replaces the generated secret/);
});

test('migrate says which version the database has, and refuses one of a newer release', async () => {
  const { version, newest } = await result('migrate');
  assert.equal(version, newest);
  const database = new DatabaseSync(join(env.DATA_DIR, 'postroom.sqlite'));
  database.exec(`insert into kysely_migration (name, timestamp) values ('0999', '')`);
  assert.deepEqual(await result('migrate'), { ok: true, version: 999, newest });
  database.exec(`update settings set value = '999' where name = 'oldest_version'`);
  const { code, output } = await command(['migrate']);
  assert.equal(code, 1);
  assert.match(
    output,
    /the database has schema version 999, but this program knows only versions up to/,
  );
  database.exec(`delete from kysely_migration where name = '0999'`);
  database.close();
});

for (const [args, said] of [
  [['demon'], "unknown command 'demon' (did you mean demo?)"],
  [['domains', 'shwo', 'acme.test'], "unknown command 'shwo' (did you mean show?)"],
  [['domains', 'list', '--jsno'], "unknown option '--jsno' (did you mean --json?)"],
  [['domains', 'show'], "missing required argument 'domain'"],
  [
    ['accounts', 'quota', '1', 'much'],
    "command-argument value 'much' is invalid for argument 'size'. It is a size such as 500MB or 2GB, none, or default.",
  ],
] as const) {
  test(`a wrong call gets one line, and exit code 2: ${args.join(' ')}`, async () => {
    const { code, output } = await command(args);
    assert.deepEqual([code, output], [2, `error: ${said}\n`]);
  });
}

for (const name of ['accounts', 'domains', 'move']) {
  test(`the help of ${name} fits into 80 columns`, async () => {
    const { code, output } = await command([name, '--help']);
    assert.equal(code, 0, output);
    const wide = output.split('\n').filter((line) => line.length > 80);
    assert.deepEqual(wide, []);
  });
}

test('what else is wrong is one line, without a password', async () => {
  const away = { DATABASE_URL: 'postgres://ada:secret@127.0.0.1:1/mail' };
  for (const [args, settings, exit, said] of [
    [['audit', '--url', 'http://ada:secret@127.0.0.1'], {}, 2, /^--url: expected a URL such as/],
    [['audit', '--url', 'secret'], {}, 2, /^--url: expected a URL such as/],
    [['audit'], away, 1, /^the database cannot be reached right now: .*REFUSED/],
    [['backup', '/nowhere'], away, 1, /^the database cannot be reached right now: .*REFUSED/],
    [['backup'], {}, 2, /^backup: name a folder/],
    [
      ['backup', '/nowhere'],
      { DATA_DIR: '/none' },
      1,
      /^DATA_DIR: there is no database in \/none: give/,
    ],
    [['migrate'], { DATA_DIR: '/none' }, 1, /^DATA_DIR: there is no database in \/none: give/],
    [
      ['audit'],
      { DATA_DIR: '/none' },
      1,
      /^there is no API key in \/none: .* \(DATA_DIR or API_KEYS\)$/m,
    ],
    [['verify-backup', '/nowhere'], {}, 1, /^there is no folder \/nowhere$/m],
    [['rotate', 'api-key', '--sign'], {}, 2, /^api-key: --sign is for values that only nodes know/],
    [['move'], {}, 2, /^expected --to, --bodies or both/],
  ] as const) {
    const { code, output } = await command(args, { ...env, ...settings });
    assert.equal(code, exit, output);
    assert.match(output, said);
    assert.doesNotMatch(output, /secret|\n./, output);
  }
});

test('doctor says who closes the connection, and greets a listener that expects a PROXY header', async (t) => {
  const relay = createServer((socket) => socket.end());
  const smtp = createServer((socket) => {
    socket.once('data', (header) => socket.end(`220 after ${header}`));
  });
  t.after(() => [relay, smtp].map((server) => server.close()));
  const tls = { cert: readFileSync(CERTIFICATE.TLS_CERT), key: readFileSync(CERTIFICATE.TLS_KEY) };
  const imaps = createTlsServer(tls, (socket) => socket.end('* OK ready\r\n'));
  t.after(() => imaps.close());
  const [relayPort, smtpPort] = [await portOf(relay), await portOf(smtp)];
  const settings = {
    ...env,
    IMAPS_PORT: String(await portOf(imaps)),
    SMTP_PORT: String(smtpPort),
    SMTP_PROXY_NETWORKS: '127.0.0.0/8',
    SMTP_RELAY_URL: `smtp://127.0.0.1:${relayPort}`,
  };
  const { code, output } = await command(['doctor'], settings);
  assert.equal(code, 1, output);
  const reached =
    /^ok +SMTP port +127\.0\.0\.1:\d+ says "220 after PROXY UNKNOWN"; other mail servers/m;
  assert.match(output, reached);
  assert.match(output, /^ok +IMAPS_PORT +127\.0\.0\.1:\d+ says "\* OK ready"$/m);
  assert.match(
    output,
    /^failed +relay +127\.0\.0\.1:\d+: the server closed the connection\n +look at SMTP_RELAY_URL/m,
  );
});

test('a server that speaks something else is told as such', async (t) => {
  const smtp = createServer((socket) => socket.end('220 mail.example.com ESMTP\r\n'));
  t.after(() => smtp.close());
  const url = `http://127.0.0.1:${await portOf(smtp)}`;
  const { code, output } = await command(['attention', '--url', url], {
    ...env,
    API_KEYS: 'a-key-of-the-operator',
  });
  assert.deepEqual([code, output.includes('undefined')], [1, false], output);
  assert.match(output, /^no service answers at http:\S+ \(.*HTTP.*\): start it, or/);
});

test('doctor hears the mail server before there is an account', async (t) => {
  const server = createServer((socket) => socket.write('* OK ready\r\n'));
  t.after(() => server.close());
  const port = await portOf(server);
  const folder = { ...(await environment('mail-server')), DNS_SERVERS: env.DNS_SERVERS };
  const ask = () =>
    command(['doctor'], { ...folder, MAILSTORE_URL: `imap://a:b@127.0.0.1:${port}` });
  const { output } = await ask();
  assert.match(
    output,
    /^warning +mail server +127\.0\.0\.1:\d+ answers; no account was found to sign in for$/m,
  );
  await new Promise((done) => server.close(done));
  const down = await ask();
  assert.match(down.output, /^failed +mail server +the IMAP server cannot be reached$/m);
});

test('doctor signs in to the relay, and never in plaintext', async (t) => {
  const said: string[] = [];
  const relay = createServer((socket) => {
    socket.write('220 relay\r\n');
    socket.on('data', (chunk) => {
      said.push(String(chunk));
      socket.write(
        String(chunk).startsWith('EHLO') ? '250-relay\r\n250 AUTH PLAIN\r\n' : '221 bye\r\n',
      );
    });
  });
  t.after(() => relay.close());
  const at = `127.0.0.1:${await portOf(relay)}`;
  const open = await command(['doctor'], { ...env, SMTP_RELAY_URL: `smtp://${at}` });
  assert.match(open.output, /^ok +relay +127\.0\.0\.1:\d+ takes our connection$/m);
  const { output } = await command(['doctor'], { ...env, SMTP_RELAY_URL: `smtp://u:secret@${at}` });
  assert.match(output, /^failed +relay +127\.0\.0\.1:\d+: the server offers no STARTTLS/m);
  assert.doesNotMatch(said.join(), /AUTH/);
});

test('doctor greets the mail server where mail is delivered by LMTP', async (t) => {
  const said: string[] = [];
  const server = createServer((socket) => {
    socket.write('220 mail server\r\n');
    socket.on('data', (chunk) => {
      said.push(String(chunk));
      socket.write(String(chunk).startsWith('LHLO') ? '250 mail server\r\n' : '500 what?\r\n');
    });
  });
  t.after(() => server.close());
  const port = await portOf(server);
  const settings = {
    ...env,
    MAILSTORE_URL: 'imap://a:b@127.0.0.1:1',
    LMTP_URL: `lmtp://127.0.0.1:${port}`,
  };
  const look = async () => (await command(['doctor'], settings)).output;
  assert.match(await look(), /^ok +mail server \(LMTP\) +127\.0\.0\.1:\d+ takes our connection$/m);
  assert.match(said.join(), /^LHLO .*\r\n,QUIT\r\n$/);
  server.close();
  assert.match(await look(), /^failed +mail server \(LMTP\) .*ECONNREFUSED.*\n +look at LMTP_URL/m);
});

test('doctor asks the spam filter whether it is there', async (t) => {
  const answers = [404, 200];
  const filter = createHttpServer((_, response) => response.writeHead(answers.pop() ?? 0).end());
  t.after(() => filter.close());
  const RSPAMD_URL = `http://127.0.0.1:${await portOf(filter)}`;
  const look = async () => (await command(['doctor'], { ...env, RSPAMD_URL })).output;
  assert.match(await look(), /^ok +spam filter +http:\S+ answers$/m);
  assert.match(await look(), /^failed +spam filter +http:\S+: the answer is 404\n +start Rspamd/m);
  filter.close();
  assert.match(await look(), /^failed +spam filter +http:\S+: ECONNREFUSED\n/m);
});

test('doctor fetches the keys of tokens', async (t) => {
  const answers = ['{"keys":[]}', '<html>', '{"keys":[{"kty":"OKP"}]}'];
  const keys = createHttpServer((_, response) => response.end(answers.pop()));
  t.after(() => keys.close());
  const JWT_JWKS_URL = `http://127.0.0.1:${await portOf(keys)}/keys`;
  const look = async () => (await command(['doctor'], { ...env, JWT_JWKS_URL })).output;
  assert.match(await look(), /^ok +token keys +http:\S+ has 1 key$/m);
  assert.match(await look(), /^failed +token keys +http:\S+: the answer is no JSON\n/m);
  assert.match(await look(), /^failed +token keys +http:\S+: the answer has no keys\n/m);
});

test('doctor says that nothing is started, and warns of a proxy and a certificate that clients may not accept', async () => {
  const ports = {
    SUBMISSIONS_PORT: String(await freePort()),
    IMAP_PORT: String(await freePort(1)),
  };
  // As the certificate of the tests says.
  const named = { ...env, MAIL_HOSTNAME: 'mail.test' };
  const settings = { ...named, ...ports, PUBLIC_URL: 'https://mail.example.test' };
  const { output } = await command(['doctor'], settings);
  assert.match(output, /^warning +service \(HTTP\) +not started: nothing listens at http/m);
  for (const check of ['SMTP port', 'SUBMISSIONS_PORT', 'IMAP_PORT']) {
    const said = new RegExp(
      `^warning +${check} +not started: nothing listens at 127\\.0\\.0\\.1:\\d+$`,
      'm',
    );
    assert.match(output, said);
  }
  assert.match(output, /^warning +\S+ +\S+cert\.pem is self-signed: mail programs refuse it/m);
  assert.match(
    output,
    /^warning +reverse proxy +PUBLIC_URL is https:\S+, and TRUST_PROXY names no/m,
  );
  const trusting = await command(['doctor'], { ...settings, TRUST_PROXY: '127.0.0.1' });
  assert.match(trusting.output, /^ok +reverse proxy +clients are named by 127\.0\.0\.1/m);
  const plain = await command(['doctor'], { ...named, IMAP_PORT: '0' });
  assert.doesNotMatch(plain.output, /reverse proxy/);
  assert.match(
    plain.output,
    /^ok .*cert\.pem .*self-signed, which is enough between mail servers$/m,
  );
});

test('doctor finds a key of another certificate, with which the service does not start', async () => {
  const other = join(ROOT, 'other-key.pem');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(other, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  const settings = { ...env, ...CERTIFICATE, MAIL_HOSTNAME: 'mail.test', TLS_KEY: other };
  const { code, output } = await command(['doctor'], settings);
  assert.equal(code, 1);
  assert.match(
    output,
    /^failed +certificate +TLS_KEY: expected the key of the certificate in TLS_CERT, got .*other-key\.pem/m,
  );
});

test('doctor finds nothing wrong with a new database', async () => {
  const DATA_DIR = await mkdtemp(join(ROOT, 'empty-'));
  await writeFile(join(DATA_DIR, 'postroom.sqlite'), '');
  const { output } = await command(['doctor'], { ...env, DATA_DIR });
  assert.match(
    output,
    /^ok +database +\S+ answers, and is empty: the first start makes its tables$/m,
  );
});

async function portOf(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  assert.ok(address && typeof address === 'object');
  return address.port;
}
