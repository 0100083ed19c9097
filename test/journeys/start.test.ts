/** What an operator sees of the process: its first start, later ones, its end, and why it refuses. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import dns from 'node:dns';
import { once } from 'node:events';
import { constants, existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../../src/run/config/config.ts';
import { atEnd } from '../support/at-end.ts';
import { NO_CERTIFICATE } from '../support/certificate.ts';
import { LOWEST } from '../support/free-port.ts';
import {
  environment,
  listening,
  MAIN,
  type Process,
  ROOT,
  run,
  start,
  startHere,
} from '../support/process.ts';
import { startTestService } from '../support/service.ts';
import { DialogueClient } from '../support/smtp/dialogue.ts';

test('tests are given no port that fetch refuses to ask', async () => {
  await assert.rejects(fetch('http://127.0.0.1:10080'), { cause: new Error('bad port') });
  assert.ok(LOWEST > 10_080);
});

test('a HOST with two addresses is listened to at one, IPv4 first', async (t) => {
  // Fastify listens at each that it finds so.
  const found = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
  const { lookup } = dns;
  t.mock.method(dns, 'lookup', (...given: unknown[]) => {
    const [name, options, answer] = given;
    if (name !== 'localhost') Reflect.apply(lookup, dns, given);
    else if (answer) setImmediate(answer as (...given: unknown[]) => void, null, found);
    else setImmediate(options as (...given: unknown[]) => void, null, '127.0.0.1', 4);
  });
  const { addresses } = await startTestService('sqlite', { HOST: 'localhost' });
  assert.equal(addresses.http.host, '127.0.0.1');
  const other = connect({ host: '127.0.0.2', port: addresses.http.port });
  await assert.rejects(once(other, 'connect'), { code: 'ECONNREFUSED' });
});

/** Stops a service by a signal while the body of a message is on its way: what was begun is answered with 250. */
async function stopDuringMessage(
  service: Process,
  env: Awaited<ReturnType<typeof environment>>,
  key: string,
  signal: NodeJS.Signals,
): Promise<void> {
  const url = `http://127.0.0.1:${env.PORT}`;
  const call = async (path: string, body: object) => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ user_id: 'u', ...body }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
    return (await response.json()) as any;
  };
  const { domain } = await call('/v2/domain', { domain: 'acme.test' });
  for (const { id } of domain.dns) {
    await call('/v2/domains/acme.test/dns/mark', { id, status: 'verified' });
  }
  await call('/v2/email-accounts/create', { domain: 'acme.test', local_part: 'ann' });
  const client = await DialogueClient.connect(Number(env.SMTP_PORT));
  assert.match(await client.reply(), /^220 /);
  await client.ask('EHLO client.test');
  await client.ask('MAIL FROM:<bob@example.test>');
  await client.ask('RCPT TO:<ann@acme.test>');
  assert.match(await client.ask('DATA'), /^354 /);
  client.send('Subject: slow\r\n\r\nfirst half, ');
  service.child.kill(signal);
  const { stdout } = service.child;
  assert.ok(stdout);
  while (!service.output().includes('stopping')) await once(stdout, 'data');
  assert.match(await client.ask('second half\r\n.'), /^250 /);
  assert.match(await client.reply(), /^421 4\.3\.2 /);
}

