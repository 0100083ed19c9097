/** A disk without a free byte: the service starts on it, after a stop and after kill -9, and serves reads. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import {
  openPostgres,
  openPostgresToRead,
  openSqlite,
} from '../../src/platform/database/database.ts';
import { runHere } from '../support/commands.ts';
import { freePort } from '../support/free-port.ts';
import { beginAs } from '../support/older-schema.ts';
import { findPostgres, startPostgres } from './postgres.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const PROGRAM = fileURLToPath(new URL('../../src/postroom.js', import.meta.url));
const disk = mkdtempSync(join(tmpdir(), 'postroom-full-'));
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk]);

after(() => {
  if (mounted.status === 0) execFileSync('umount', ['--lazy', disk]);
  rmdirSync(disk);
});

/** Starts the service, lets it be used, and ends it. */
async function run(signal: NodeJS.Signals, use: (url: string) => Promise<void>): Promise<void> {
  const port = await freePort();
  const env = { ...process.env, DATA_DIR: join(disk, 'data'), PORT: String(port), SMTP_PORT: '0' };
  const child = spawn(process.execPath, [MAIN], {
    cwd: disk,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const ended = once(child, 'exit');
  try {
    while (!output.includes('Postroom listens')) {
      assert.equal(child.exitCode, null, output);
      await Promise.race([once(child.stdout, 'data'), ended]);
    }
    await use(`http://127.0.0.1:${port}`);
  } finally {
    child.kill(signal);
    await ended;
  }
}

async function ask(url: string, path: string, body?: object): Promise<Response> {
  const { apiKey } = JSON.parse(readFileSync(join(disk, 'data', 'secrets.json'), 'utf8'));
  return fetch(url + path, {
    headers: { 'x-api-key': apiKey, 'content-type': 'application/json' },
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
  });
}

function fill(): void {
  for (let file = 0; ; file++) {
    try {
      writeFileSync(join(disk, `fill-${file}`), Buffer.alloc(1_024));
    } catch (error) {
      assert.match(String(error), /ENOSPC/);
      return;
    }
  }
}

function unfill(): void {
  for (const name of readdirSync(disk)) if (name.startsWith('fill-')) rmSync(join(disk, name));
}

/** All tables of a database, and its version. */
function describe(path: string): object {
  using db = new DatabaseSync(path, { readOnly: true });
  const rows = (query: string) => db.prepare(query).all();
  return [
    rows('select name, sql from sqlite_schema order by name'),
    rows('select * from kysely_migration'),
  ];
}

const skip =
  mounted.status === 0 ? false : `NOT TESTED, no tmpfs can be mounted: ${mounted.stderr}`;

test('a disk without a free byte still starts and serves reads', { skip }, async () => {
  const domain = { user_id: 'demo', domain: 'acme.test' };
  await run('SIGTERM', async (url) => {
    assert.equal((await ask(url, '/v2/domain', domain)).status, 201);
  });
  fill();
  for (const signal of ['SIGTERM', 'SIGTERM', 'SIGKILL', 'SIGTERM'] as const) {
    await run(signal, async (url) => {
      assert.equal((await fetch(`${url}/readyz`)).status, 200);
      assert.equal((await ask(url, '/v2/domains/acme.test/info?user_id=demo')).status, 200);
      fill();
      assert.equal(statfsSync(disk).bavail, 0);
      assert.equal((await ask(url, '/v2/domains/acme.test/dns?user_id=demo')).status, 200);
    });
  }
});

test('a backup to a disk without a free byte says which file that disk has no room for', {
  skip,
}, async () => {
  const data = mkdtempSync(join(tmpdir(), 'postroom-data-'));
  after(() => rmSync(data, { recursive: true }));
  cpSync(join(disk, 'data'), data, { recursive: true });
  fill();
  const { code, output } = await runHere(['backup', join(disk, 'backup')], { DATA_DIR: data });
  assert.equal(code, 1, output);
  assert.match(output, /backup\/postroom\.sqlite could not be written: its disk is full/);
});

test('doctor says that a disk has no inode left, on which large mail is deferred', {
  skip,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'postroom-inodes-'));
  // The folder itself has the only one.
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2g,nr_inodes=1', 'tmpfs', folder]);
  after(() => {
    execFileSync('umount', ['--lazy', folder]);
    rmdirSync(folder);
  });
  const ports = { PORT: String(await freePort()), SMTP_PORT: '0' };
  const settings = { ...ports, DATA_DIR: folder, DNS_SERVERS: '127.0.0.1:9' };
  const { output } = await runHere(['doctor'], settings);
  assert.match(output, /^failed {3}disk .*but no inode is free$/m);
});

