/** The configurations of docs/guides/production.md, each taken by the program that it is for. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request as requestPlain } from 'node:http';
import { request as requestByTls } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { parseEnv } from 'node:util';
import { WebSocket } from 'ws';
import { loadCertificate, readConfig } from '../../src/run/config/config.ts';
import { readPage, repository } from '../support/doc-pages.ts';
import { freePort } from '../support/free-port.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { LONG_MS, until } from './mail-load.ts';
import { findPostgres, startPostgres } from './postgres.ts';

const { blocks } = readPage('docs/guides/production.md');
let folder: string;
let service: TestService;
let account: TestAccount;
const children = new Set<ChildProcess>();

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postroom-production-'));
  service = await startTestService('sqlite', {
    TRUST_PROXY: '127.0.0.1',
    RATE_LIMIT_PER_MINUTE: '1000',
  });
  account = await service.makeAccount();
});
after(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

/** The only block with this label, or of this language. */
function block(name: string): string {
  const found = blocks.filter(({ label, language }) => label === name || language === name);
  assert.equal(found.length, 1, `blocks that are ${name}`);
  return found[0]?.text ?? '';
}

test('every part of the settings is one that the service accepts', () => {
  const parts = blocks.filter(({ language }) => language === 'dotenv');
  assert.ok(parts.length >= 3);
  for (const part of parts) {
    const env = parseEnv(part.text);
    assert.ok(Object.keys(env).length > 0);
    readConfig(env, folder);
  }
});