test('a first start makes everything, later ones show no secret, each signal ends with 0, and a message is finished', async () => {
  const compiled = { NODE_COMPILE_CACHE: join(ROOT, 'compiled') };
  const env = { ...(await environment('fresh')), ...NO_CERTIFICATE, ...compiled };
  const first = start(env);
  await listening(first);
  const health = await fetch(`http://127.0.0.1:${env.PORT}/readyz`);
  assert.equal(health.status, 200);
  // Each SIGUSR2 switches the level of the log.
  for (const level of ['debug', 'info']) {
    first.child.kill('SIGUSR2');
    while (!first.output().includes(`"to":"${level}"`)) await delay(20);
  }
  first.child.kill('SIGTERM');
  assert.equal((await first.ended()).code, 0);

  const folder = env.DATA_DIR ?? '';
  const secrets = JSON.parse(await readFile(join(folder, 'secrets.json'), 'utf8'));
  assert.equal((await stat(join(folder, 'secrets.json'))).mode & 0o777, 0o600);
  assert.match(await readFile(join(folder, 'tls', 'cert.pem'), 'utf8'), /BEGIN CERTIFICATE/);

  const second = start(env);
  await listening(second);
  const opened = await fetch(`http://127.0.0.1:${env.PORT}/v2/email-accounts?user_id=u`, {
    headers: { 'x-api-key': secrets.apiKey },
  });
  assert.equal(opened.status, 200);
  await assert.rejects(
    startHere({ ...env, PORT: '0', SMTP_PORT: '0' }),
    /^ConfigError: DATA_DIR: ".*" is in use by another Postroom, which may still be starting: use that one once it answers/,
  );
  await stopDuringMessage(second, env, secrets.apiKey, 'SIGINT');
  const { code, output } = await second.ended();
  assert.equal(code, 0);
  // Neither start had a terminal.
  for (const secret of Object.values<string>(secrets)) {
    assert.ok(!first.output().includes(secret) && !output.includes(secret));
  }
  // A program reads the log, so each line is one of JSON.
  for (const line of first.output().trimEnd().split('\n')) assert.ok(JSON.parse(line).msg, line);

  // What it compiled is taken by commands, for which V8 has no flags.
  const load = `await import(${JSON.stringify(import.meta.resolve('../../src/servers/smtp/protocol.ts'))})`;
  const command = [process.execPath, '--input-type=module', '--eval', load];
  const loading = run(command, { ...compiled, NODE_DEBUG_NATIVE: 'COMPILE_CACHE' }, 'pipe');
  const { output: found } = await loading.ended();
  assert.match(found, /protocol\.ts was accepted/);
  assert.doesNotMatch(found, /was rejected/);
});

/** In the process: every sync of a file fails once the file is there, as on a disk that dies. */
const dyingDisk = `
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const { fdatasync, fdatasyncSync } = fs;
  const dies = () => fs.existsSync(process.env.DISK_DIES);
  const error = Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
  fs.fdatasync = (file, done) => dies() ? setImmediate(done, error) : fdatasync(file, done);
  fs.fdatasyncSync = (file) => { if (dies()) throw error; fdatasyncSync(file); };
  syncBuiltinESMExports();`;

test('if the disk fails, no mail is accepted, and the process ends to be started again', async () => {
  const [env, key] = [await environment('dying'), 'key-of-the-disk-test'];
  const DISK_DIES = join(ROOT, 'dies');
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(dyingDisk)}`;
  const service = start({ ...env, API_KEYS: key, NODE_OPTIONS, DISK_DIES });
  await listening(service);
  const create = (domain: string) =>
    fetch(`http://127.0.0.1:${env.PORT}/v2/domain`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ user_id: 'u', domain }),
    });
  assert.equal((await create('acme.test')).status, 201);
  await writeFile(DISK_DIES, '');
  // It may be gone before it can answer.
  const status = await create('lost.test').then(
    ({ status }) => status,
    () => 503,
  );
  assert.equal(status, 503);
  const { code, output } = await service.ended();
  assert.equal(code, 1);
  assert.match(output, /"level":60,.*EIO.*the disk failed: the process ends/);
  await rm(DISK_DIES);
  const next = await startHere({ ...env, API_KEYS: key });
  assert.equal((await create('acme.test')).status, 409);
  await next.stop();
});

