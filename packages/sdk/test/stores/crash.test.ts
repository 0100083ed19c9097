/** What files keep when their program is killed, when a write is torn, and when several programs come. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, mock, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Change, Durability, Store } from '../../src/mail/store.ts';
import { fileStore } from '../../src/stores/file.ts';
import { sqliteStore } from '../../src/stores/sqlite.ts';

const folder = mkdtempSync(join(tmpdir(), 'postroom-crash-'));
after(() => rmSync(folder, { recursive: true }));
const writer = fileURLToPath(new URL('writer.ts', import.meta.url));
const stores = { sqlite: sqliteStore, file: fileStore };
const write = (store: Store, durability: Durability, changes: readonly Change[]) =>
  store.update('accounts', ['a'], () => changes, durability);

/** Runs the writer until it printed so many numbers. @returns the last one that it printed at all */
async function writeUntil(kind: string, path: string, lines: number): Promise<number> {
  const child = spawn(process.execPath, [writer, kind, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.on('data', (chunk) => {
    printed += chunk;
    if (printed.split('\n').length > lines) child.kill('SIGKILL');
  });
  await once(child, 'close');
  return Number(printed.split('\n').at(-2));
}

/** The number of the last transaction, which all its rows have. */
async function lastOf(store: Store): Promise<number> {
  const rows = await store.range({ table: 'operations', prefix: ['a'] });
  const seqs = rows.map(({ seq }) => seq);
  assert.deepEqual(
    seqs,
    Array.from(seqs, (_, i) => i + 1),
  );
  const last = seqs.length;
  assert.equal((await store.get('mailboxes', ['a', 1]))?.seq, last);
  const blobs = (await store.range({ table: 'blobs', prefix: ['a'] })).map(({ blob }) => blob);
  assert.deepEqual(blobs, seqs.slice(-50));
  return last;
}

for (const [kind, open] of Object.entries(stores)) {
  test(`the ${kind} store has each transaction as a whole after kill -9`, async () => {
    const path = join(folder, `killed-${kind}`);
    for (const lines of [3, 150]) {
      const printed = await writeUntil(kind, path, lines);
      const store = open(path);
      const last = await lastOf(store);
      assert.ok(last === printed || last === printed + 1, `${last} after ${printed} was durable`);
      await store.close();
    }
    assert.equal(statSync(path).mode & 0o777, 0o600);
  });
}

test('of the processes that have a SQLite file one has the lock, and the next gets it when that is killed', async () => {
  const path = join(folder, 'lead');
  const child = spawn(process.execPath, [writer, 'sqlite', path, 'lock'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  const store = sqliteStore(path);
  const ending = new AbortController();
  const order: string[] = [];
  const mine = store.lock?.('lead', ending.signal, async () => void order.push('mine'));
  await store.lock?.('another', ending.signal, async () => void order.push('another'));
  order.push('killed');
  const journals = readdirSync(folder).filter((name) => name.endsWith('-journal'));
  assert.deepEqual(journals, [], 'a program that is killed leaves no second file of its lock');
  child.kill('SIGKILL');
  await mine;
  assert.deepEqual(order, ['another', 'killed', 'mine']);
  await store.close();
});

test('a SQLite file that a program opens twice stays locked against the cleaning up of others', {
  skip: process.platform === 'linux' ? false : 'the locks of a process are asked of Linux',
}, async () => {
  const path = join(folder, 'twice');
  const locks = () =>
    readFileSync('/proc/locks', 'utf8')
      .split('\n')
      .filter(
        (line) => line.includes(` ${process.pid} `) && line.includes(`:${statSync(path).ino} `),
      );
  const first = sqliteStore(path);
  await first.range({ table: 'accounts', prefix: [] });
  assert.equal(locks().length, 1);
  const second = sqliteStore(path);
  assert.equal(locks().length, 1);
  await first.close();
  await second.close();
});

test('programs that share a SQLite file change it one after the other', async () => {
  const path = join(folder, 'shared');
  const children = Array.from({ length: 3 }, () =>
    spawn(process.execPath, [writer, 'sqlite', path, 'count'], { stdio: 'inherit' }),
  );
  const codes = await Promise.all(children.map((child) => once(child, 'close')));
  assert.deepEqual(
    codes.map(([code]) => code),
    [0, 0, 0],
  );
  const store = sqliteStore(path);
  assert.equal((await store.get('accounts', ['a']))?.value, 300);
  await store.close();
});

test('a SQLite file of another program, or of a newer version, is left alone', () => {
  const foreign = join(folder, 'foreign.db');
  const other = new DatabaseSync(foreign);
  other.exec('create table things (id)');
  other.close();
  const before = readFileSync(foreign);
  assert.throws(() => sqliteStore(foreign), /is a database of another program$/);
  assert.deepEqual(readFileSync(foreign), before);
  const newer = join(folder, 'newer.db');
  void sqliteStore(newer).close();
  const changed = new DatabaseSync(newer);
  changed.exec('pragma user_version = 9');
  changed.close();
  assert.throws(() => sqliteStore(newer), /is of a newer version of the SDK/);
});

test('Node without SQLite is told which one is needed', () => {
  const before = mock.method(process, 'getBuiltinModule', () => undefined);
  assert.throws(
    () => sqliteStore(join(folder, 'none.db')),
    /needs Node 22\.13 or later.*sdk\/file/,
  );
  assert.equal(existsSync(join(folder, 'none.db')), false);
  before.mock.restore();
});

const put = (seq: number, text = ''): Change => ({
  put: 'operations',
  row: { account: 'a', seq, text },
});

async function seqsOf(store: Store): Promise<unknown[]> {
  return (await store.range({ table: 'operations', prefix: ['a'] })).map(({ seq }) => seq);
}

/** A file with transactions 1 to 3 that are strict, then 4 and 5 that are not on the disk for sure. */
async function writeFile(name: string): Promise<{ path: string; octets: Buffer; lines: number[] }> {
  const path = join(folder, name);
  const store = fileStore(path);
  for (const seq of [1, 2, 3]) await write(store, 'strict', [put(seq)]);
  for (const seq of [4, 5]) await write(store, 'relaxed', [put(seq)]);
  const octets = readFileSync(path);
  await store.close();
  const lines = [...octets.entries()].flatMap(([at, octet]) => (octet === 10 ? [at + 1] : []));
  return { path, octets, lines };
}

test('a line of the file that was cut off at any octet is as if it had never been', async () => {
  const { path, octets, lines } = await writeFile('torn');
  const [header = 0] = lines;
  for (let size = 0; size < octets.length; size += size < header ? 20 : 3) {
    truncateSync(path, 0);
    writeFileSync(path, octets.subarray(0, size));
    const store = fileStore(path);
    const whole = Math.max(0, lines.filter((end) => end <= size).length - 1);
    assert.deepEqual(await seqsOf(store), [1, 2, 3, 4, 5].slice(0, whole), `${size} octets`);
    await write(store, 'strict', [put(9)]);
    await store.close();
    const again = fileStore(path);
    assert.deepEqual((await seqsOf(again)).at(-1), 9);
    await again.close();
  }
});

test('damage is refused where the disk had it, and cut where it may never have', async () => {
  const { path, octets, lines } = await writeFile('damaged');
  const [header = 0, first = 0, second = 0, third = 0] = lines;
  const damage = (at: number) => {
    const changed = Buffer.from(octets);
    changed[at] = 0;
    writeFileSync(path, changed);
    return changed;
  };
  for (const at of [header + 3, first + 20, second - 1]) {
    const changed = damage(at);
    assert.throws(
      () => fileStore(path),
      /damaged: the line at octet \d+ .*Remove it to sync anew$/,
    );
    assert.deepEqual(readFileSync(path), changed);
    assert.equal(existsSync(`${path}.lock`), false);
  }
  // 4 and 5 came without an fsync: the disk may have had the later and not the earlier one.
  damage(third + 12);
  const store = fileStore(path);
  assert.deepEqual(await seqsOf(store), [1, 2, 3]);
  await store.close();
  for (const text of ['hello\n', 'postroom', '\n\n']) {
    writeFileSync(path, text);
    assert.throws(() => fileStore(path), /is not a file of this store/);
    assert.equal(readFileSync(path, 'utf8'), text);
  }
});

test('a file that grew by changes of the same rows is written anew', async () => {
  const path = join(folder, 'grown');
  const store = fileStore(path);
  await write(store, 'strict', [put(1, 'kept')]);
  for (let i = 0; i < 1000; i++) await write(store, 'relaxed', [put(2, `${i}`.padEnd(3000))]);
  assert.ok(statSync(path).size < 600_000, `${statSync(path).size} octets`);
  await store.close();
  const again = fileStore(path);
  const rows = await again.range({ table: 'operations', prefix: ['a'] });
  assert.deepEqual(
    rows.map(({ text }) => String(text).trim()),
    ['kept', '999'],
  );
  await again.close();
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test('one program has a file; the lock of one that died is taken', async () => {
  const path = join(folder, 'locked');
  const store = fileStore(path);
  assert.throws(() => fileStore(path), /this process has the file open already/);
  await store.close();
  assert.equal(existsSync(`${path}.lock`), false);
  writeFileSync(`${path}.lock`, String(process.ppid));
  assert.throws(() => fileStore(path), new RegExp(`process ${process.ppid} has the file open`));
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'close');
  writeFileSync(`${path}.lock`, String(child.pid));
  const again = fileStore(path);
  assert.equal(readFileSync(`${path}.lock`, 'utf8'), String(process.pid));
  await again.close();
});

test('a disk that is full takes nothing away', async () => {
  const path = join(folder, 'full');
  const limited = `ulimit -f 100; exec "${process.execPath}" "${writer}" file "${path}"`;
  const child = spawn('bash', ['-c', limited], { stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  let failed = '';
  child.stdout.on('data', (chunk) => (printed += chunk));
  child.stderr.on('data', (chunk) => (failed += chunk));
  const [code] = await once(child, 'close');
  assert.equal(code, 1, failed);
  assert.match(failed, /EFBIG/);
  const store = fileStore(path);
  assert.equal(await lastOf(store), Number(printed.split('\n').at(-2)));
  await store.close();
});
