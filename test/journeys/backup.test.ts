/** A backup made while mail comes and goes, restored, and compared message by message. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createTransport } from 'nodemailer';
import { Client } from 'pg';
import { openPostgres, openSqlite } from '../../src/platform/database/database.ts';
import {
  BackupFailed,
  type RestoreOptions,
  restoreBackup,
  verifyBackup,
} from '../../src/run/backup/backup.ts';
import { atEnd } from '../support/at-end.ts';
import { runHere } from '../support/commands.ts';
import {
  environment,
  listening,
  type Process,
  ROOT,
  run,
  type ServiceHere,
  start,
  startHere,
  stop,
} from '../support/process.ts';

const PROGRAM = fileURLToPath(new URL('../../src/postroom.js', import.meta.url));
const PASSWORD = 'correct horse';
const SERVER = process.env.TEST_DATABASE_URL;

type Settings = Record<string, string>;

/** Settings for an installation of its own, on PostgreSQL where there is one. */
async function installation(name: string): Promise<Settings> {
  const own = { ...(await environment(name)), DNS_SERVERS: '127.0.0.1:9', LOG_LEVEL: 'warn' };
  if (!SERVER) return own;
  const database = `backup_${randomBytes(8).toString('hex')}`;
  const admin = new Client({ connectionString: SERVER });
  await admin.connect();
  await admin.query(`create database ${database}`);
  atEnd(async () => {
    await admin.query(`drop database if exists ${database} with (force)`);
    await admin.end();
  });
  const url = new URL(SERVER);
  url.pathname = `/${database}`;
  return { ...own, DATABASE_URL: url.href };
}

function postroom(args: readonly string[], settings: Settings): Process {
  return run([process.execPath, PROGRAM, ...args], settings, 'pipe');
}

async function succeed(args: readonly string[], settings: Settings) {
  const { code, output } = await runHere([...args, '--json'], settings);
  assert.equal(code, 0, output);
  return JSON.parse(output);
}

async function refuse(
  args: readonly string[],
  settings: Settings,
  why: RegExp,
  exit = 1,
): Promise<void> {
  const { code, output } = await runHere(args, settings);
  assert.equal(code, exit, output);
  assert.match(output, why);
}

const onProgress = () => {};

function into({ DATA_DIR = '', DATABASE_URL }: Settings, from: string): RestoreOptions {
  const urls = DATABASE_URL === undefined ? undefined : [DATABASE_URL];
  return { folder: from, dataDir: DATA_DIR, urls, bucket: undefined, onProgress };
}

/** Runs a command that is killed when it opens a file for the n-th time whose path has this in it. */
function killAt(path: string, times: number, args: readonly string[], settings: Settings) {
  const hook = `
    import fs from 'node:fs/promises';
    import { syncBuiltinESMExports } from 'node:module';
    const { open } = fs;
    let times = 0;
    fs.open = (path, ...rest) => {
      if (String(path).includes(${JSON.stringify(path)}) && ++times === ${times}) process.kill(process.pid, 'SIGKILL');
      return open(path, ...rest);
    };
    syncBuiltinESMExports();`;
  return kill(hook, args, settings);
}

/** Runs a restore that is killed once PostgreSQL has committed what came. */
function killAfterCommit(args: readonly string[], settings: Settings) {
  const hook = `
    import child from 'node:child_process';
    import { syncBuiltinESMExports } from 'node:module';
    const { spawn } = child;
    child.spawn = (program, args, options) => {
      const started = spawn(program, args, options);
      if (args.includes('--single-transaction')) started.once('close', () => process.kill(process.pid, 'SIGKILL'));
      return started;
    };
    syncBuiltinESMExports();`;
  return kill(hook, args, settings);
}

/** Runs a command with a hook that kills it. */
async function kill(hook: string, args: readonly string[], settings: Settings) {
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(hook)}`;
  const { code } = await postroom(args, { ...settings, NODE_OPTIONS }).ended();
  assert.equal(code, null, 'it was not killed');
}

// biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
async function mail(settings: Settings, token: string, path: string, body?: object): Promise<any> {
  const answer = await fetch(`http://127.0.0.1:${settings.PORT}/mail/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  assert.equal(answer.status, 200, path);
  return answer.json();
}