for (const name of ['postroom', 'postroom-notifier']) {
  const source = join(repository, 'deploy/systemd', `${name}.service`);

  test(`the unit ${name} is one that systemd accepts`, async () => {
    const path = join(folder, `${name}.service`);
    // Paths and the users of the machine that it is for are not here.
    const unit = (await readFile(source, 'utf8'))
      .replaceAll('/opt/postroom/node_modules/.bin/node', process.execPath)
      .replaceAll('/opt/postroom', repository)
      .replace(/^User=.*$/m, 'User=nobody')
      .replace(/^EnvironmentFile=.*$/m, 'EnvironmentFile=/dev/null');
    await writeFile(path, unit);
    const said = execFileSync('systemd-analyze', ['verify', '--man=no', path], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    assert.equal(said, '');
  });

  test(`the unit ${name} leaves the process little to do harm with`, () => {
    // 0 is best, 10 is worst; systemd-analyze fails above the threshold, which is in tenths.
    const arguments_ = ['security', '--offline=yes', '--threshold=30', '--no-pager', source];
    assert.match(execFileSync('systemd-analyze', arguments_, { encoding: 'utf8' }), /exposure/);
  });
}

test('the unit makes files for its user alone, and waits for the disk of its data', () => {
  const unit = readFileSync(join(repository, 'deploy/systemd/postroom.service'), 'utf8');
  assert.match(unit, /^UMask=0077$/m);
  const { DATA_DIR } = parseEnv(block('postroom.env'));
  assert.match(unit, new RegExp(`^RequiresMountsFor=${DATA_DIR}$`, 'm'));
});

/** What a proxy has to let through. */
async function checkProxy(origin: string): Promise<void> {
  const selfSigned = { rejectUnauthorized: false };
  const request = origin.startsWith('https') ? requestByTls : requestPlain;
  const get = (path: string, headers: Record<string, string> = {}, body?: Buffer) =>
    new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; text: string }>(
      (resolve, reject) => {
        const method = body ? 'POST' : 'GET';
        const call = request(`${origin}${path}`, { method, headers, ...selfSigned }, (answer) => {
          const { statusCode: status = 0, headers: fields } = answer;
          text(answer).then((body) => resolve({ status, headers: fields, text: body }), reject);
        });
        call.once('error', reject);
        call.end(body);
      },
    );
  const waited = async () =>
    get('/healthz').then(
      ({ status }) => status === 200,
      () => false,
    );
  await until('the proxy answers', waited, LONG_MS);

  for (const path of ['/', '/docs', '/docs/openapi.json', '/readyz']) {
    assert.equal((await get(path)).status, 200, path);
  }
  const unknown = await get('/v2/email-accounts?user_id=u');
  assert.equal(JSON.parse(unknown.text).code, 'unauthorized');
  // Two clients behind the proxy would share a budget if it did not say who is calling; a client
  // that claims another address must not get the other's.
  const left = async (claimed: string) =>
    Number((await get('/docs', { 'x-forwarded-for': claimed })).headers['x-ratelimit-remaining']);
  const isOneBudget = async () => (await left('203.0.113.1')) > (await left('203.0.113.2'));
  // A minute may begin between the two, and the budget with it.
  assert.ok((await isOneBudget()) || (await isOneBudget()), 'one client has two budgets');
  // Postroom itself refuses the signature: the proxy did not refuse the size.
  const batch = await get('/hooks/mailserver', {}, Buffer.alloc(12 * 1024 * 1024, '\n'));
  assert.equal(JSON.parse(batch.text).code, 'unauthorized');

  const socket = new WebSocket(`${origin.replace('http', 'ws')}/ws`, {
    headers: { authorization: `Bearer ${account.token}` },
    ...selfSigned,
  });
  const messages: { type: string }[] = [];
  let wake = () => {};
  socket.on('message', (message: Buffer) => {
    messages.push(JSON.parse(message.toString()));
    wake();
  });
  const hear = async (count: number) => {
    while (messages.length < count) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  await hear(1);
  await service.send({ from: 'bob@example.test', to: account.address, text: 'Hello' });
  await hear(2);
  assert.deepEqual(
    messages.map(({ type }) => type),
    ['hello', 'mailbox_changed'],
  );
  socket.terminate();
}

function run(command: string, args: string[]): void {
  const child = spawn(command, args, {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  children.add(child);
}

test('nginx accepts its configuration, and passes everything', async () => {
  const port = await freePort();
  const own = await loadCertificate({ dataDir: folder, hostname: 'mail.example.com' });
  await writeFile(join(folder, 'cert.pem'), own.cert);
  await writeFile(join(folder, 'key.pem'), own.key);
  const site = block('nginx.conf')
    .replace('listen 443', `listen 127.0.0.1:${port}`)
    .replace('listen [::]:443', `listen [::1]:${port}`)
    .replace(/\/etc\S+fullchain\.pem/, join(folder, 'cert.pem'))
    .replace(/\/etc\S+privkey\.pem/, join(folder, 'key.pem'))
    .replace('127.0.0.1:8080', new URL(service.url).host);
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  await writeFile(
    join(folder, 'nginx.conf'),
    `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr warn; events {}
     http { access_log off; ${places.join(' ')}\n${site}\n}`,
  );
  run('/usr/sbin/nginx', ['-e', 'stderr', '-p', folder, '-c', join(folder, 'nginx.conf')]);
  await checkProxy(`https://127.0.0.1:${port}`);
});

test('Caddy accepts its configuration, and passes everything', async () => {
  const port = await freePort();
  // Without TLS: a certificate would be asked for on the internet.
  const site = block('Caddyfile')
    .replace('mail.example.com {', `http://127.0.0.1:${port} {`)
    .replace('127.0.0.1:8080', new URL(service.url).host);
  await writeFile(
    join(folder, 'Caddyfile'),
    `{\n\tadmin off\n\tskip_install_trust\n\tlog {\n\t\tlevel ERROR\n\t}\n}\n${site}`,
  );
  run('caddy', ['run', '--config', 'Caddyfile', '--adapter', 'caddyfile']);
  await checkProxy(`http://127.0.0.1:${port}`);
});

test('PostgreSQL accepts the statements, and the login that they create', async () => {
  const postgres = await startPostgres(findPostgres() ?? '');
  try {
    const psql = (url: string, statements: string) =>
      execFileSync(
        'psql',
        [url, '--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '-v', 'ON_ERROR_STOP=1'],
        {
          input: statements,
          encoding: 'utf8',
        },
      ).trim();
    psql(postgres.url, block('sql'));
    const settings = blocks.find((one) => one.text.startsWith('DATABASE_URL='))?.text ?? '';
    const { port } = new URL(postgres.url);
    const url = parseEnv(settings).DATABASE_URL?.replace('5432', port) ?? '';
    assert.equal(psql(url, 'SELECT current_user, current_database()'), 'postroom|postroom');
    assert.equal(psql(url, 'SHOW server_encoding'), 'UTF8');
  } finally {
    await postgres.stop();
  }
});

test('the files that the Dockerfile copies and packs exist', () => {
  const page = readPage('docs/guides/production.md').text;
  for (const name of ['deploy/Dockerfile', 'deploy/compose.yaml']) {
    assert.ok(page.includes(name) && existsSync(join(repository, name)), name);
  }
  for (const name of [
    'package.json',
    'package-lock.json',
    '.npmrc',
    '.dockerignore',
    'deploy/compile.ts',
    'postroom',
  ]) {
    assert.ok(existsSync(join(repository, name)), name);
  }
  const { dependencies } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'));
  const dockerfile = readFileSync(join(repository, 'deploy/Dockerfile'), 'utf8');
  assert.ok(dockerfile.includes(`FROM node:${dependencies.node}-`), 'the Node of package.json');
  assert.match(dockerfile, /^CMD \["\.\/postroom", "start"\]$/m);
});
