/** What becomes of mail when the data is not where it was: a wrong database, a folder that is gone. */
import assert from 'node:assert/strict';
import { chmod, cp, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ConfigError } from '../../src/run/config/config.ts';
import { NO_CERTIFICATE } from '../support/certificate.ts';
import {
  addMail,
  bodyFiles,
  folderWithMail,
  logged,
  readMail,
  readyz,
  send,
  settings,
  TEXT,
} from '../support/data-folder.ts';
import { listening, type Process, start, startHere } from '../support/process.ts';

async function move(from: string, to: string): Promise<void> {
  await mkdir(to);
  for (const name of await readdir(from)) {
    if (name.startsWith('postroom.sqlite')) await rename(join(from, name), join(to, name));
  }
}

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

/** Modes of all files and folders below, those of the site's pages apart. */
async function modesBelow(folder: string): Promise<Map<string, number>> {
  const modes = new Map<string, number>();
  for (const name of await readdir(folder, { recursive: true })) {
    modes.set(name, (await stat(join(folder, name))).mode & 0o777);
  }
  return modes;
}

/** Starts the process without a mask, as a shell does that sets none. */
function startUnmasked(env: Record<string, string>): Process {
  const umask = process.umask(0);
  try {
    return start(env);
  } finally {
    process.umask(umask);
  }
}

test('no other user can read the files of the data folder, and its process ends before long when it is renamed', async () => {
  const env = { ...(await settings('renamed')), ...NO_CERTIFICATE };
  const service = startUnmasked(env);
  await listening(service);
  await addMail(env);
  const made = await modesBelow(env.DATA_DIR);
  assert.ok(made.has('postroom.sqlite-wal') && made.has('secrets.json'));
  for (const [name, mode] of made) assert.equal(mode & 0o077, 0, name);

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
  // As an earlier version left it where the folder was there already.
  await chmod(env.DATA_DIR, 0o755);
  for (const name of ['postroom.sqlite', 'secrets.json', join('tls', 'key.pem')]) {
    await chmod(join(env.DATA_DIR, name), 0o644);
  }
  const next = await startHere(env);
  assert.ok((await readMail(env)) > TEXT.length);
  for (const [name, mode] of await modesBelow(env.DATA_DIR)) assert.equal(mode & 0o077, 0, name);
  assert.equal((await stat(env.DATA_DIR)).mode & 0o777, 0o700);
  assert.match(await readFile(join(env.DATA_DIR, 'secrets.json'), 'utf8'), /jwtSecret/);
  await next.stop();
});