/** When the last whole backup began, as the service reads it. */
async function noted({ DATA_DIR = '' }: Settings): Promise<number> {
  return Date.parse((await readFile(join(DATA_DIR, 'bodies', 'last-backup'), 'utf8')).trim());
}

async function signIn(settings: Settings): Promise<string> {
  const login = { address: 'ada@acme.test', password: PASSWORD };
  const answer = await fetch(`http://127.0.0.1:${settings.PORT}/mail/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(login),
  });
  const { token } = (await answer.json()) as { token: string };
  return token;
}

/** Every message of INBOX: its flags and its source, by UID. */
async function readAll(settings: Settings, token: string): Promise<Map<number, string>> {
  const { changes } = await mail(settings, token, 'sync', { mailbox: 'INBOX', fields: ['flags'] });
  const all = new Map<number, string>();
  for (const { uid, flags } of changes.added) {
    const { rfc822 } = await mail(settings, token, `message?mailbox=INBOX&uid=${uid}`);
    all.set(uid, `${flags.join()} ${rfc822}`);
  }
  return all;
}

/** Leaves a body as that of a delivery that ended long ago: nothing of it is kept but its row. */
async function addEmptied({ DATA_DIR = '', DATABASE_URL }: Settings): Promise<void> {
  const emptied = 'insert into bodies (size, content, file) values (200000, null, null)';
  if (DATABASE_URL !== undefined) {
    await query({ DATABASE_URL }, emptied);
    return;
  }
  const database = new DatabaseSync(join(DATA_DIR, 'postroom.sqlite'), { timeout: 10_000 });
  database.exec(emptied);
  database.close();
}

/** @returns the rows of the last of the statements, on PostgreSQL */
async function query({ DATABASE_URL }: Settings, ...statements: string[]): Promise<object[]> {
  const client = new Client({ connectionString: DATABASE_URL });
  await client.connect();
  let rows: object[] = [];
  for (const statement of statements) ({ rows } = await client.query(statement));
  await client.end();
  return rows;
}

/** A large one is a file, a small one is in its row. */
async function send(settings: Settings, subject: string, octets: number): Promise<void> {
  const transport = createTransport({
    host: '127.0.0.1',
    port: Number(settings.SMTP_PORT),
    ignoreTLS: true,
  });
  const text = randomBytes(octets / 2).toString('hex');
  await transport.sendMail({ from: 'bob@sender.test', to: 'ada@acme.test', subject, text });
  transport.close();
}

const kept = await installation('kept');
const folder = join(ROOT, 'backup');
let service: ServiceHere;
let before: Map<number, string>;
let uidvalidity: string;

test('a backup of a service that accepts and removes mail has every body that its database names', async () => {
  service = await startHere(kept);
  const { token } = await succeed(['demo', '--password', PASSWORD], kept);
  assert.doesNotMatch(service.output(), /login failed/);
  for (const subject of ['1', '2', '3', '4']) await send(kept, subject, 200_000);
  await mail(kept, token, 'flags', { mailbox: 'INBOX', uids: [2], add: ['\\Seen'] });
  before = await readAll(kept, token);
  ({ uidvalidity } = await mail(kept, token, 'sync', { mailbox: 'INBOX' }));
  await addEmptied(kept);

  const killed = join(ROOT, 'killed');
  await killAt('killed/bodies/', 3, ['backup', killed], kept);
  await refuse(
    ['verify-backup', killed],
    kept,
    /killed is not a complete backup: it has no backup\.json/,
  );
  await refuse(['backup', killed], kept, /killed is not empty/);
  await assert.rejects(noted(kept), { code: 'ENOENT' }, 'what was cut short is no backup');

  let isOver = false;
  const coming = (async () => {
    for (let uid = 6; !isOver; uid++) {
      await send(kept, 'came and went', 100_000);
      await mail(kept, token, 'delete', { mailbox: 'INBOX', uids: [uid] });
    }
  })();
  const made = await succeed(['backup', folder], kept).finally(() => {
    isOver = true;
  });
  await coming;
  assert.equal(made.missing.length, 0);
  assert.ok(made.bodies >= 4);
  const at = await noted(kept);
  assert.ok(at <= Date.parse(made.made_at), 'it has the state of when it began');
  await refuse(['backup', killed, '--noted'], kept, /name a folder, or use --noted alone/, 2);
  const other = await succeed(['backup', '--noted'], kept);
  assert.equal(await noted(kept), Date.parse(other.made_at));
  assert.ok(Date.parse(other.made_at) > at);
  const verified = await succeed(['verify-backup', folder], kept);
  assert.equal(verified.store_id, made.store_id);
  for (const name of await readdir(folder)) {
    assert.equal((await stat(join(folder, name))).mode & 0o077, 0, name);
  }
});

test('a damaged, missing or replaced file is named', async () => {
  const copy = join(ROOT, 'damaged');
  await cp(folder, copy, { recursive: true });
  const copied = { folder: copy, bucket: undefined, onProgress };
  const found = await readdir(join(copy, 'bodies'), { recursive: true });
  const [first = '', second = ''] = found.filter((name) => /^[0-9a-f]{2}\/./.test(name));
  const path = join(copy, 'bodies', first);
  const source = await readFile(path);
  source[1000] = (source[1000] ?? 0) ^ 1;
  await writeFile(path, source);
  await assert.rejects(verifyBackup(copied), new RegExp(`${basename(first)} is damaged`));
  await rm(join(copy, 'bodies', second));
  await assert.rejects(verifyBackup(copied), ({ message }: Error) => {
    assert.match(message, /^2 of \d+ bodies are missing:/);
    assert.match(message, new RegExp(`${basename(first)} is damaged`));
    assert.match(message, new RegExp(`${basename(second)} is missing`));
    return true;
  });
  const target = await installation('of-damaged');
  await assert.rejects(restoreBackup(into(target, copy)), /2 of \d+ bodies are missing/);
  assert.ok(!existsSync(target.DATA_DIR ?? ''), 'nothing is written before all is checked');
  const rest = { ...into(target, copy), allowMissingBodies: true };
  assert.deepEqual((await restoreBackup(rest)).missing.toSorted(), [first, second].toSorted());
  const restored = await readdir(join(target.DATA_DIR ?? '', 'bodies'), { recursive: true });
  assert.ok(!restored.includes(first) && !restored.includes(second));
  const again = await startHere(target);
  const token = await signIn(target);
  const { changes } = await mail(target, token, 'sync', { mailbox: 'INBOX' });
  const codes: string[] = [];
  for (const { uid } of changes.added) {
    const answer = await fetch(
      `http://127.0.0.1:${target.PORT}/mail/message?mailbox=INBOX&uid=${uid}`,
      { headers: { authorization: `Bearer ${token}` } },
    );
    const body = (await answer.json()) as { code?: string };
    if (answer.status !== 200) codes.push(body.code ?? '');
  }
  await again.stop();
  assert.deepEqual(codes, ['body_unavailable', 'body_unavailable']);
  // A list that does not name the body either.
  const sums = join(copy, 'SHA256SUMS');
  const lines = (await readFile(sums, 'utf8')).split('\n');
  await writeFile(sums, lines.filter((line) => !line.includes(first)).join('\n'));
  await assert.rejects(verifyBackup(copied), /SHA256SUMS was changed after the backup was made/);
});