test('a rejection that nothing handles is the last line of the log, and ends the process', async () => {
  const defect = `process.on('SIGURG', () => { Promise.reject(new Error('made by a test')); });`;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(defect)}`;
  const service = start({ ...(await environment('defect')), NODE_OPTIONS });
  await listening(service);
  service.child.kill('SIGURG');
  const { code, output } = await service.ended();
  assert.equal(code, 1);
  const lines = output.trimEnd().split('\n');
  for (const line of lines) assert.ok(JSON.parse(line).msg, line);
  const { level, err, msg } = JSON.parse(lines.at(-1) ?? '');
  assert.deepEqual([level, err.message], [60, 'made by a test']);
  assert.match(msg, /^an error that nothing handles, .*: the process ends$/);
});

test('a refused setting ends with the code after which the unit starts nothing, a database that is away does not', async () => {
  const unit = await readFile(join(dirname(MAIN), '../deploy/systemd/postroom.service'), 'utf8');
  const [, prevented] = /^RestartPreventExitStatus=(\d+)$/m.exec(unit) ?? [];
  const env = await environment('refused');
  const codeOf = async (settings: object) => (await start({ ...env, ...settings }).ended()).code;
  assert.equal(await codeOf({ SMTP_PORT: 'x' }), Number(prevented));
  assert.equal(await codeOf({ IMAP_DISABLE: 'NONSENSE' }), Number(prevented));
  assert.equal(await codeOf({ SMTP_PORT: env.PORT }), Number(prevented));
  assert.equal(await codeOf({ DATABASE_URL: 'postgres://127.0.0.1:1/postroom' }), 1);
});

test('a signal during a start that fails does not hide why it fails', async (t) => {
  // A database that takes connections and never answers.
  const silent = createServer().listen(0, '127.0.0.1');
  t.after(() => silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const service = start({
    ...(await environment('signal')),
    DATABASE_URL: `postgres://postroom@127.0.0.1:${port}/mail`,
  });
  const [socket] = await once(silent, 'connection');
  service.child.kill('SIGTERM');
  while (!service.output().includes('stopping')) await once(service.child.stdout ?? silent, 'data');
  socket.destroy();
  const { code, output } = await service.ended();
  assert.equal(code, 1);
  assert.match(output, /"stopping"}\nDATABASE_URL: expected a database that .*\n$/);
});

test('a draining service says so to load balancers and continues, until a second signal ends it', async () => {
  const env = await environment('balanced');
  const service = start({ ...env, DRAIN_SECONDS: '600' });
  await listening(service);
  const url = `http://127.0.0.1:${env.PORT}`;
  assert.equal((await fetch(`${url}/readyz`)).status, 200);
  service.child.kill('SIGTERM');
  const { stdout } = service.child;
  assert.ok(stdout);
  while (!service.output().includes('stopping')) await once(stdout, 'data');
  const ready = await fetch(`${url}/readyz`);
  assert.equal(ready.status, 503);
  assert.match(await ready.text(), /not ready: listeners/);
  const page = await fetch(`${url}/docs`);
  assert.equal(page.status, 200);
  assert.equal(page.headers.get('connection'), 'close');
  const client = await DialogueClient.connect(Number(env.SMTP_PORT));
  assert.match(await client.reply(), /^220 /);
  service.child.kill('SIGTERM');
  assert.equal((await service.ended()).code, 1);
});

/** A pipe that is full and that nobody reads. */
async function stalledPipe(): Promise<string> {
  const path = join(ROOT, 'stalled');
  execFileSync('mkfifo', [path]);
  const pipe = await open(path, constants.O_RDWR | constants.O_NONBLOCK);
  atEnd(() => pipe.close());
  const fill = async () => {
    for (;;) await pipe.write(Buffer.alloc(4_096));
  };
  await assert.rejects(fill(), { code: 'EAGAIN' });
  return path;
}