test('doctor looks at a disk of the bodies; with a bucket at that where they wait for it', {
  skip,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'postroom-disks-'));
  for (const [name, size] of [
    ['bodies', '8m'],
    ['spool', '2g'],
  ]) {
    const path = join(folder, name ?? '');
    mkdirSync(path);
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', path]);
    after(() => execFileSync('umount', ['--lazy', path]));
  }
  const ports = { PORT: String(await freePort()), SMTP_PORT: '0' };
  const settings = { ...ports, DATA_DIR: folder, DNS_SERVERS: '127.0.0.1:9' };
  const look = async (more = {}) => (await runHere(['doctor'], { ...settings, ...more })).output;
  const full = /^failed .*disk of bodies +8\.\d MB.*\n +(.+)$/m;
  assert.equal(full.exec(await look())?.[1], 'mail is deferred: free some disk space');
  const DATABASE_URL = 'postgres://mail@127.0.0.1:9/mail';
  const small = await look({ DATABASE_URL });
  assert.equal(full.exec(small)?.[1], 'mail above 64 KiB is deferred: free some disk space');
  const bucket = 'http://key:secret@127.0.0.1:9/bucket';
  assert.match(await look({ S3_URL: bucket }), /^ok .*disk of bodies +2\.\d GB/m);
  execFileSync('mount', ['-o', 'remount,ro', join(folder, 'bodies')]);
  assert.match(await look(), /^failed +folder of bodies +\S+ cannot be written to: .*EROFS/m);
});

test('a start names the file of a database that may only be read', { skip }, async () => {
  const DATA_DIR = mkdtempSync(join(tmpdir(), 'postroom-read-only-'));
  after(() => rmSync(DATA_DIR, { recursive: true }));
  const path = join(DATA_DIR, 'postroom.sqlite');
  await (await openSqlite({ path })).close();
  execFileSync('mount', ['--bind', path, path]);
  execFileSync('mount', ['-o', 'remount,ro,bind', path]);
  const { code, output } = await runHere(['migrate'], { DATA_DIR });
  execFileSync('umount', ['--lazy', path]);
  assert.equal(code, 1);
  assert.match(
    output,
    /^\S+\.sqlite: expected a file that Postroom can read and write, got "EROFS/,
  );
});

test('a migration that a full disk cuts short leaves the database as it was, and a start with room makes it', {
  skip,
}, async () => {
  const folder = join(disk, 'older');
  const path = join(folder, 'postroom.sqlite');
  const migrate = () =>
    spawnSync(process.execPath, [PROGRAM, 'migrate'], {
      cwd: disk,
      env: { ...process.env, DATA_DIR: folder },
      encoding: 'utf8',
    });
  unfill();
  rmSync(join(disk, 'data'), { recursive: true, force: true });
  mkdirSync(folder);
  const older = await openSqlite({ path });
  await beginAs('0002', older, []);
  await older.close();
  const before = describe(path);
  fill();
  for (let times = 0; times < 2; times++) {
    const { status, stderr } = migrate();
    assert.equal(status, 1, stderr);
    assert.match(stderr, /^\S+\.sqlite: its disk has no room to open the database, [^\n]+\n$/);
    assert.deepEqual(describe(path), before);
    // The older program can still read.
    assert.ok(statSync(`${path}-reserve`).size > 0);
  }
  unfill();
  const { status, stderr } = migrate();
  assert.equal(status, 0, stderr);
});

test('an upgrade on PostgreSQL whose disk is full says so, loses nothing, and goes on with room', {
  skip,
  timeout: 120_000,
}, async (t) => {
  const bin = findPostgres();
  assert.ok(bin);
  const server = await startPostgres(bin, ['autovacuum=off']);
  t.after(() => server.stop());
  unfill();
  execFileSync('mount', ['-o', 'remount,size=24m', disk]);
  const space = join(disk, 'space');
  execFileSync('install', ['-d', '-o', 'postgres', '-m', '700', space]);
  chmodSync(disk, 0o755);
  const admin = new Client({ connectionString: server.url });
  await admin.connect();
  await admin.query(`create tablespace small location '${space}'`);
  await admin.query('create database mail tablespace small');
  await admin.end();
  const DATABASE_URL = server.url.replace(/postgres$/, 'mail');
  const older = await openPostgres({ url: DATABASE_URL, poolSize: 2 });
  const bodies = `insert into bodies (size, content) select 9, repeat('a', 200)::bytea from generate_series(1, 5000)`;
  await beginAs('0002', older, [bodies]);
  await older.close();
  const env = { DATABASE_URL, DATA_DIR: mkdtempSync(join(tmpdir(), 'postroom-none-')) };
  after(() => rmSync(env.DATA_DIR, { recursive: true }));
  fill();
  for (let times = 0; times < 2; times++) {
    const { code, output } = await runHere(['migrate'], env);
    assert.equal(code, 1, output);
    assert.match(
      output,
      /DATABASE_URL: the disk of PostgreSQL is full .* nothing is lost; make room/,
    );
  }
  unfill();
  const { code, output } = await runHere(['migrate'], env);
  assert.equal(code, 0, output);
  await using upgraded = openPostgresToRead([DATABASE_URL]);
  const all = upgraded.read.selectFrom('bodies').select(({ fn }) => fn.sum('size').as('octets'));
  assert.deepEqual(await all.execute(), [{ octets: 45_000 }]);
});