test('links, FIFOs and names that are none of a backup are refused', async () => {
  const copy = join(ROOT, 'odd');
  const copied = { folder: copy, bucket: undefined, onProgress };
  const database = SERVER ? 'postroom.dump' : 'postroom.sqlite';
  const refuseAfter = async (change: () => Promise<unknown>, why: RegExp) => {
    await rm(copy, { recursive: true, force: true });
    await cp(folder, copy, { recursive: true });
    await change();
    await assert.rejects(verifyBackup(copied), why);
  };
  const replaceBy = async (name: string, make: (path: string) => Promise<unknown>) => {
    await rm(join(copy, name), { recursive: true });
    await make(join(copy, name));
  };
  const link = (name: string) => replaceBy(name, (path) => symlink(join(folder, name), path));
  await refuseAfter(() => link(database), /postroom\.\w+ is a link/);
  await refuseAfter(() => link('SHA256SUMS'), /SHA256SUMS is a link/);
  await refuseAfter(() => link('bodies'), /is a link/);
  await refuseAfter(() => replaceBy('bodies', (path) => writeFile(path, '')), /bodies are missing/);
  const fifo = async (path: string) => void execFileSync('mkfifo', [path]);
  await refuseAfter(() => replaceBy(database, fifo), /is no plain file/);
  await refuseAfter(() => replaceBy('backup.json', fifo), /is no plain file/);
  for (const text of ['null', '[]', '"x"', '{'])
    await refuseAfter(() => writeFile(join(copy, 'backup.json'), text), /not a complete backup/);
  const journal = join(copy, 'postroom.sqlite-journal');
  await refuseAfter(() => writeFile(journal, ''), /sqlite-journal is no file of a backup/);
  await refuseAfter(async () => {
    const sums = `${await readFile(join(copy, 'SHA256SUMS'), 'utf8')}${'0'.repeat(64)}  ../x\n`;
    await writeFile(join(copy, 'SHA256SUMS'), sums);
    await seal(copy);
  }, /names "\.\.\/x", which is no file of a backup/);
});

