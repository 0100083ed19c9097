/** What becomes of mail when the data is not where it was: a wrong database, a folder that is gone. */
import assert from 'node:assert/strict';
import { chmod, cp, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTransport } from 'nodemailer';
import { ConfigError } from '../../src/run/config/config.ts';
import { NO_CERTIFICATE } from '../support/certificate.ts';
import { environment, listening, start, startHere, stop } from '../support/process.ts';

const KEY = 'key-of-the-data-folder-test';
const PASSWORD = 'a good password';
const ANN = 'ann@acme.test';
/** Beyond 64 KiB a message is a file. */
const TEXT = 'x'.repeat(100_000);

type Environment = Awaited<ReturnType<typeof environment>> & Record<string, string>;

// biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
async function post(env: Environment, path: string, body: object, token?: string): Promise<any> {
  const response = await fetch(`http://127.0.0.1:${env.PORT}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(token ? { authorization: `Bearer ${token}` } : { 'x-api-key': KEY }),
    },
    body: JSON.stringify({ user_id: 'u', ...body }),
  });
  return response.json();
}

const readyz = async ({ PORT }: Environment) =>
  (await fetch(`http://127.0.0.1:${PORT}/readyz`)).status;

/** @returns the reply to the message or, where there is one, to the refused recipient */
async function send({ SMTP_PORT }: Environment, to = ANN): Promise<string> {
  const transport = createTransport({
    host: '127.0.0.1',
    port: Number(SMTP_PORT),
    ignoreTLS: true,
  });
  try {
    const sent = await transport.sendMail({ from: 'b@example.test', to, subject: 'm', text: TEXT });
    return sent.response;
  } catch (error) {
    assert.ok(error instanceof Error);
    return 'response' in error ? String(error.response) : error.message;
  }
}

async function settings(name: string): Promise<Environment> {
  return { ...(await environment(name)), API_KEYS: KEY };
}

/** Makes an account that has one message, whose source is a file. */
async function addMail(env: Environment): Promise<void> {
  assert.match(await send(env), /^450 4\.3\.5 /);
  const { domain } = await post(env, '/v2/domain', { domain: 'acme.test' });
  for (const { id } of domain.dns) {
    await post(env, '/v2/domains/acme.test/dns/mark', { id, status: 'verified' });
  }
  const account = { domain: 'acme.test', local_part: 'ann', password: PASSWORD };
  await post(env, '/v2/email-accounts/create', account);
  assert.match(await send(env), /^250 /);
}

/** A data folder whose service has ended, with one account that has one message. */
async function folderWithMail(name: string): Promise<Environment> {
  const env = await settings(name);
  const service = await startHere(env);
  await addMail(env);
  await service.stop();
  return env;
}

/** Reads the first message of the account to its end; answers how long its source is. */
async function readMail(env: Environment): Promise<number> {
  const { token } = await post(env, '/mail/token', { address: ANN, password: PASSWORD });
  const response = await fetch(`http://127.0.0.1:${env.PORT}/mail/message?mailbox=INBOX&uid=1`, {
    headers: { authorization: `Bearer ${token}` },
  });
  assert.equal(response.status, 200);
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
  return ((await response.json()) as any).rfc822.length;
}

const bodyFiles = async ({ DATA_DIR }: Environment) =>
  (await readdir(join(DATA_DIR, 'bodies'), { recursive: true })).filter((name) =>
    /^[0-9a-f]{2}\//.test(name),
  );

async function move(from: string, to: string): Promise<void> {
  await mkdir(to);
  for (const name of await readdir(from)) {
    if (name.startsWith('postroom.sqlite')) await rename(join(from, name), join(to, name));
  }
}

const logged = (output: string) =>
  output.split('\n').filter((line) => line.includes('they do not belong together'));

test('a start with the database moved aside accepts no mail and loses none', async () => {
  const env = await folderWithMail('aside');
  const files = await bodyFiles(env);
  assert.equal(files.length, 1);
  const aside = join(env.DATA_DIR, 'aside');
  await move(env.DATA_DIR, aside);
  const wrong = await startHere(env);
  assert.equal(await readyz(env), 503);
  assert.match(await send(env), /^451 4\.3\.0 /);
  await wrong.stop();
  assert.equal(logged(wrong.output()).length, 1, wrong.output());
  assert.deepEqual(await bodyFiles(env), files);

  await move(env.DATA_DIR, join(env.DATA_DIR, 'wrong'));
  await cp(aside, env.DATA_DIR, { recursive: true });
  const right = await startHere(env);
  assert.equal(await readyz(env), 200);
  assert.ok((await readMail(env)) > TEXT.length);
  assert.match(await send(env), /^250 /);
  await right.stop();
});

const { TEST_DATABASE_URL } = process.env;
test('so does one on an empty PostgreSQL', { skip: !TEST_DATABASE_URL }, async () => {
  const { openTestDatabase } = await import('../support/databases.ts');
  const { location } = await openTestDatabase('postgres');
  const env = await folderWithMail('empty-postgres');
  const files = await bodyFiles(env);
  const wrong = await startHere({ ...env, DATABASE_URL: location });
  assert.equal(await readyz(env), 503);
  assert.match(await send(env), /^451 4\.3\.0 /);
  await wrong.stop();
  assert.equal(logged(wrong.output()).length, 1);
  assert.deepEqual(await bodyFiles(env), files);
});

test('secrets that are missing beside a database in use stop the start', async () => {
  const env = await folderWithMail('no-secrets');
  const secrets = join(env.DATA_DIR, 'secrets.json');
  await rm(secrets);
  await assert.rejects(startHere(env), (error) => {
    assert.ok(error instanceof ConfigError);
    const [line = '', ...more] = error.lines;
    assert.ok(line.startsWith(`${secrets}: expected the secrets of this database`), line);
    return more.length === 0;
  });
});

test('a data folder that is renamed under the process ends it before long', async () => {
  const env = await settings('renamed');
  const service = start(env);
  await listening(service);
  await addMail(env);
  await rename(env.DATA_DIR, `${env.DATA_DIR}-elsewhere`);
  // It is not noticed yet: what a folder takes that is made again is lost.
  assert.doesNotMatch(await send(env), /^250 /);
  const { code, output } = await service.ended();
  assert.equal(code, 1);
  await assert.rejects(stat(env.DATA_DIR), { code: 'ENOENT' });
  const fatal = output.split('\n').filter((line) => line.includes('"level":60'));
  assert.equal(fatal.length, 1);
  assert.match(fatal[0] ?? '', /DATA_DIR: .* was moved, removed or mounted over/);
  await rename(`${env.DATA_DIR}-elsewhere`, env.DATA_DIR);
  const next = await startHere(env);
  assert.ok((await readMail(env)) > TEXT.length);
  await next.stop();
});

/** Modes of all files and folders below, those of the site's pages apart. */
async function modesBelow(folder: string): Promise<Map<string, number>> {
  const modes = new Map<string, number>();
  for (const name of await readdir(folder, { recursive: true })) {
    modes.set(name, (await stat(join(folder, name))).mode & 0o777);
  }
  return modes;
}

test('no other user of the machine can read the files of the data folder', async () => {
  const umask = process.umask(0);
  try {
    const env = { ...(await settings('closed')), ...NO_CERTIFICATE };
    const service = start(env);
    await listening(service);
    await addMail(env);
    const made = await modesBelow(env.DATA_DIR);
    assert.ok(made.has('postroom.sqlite-wal') && made.has('secrets.json'));
    for (const [name, mode] of made) assert.equal(mode & 0o077, 0, name);
    await stop(service);
    // As an earlier version left it where the folder was there already.
    await chmod(env.DATA_DIR, 0o755);
    for (const name of ['postroom.sqlite', 'secrets.json', join('tls', 'key.pem')]) {
      await chmod(join(env.DATA_DIR, name), 0o644);
    }
    const again = start(env);
    await listening(again);
    for (const [name, mode] of await modesBelow(env.DATA_DIR)) assert.equal(mode & 0o077, 0, name);
    assert.equal((await stat(env.DATA_DIR)).mode & 0o777, 0o700);
    assert.match(await readFile(join(env.DATA_DIR, 'secrets.json'), 'utf8'), /jwtSecret/);
    await stop(again);
  } finally {
    process.umask(umask);
  }
});