const unwritable = { 'a full disk': async () => '/dev/full', 'a stalled pipe': stalledPipe };
for (const [what, make] of Object.entries(unwritable)) {
  test(`a log on ${what} does not stop the service`, async () => {
    const env = await environment(what);
    const path = await make();
    // Opened for each process: it gets a pipe that blocks, as from a shell or from Docker.
    const [log, other] = [await open(path, constants.O_RDWR), await open(path, constants.O_RDWR)];
    const service = start(env, log.fd);
    const url = `http://127.0.0.1:${env.PORT}`;
    // It cannot say when it listens, so we ask.
    let ready = false;
    while (!ready) {
      assert.equal(service.child.exitCode, null);
      ready = await fetch(`${url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
      await delay(20);
    }
    const refused = start({ ...env, PORT: '0', SMTP_PORT: '0' }, other.fd);
    assert.equal((await refused.ended()).code, 1);
    // Each has its line in the log.
    for (let n = 0; n < 20; n++) assert.equal((await fetch(`${url}/v2/nothing`)).status, 404);
    service.child.kill('SIGTERM');
    assert.equal((await service.ended()).code, 0);
    await Promise.all([log.close(), other.close()]);
  });
}

/** A port at which somebody listens until the test ends. */
async function takenPort(t: TestContext): Promise<string> {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.after(() => taken.close());
  const address = taken.address();
  return String(typeof address === 'object' && address ? address.port : 0);
}

test('each setting that is refused is one line, with exit code 78', async () => {
  const broken = { PORT: 'http', SMTP_MAX_PER_IP: '-1', LOG_LEVEL: 'loud' };
  const { code, output } = await start({ ...(await environment('broken')), ...broken }).ended();
  assert.equal(code, 78, output);
  const said = output.trimEnd().split('\n');
  const lines = [/^PORT: expected/, /^SMTP_MAX_PER_IP: expected/, /^LOG_LEVEL: expected/];
  for (const [line, expected] of lines.entries()) assert.match(said[line] ?? '', expected);
  assert.ok(said.length <= lines.length + 1, output);
});

/** A folder with the database of a program that is newer than any. */
async function newerDatabase(): Promise<string> {
  const DATA_DIR = join(ROOT, 'newer');
  await mkdir(DATA_DIR);
  const database = new DatabaseSync(join(DATA_DIR, 'postroom.sqlite'));
  database.exec("create table kysely_migration as select '9000' as name");
  database.exec('create table settings (name text, value text)');
  database.close();
  return DATA_DIR;
}

test('so is each error that only the start itself finds', async (t) => {
  const [PORT, SMTP_PORT] = [await takenPort(t), await takenPort(t)];
  await writeFile(join(ROOT, 'file'), '');
  const cases: [Record<string, string>, RegExp][] = [
    [{ PORT }, /^PORT: 127\.0\.0\.1:\d+ is taken: is another Postroom running\? If not, set PORT /],
    [
      { SMTP_PORT },
      /^SMTP_PORT: .* is taken: is another Postroom running\? If not, set SMTP_PORT /,
    ],
    // A machine behind NAT does not have its public address itself.
    [{ SMTP_HOST: '192.0.2.1' }, /^SMTP_HOST: 192\.0\.2\.1 is no address of this machine/],
    [{ DATA_DIR: join(ROOT, 'file', 'below') }, /^DATA_DIR: expected a writable folder/],
    [{ TLS_CERT: '/nowhere.pem' }, /^TLS_CERT: /],
    [
      { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' },
      /^DATABASE_URL: expected a database that Postroom can log in to/,
    ],
    [
      { DATA_DIR: await newerDatabase() },
      /^\S*postroom\.sqlite: the database has schema version 9000, but this program knows only versions up to \d+: start the newer program, or restore a backup$/,
    ],
  ];
  for (const [index, [broken, line]] of cases.entries()) {
    const env = { ...(await environment(`unfit-${index}`)), LOG_LEVEL: 'silent', ...broken };
    await assert.rejects(startHere(env), (error) => {
      assert.ok(error instanceof ConfigError);
      assert.match(error.lines[0] ?? '', line);
      return error.lines.length === 1;
    });
  }
});

test('the first start that listens is the first: one before it may have made the secrets', async (t) => {
  const env = await environment('first');
  await assert.rejects(
    startHere({ ...env, SMTP_PORT: await takenPort(t) }),
    /SMTP_PORT: .* is taken/,
  );
  assert.ok(existsSync(join(env.DATA_DIR ?? '', 'secrets.json')));
  for (const isFirst of [true, false]) {
    const service = await startHere(env);
    assert.equal(service.isFirst, isFirst);
    await service.stop();
  }
});

test('a certificate that cannot be used is refused before anything is made', async () => {
  const env = await environment('unfit-certificate');
  await assert.rejects(startHere({ ...env, TLS_KEY: '/nowhere.pem' }), /TLS_KEY: /);
  assert.deepEqual(await readdir(env.DATA_DIR ?? ''), []);
});

const PROGRAM = fileURLToPath(new URL('../../src/postroom.js', import.meta.url));

/** In the process: another version of Node. The older ones are not here to be run. */
const olderNode = `
  const value = { ...process.versions, node: '25.9.0' };
  Object.defineProperty(process, 'versions', { value });`;

for (const program of [MAIN, PROGRAM]) {
  test(`on an older Node one line of ${basename(program)} says which version is needed`, async () => {
    // It would not read TypeScript.
    assert.match(await realpath(program), /\.js$/);
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(olderNode)}`;
    const { code, output } = await run(
      [process.execPath, program],
      { NODE_OPTIONS },
      'pipe',
    ).ended();
    assert.equal(code, 1);
    assert.match(output, /^Postroom needs Node 26 or newer, but this is Node 25\.9\.0\. .*\n$/i);
  });
}