/** Makes a changed backup one whose digests are right. */
async function seal(copy: string): Promise<void> {
  const hash = (text: Buffer | string) => createHash('sha256').update(text).digest('hex');
  const path = join(copy, 'SHA256SUMS');
  const lines = (await readFile(path, 'utf8')).split('\n');
  const database = 'postroom.sqlite';
  const found = lines.findIndex((line) => line.endsWith(`  ${database}`));
  if (found >= 0) lines[found] = `${hash(await readFile(join(copy, database)))}  ${database}`;
  await writeFile(path, lines.join('\n'));
  const manifest = JSON.parse(await readFile(join(copy, 'backup.json'), 'utf8'));
  const sums = hash(lines.join('\n'));
  await writeFile(join(copy, 'backup.json'), JSON.stringify({ ...manifest, sums }));
}

test('a database that names a file outside of the bodies is refused', {
  skip: SERVER !== undefined,
}, async () => {
  const copy = join(ROOT, 'outside');
  await cp(folder, copy, { recursive: true });
  const database = new DatabaseSync(join(copy, 'postroom.sqlite'));
  database.exec(
    `update bodies set file = '../../outside' where id = (select max(id) from bodies where file is not null)`,
  );
  database.close();
  await seal(copy);
  const odd = { folder: copy, bucket: undefined, onProgress, allowMissingBodies: true };
  await assert.rejects(verifyBackup(odd), /names a body "\.\.\/\.\.\/outside"/);
});

test('a database that the start refuses is refused by backup, doctor, verify-backup and restore alike', {
  skip: SERVER !== undefined,
}, async () => {
  const copy = join(ROOT, 'unfit');
  for (const [change, why] of [
    ['alter table settings add column extra text', /settings\.extra is not known/],
    ['create trigger t after insert on messages begin select 1; end', /trigger t is not known/],
    ['create view v as select 1', /view v is not known/],
  ] as const) {
    await rm(copy, { recursive: true, force: true });
    await cp(folder, copy, { recursive: true });
    const database = new DatabaseSync(join(copy, 'postroom.sqlite'));
    database.exec(change);
    database.close();
    await seal(copy);
    const unfit = { folder: copy, bucket: undefined, onProgress };
    const explained = (error: Error) => {
      assert.match(error.message, why);
      assert.match(error.message, /^the database in the backup cannot be used by this program/);
      assert.doesNotMatch(error.message, /restore (?:a|the) backup/);
      return true;
    };
    await assert.rejects(verifyBackup(unfit), explained);
    const target = await installation('of-unfit');
    await assert.rejects(restoreBackup(into(target, copy)), explained);
    assert.ok(!existsSync(target.DATA_DIR ?? ''));
    const data = target.DATA_DIR ?? '';
    await mkdir(data, { recursive: true });
    await cp(join(copy, 'postroom.sqlite'), join(data, 'postroom.sqlite'));
    await assert.rejects(startHere(target), why);
    await refuse(['backup', join(ROOT, 'of-unfit-backup')], target, why);
    const doctor = await runHere(['doctor'], target);
    assert.match(doctor.output, new RegExp(`failed +database .*${why.source}`));
    await rm(data, { recursive: true });
  }
});

test('restore refuses a service that runs, a place that it cannot use, and a newer schema', async () => {
  await refuse(
    ['restore', folder],
    kept,
    SERVER ? /expected an empty/ : /a service or a command is using/,
  );
  const full = await installation('full');
  await mkdir(full.DATA_DIR ?? '', { recursive: true });
  await writeFile(join(full.DATA_DIR ?? '', 'notes'), '');
  await assert.rejects(
    restoreBackup(into(full, folder)),
    /expected an empty folder, got .* with notes/,
  );
  const [file, link] = [join(ROOT, 'a-file'), join(ROOT, 'a-link')];
  await writeFile(file, '');
  await symlink('nowhere', link);
  for (const [place, why] of [
    [file, /^DATA_DIR: .*a-file cannot be used: ENOTDIR/],
    [join(file, 'below'), /^DATA_DIR: .*a-file\/below cannot be used: ENOTDIR/],
    [link, /^DATA_DIR: .*a-link cannot be used: ENOENT/],
    [join(folder, 'inside'), /^DATA_DIR: .*inside is in the backup/],
  ] as const) {
    await assert.rejects(restoreBackup(into({ ...full, DATA_DIR: place }, folder)), (error) => {
      assert.ok(error instanceof BackupFailed);
      assert.match(error.message, why);
      return true;
    });
  }
  assert.ok(!existsSync(join(folder, 'inside')));
  const newer = join(ROOT, 'newer');
  await cp(folder, newer, { recursive: true });
  const manifest = JSON.parse(await readFile(join(newer, 'backup.json'), 'utf8'));
  await writeFile(join(newer, 'backup.json'), JSON.stringify({ ...manifest, schema: 999 }));
  const tooNew = /has schema version 999, .* restore it with the newer program/;
  await assert.rejects(restoreBackup(into(await installation('of-newer'), newer)), tooNew);
});

test('a restore that is killed keeps services away, and can be repeated', async () => {
  await service.stop();
  const restored = await installation('restored');
  const data = restored.DATA_DIR ?? '';
  await killAt('restored/bodies/', 2, ['restore', folder], restored);
  assert.ok(existsSync(join(data, SERVER ? 'bodies' : 'postroom.sqlite')));
  await assert.rejects(startHere(restored), {
    name: 'ConfigError',
    message:
      /^DATA_DIR: a restore into .* was interrupted; if it was interrupted, run "postroom restore" again/,
  });

  const { bodies } = await succeed(['restore', folder], restored);
  assert.ok(bodies >= 4);
  const again = await startHere(restored);
  const token = await signIn(restored);
  const after = await readAll(restored, token);
  for (const [uid, message] of before) assert.equal(after.get(uid), message, `UID ${uid}`);
  // What came while the backup was made is whole, too: readAll has read it.
  assert.ok(after.size >= before.size);
  const known = await mail(restored, token, 'sync', { mailbox: 'INBOX', uidvalidity, token: '1' });
  assert.equal(known.reset, true);
  assert.ok(Number(known.uidvalidity) > Number(uidvalidity));
  await again.stop();
  // Nothing gets an id that something had after the backup.
  const database = SERVER
    ? await openPostgres({ url: restored.DATABASE_URL ?? '' })
    : await openSqlite({ path: join(data, 'postroom.sqlite') });
  const { id } = await database.write((tx) =>
    tx
      .insertInto('bodies')
      .values({ size: 1, content: Buffer.from('x'), file: null })
      .returning('id')
      .executeTakeFirstOrThrow(),
  );
  await database.close();
  assert.ok(id > 1_000_000_000, `a new body has id ${id}`);
});

test('a restore that is killed after the commit of PostgreSQL can be repeated', {
  skip: SERVER === undefined,
}, async () => {
  const restored = await installation('restored-anew');
  await killAfterCommit(['restore', folder], restored);
  const client = new Client({ connectionString: restored.DATABASE_URL });
  await client.connect();
  const { rows } = await client.query('select count(*) from messages');
  assert.ok(Number(rows[0].count) > 0, 'the mail has come');
  // Another machine does not see the folder.
  const elsewhere = {
    ...(await environment('elsewhere')),
    DATABASE_URL: restored.DATABASE_URL ?? '',
  };
  const { code, output } = await start({ ...elsewhere, DNS_SERVERS: '127.0.0.1:9' }).ended();
  assert.equal(code, 1);
  assert.match(
    output,
    /a restore into this database was interrupted.*run "postroom restore" again/,
  );
  await refuse(['restore', folder], restored, /other programs are connected to it/);
  await refuse(
    ['backup', join(ROOT, 'half')],
    restored,
    /a restore into this database was interrupted/,
  );
  await client.end();

  await succeed(['restore', folder], restored);
  const again = start(restored);
  await listening(again);
  const after = await readAll(restored, await signIn(restored));
  for (const [uid, message] of before) assert.equal(after.get(uid), message, `UID ${uid}`);
  await stop(again);

  // One that lacks the last step alone ends, and what is there stays.
  const { sums } = JSON.parse(await readFile(join(folder, 'backup.json'), 'utf8'));
  await query(
    restored,
    "insert into settings (name, value) values ('of the test', 'kept')",
    `create table restore_unfinished as select '${sums}' as filled_from`,
  );
  await succeed(['restore', folder], restored);
  const find = "select name from settings where name = 'of the test'";
  assert.equal((await query(restored, find)).length, 1);
  const marks = "select 1 from pg_tables where tablename = 'restore_unfinished'";
  assert.equal((await query(restored, marks)).length, 0);
  // What came from another backup is not taken for this one, and stays while the folder has its files.
  await query(
    restored,
    "create table restore_unfinished as select 'of another backup' as filled_from",
  );
  await refuse(['restore', folder], restored, /expected an empty folder/);
  assert.equal((await query(restored, find)).length, 1);
  await rm(restored.DATA_DIR ?? '', { recursive: true });
  await succeed(['restore', folder], restored);
  assert.equal((await query(restored, find)).length, 0);
});

test('a restore that PostgreSQL refuses says why in one line, leaves nothing, and can be repeated', {
  skip: SERVER === undefined,
}, async () => {
  const refused = await installation('refused');
  await query(
    refused,
    `create function refuse() returns event_trigger language plpgsql as $$ begin
      raise exception 'could not extend file' using hint = 'Check free disk space.'; end $$`,
    "create event trigger refuse on ddl_command_start when tag in ('CREATE TABLE') execute function refuse()",
  );
  // Where the machine speaks German, pg_restore does as well, and names the statement by other words.
  await refuse(
    ['restore', folder],
    { ...refused, LC_ALL: 'C.UTF-8', LANGUAGE: 'de' },
    /^(?!.*create table).*could not extend file HINT: Check free disk space\..*; nothing was restored: mend that, and run it again\n$/i,
  );
  await query(refused, 'drop event trigger refuse', 'drop function refuse()');
  await succeed(['restore', folder], refused);
});

test('the copy of the database is one file that any SQLite opens', {
  skip: SERVER !== undefined,
}, () => {
  const copy = new DatabaseSync(join(folder, 'postroom.sqlite'), { readOnly: true });
  assert.equal(copy.prepare('pragma journal_mode').get()?.journal_mode, 'delete');
  copy.close();
});
