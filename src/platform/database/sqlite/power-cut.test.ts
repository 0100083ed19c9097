/** After a power cut at any moment, the disk has everything that was returned to anybody before. */
import assert from 'node:assert/strict';
import fs, {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, mock, test } from 'node:test';
import type { Database } from '../database.ts';

const folder = mkdtempSync(join(tmpdir(), 'postroom-power-'));
const path = join(folder, 'test.sqlite');
/** The log as the last finished sync found it when it began. */
let durable = Buffer.alloc(0);
let syncs = { here: 0, elsewhere: 0 };
/** Whether a sync in another thread is under way. */
let isSyncing = false;
let database: Database;
let PreparedQuery: typeof import('../database.ts').PreparedQuery;
let openSqlite: typeof import('../database.ts').openSqlite;

before(async () => {
  const { fdatasync, fdatasyncSync } = fs;
  mock.method(fs, 'fdatasyncSync', (file: number) => {
    syncs.here++;
    const log = readFileSync(`${path}-wal`);
    fdatasyncSync(file);
    durable = log;
  });
  mock.method(fs, 'fdatasync', (file: number, callback: fs.NoParamCallback) => {
    syncs.elsewhere++;
    isSyncing = true;
    const log = readFileSync(`${path}-wal`);
    let turns = 20;
    // A slow disk shows which code does not wait for it.
    const finish = () => {
      if (--turns > 0) setImmediate(finish);
      else
        fdatasync(file, (error) => {
          durable = log;
          isSyncing = false;
          callback(error);
        });
    };
    finish();
  });
  syncBuiltinESMExports();
  // Imported only now, so that it gets the mocks instead of the real functions.
  ({ PreparedQuery, openSqlite } = await import('../database.ts'));
  await (await openSqlite({ path })).close();
  copyFileSync(path, join(folder, 'left.sqlite'));
  database = await openSqlite({ path });
});

after(async () => {
  await database.close();
  mock.restoreAll();
  syncBuiltinESMExports();
  rmSync(folder, { recursive: true });
});

/** The counters that exist after the power cut. */
function survivors(): Set<string> {
  const left = join(folder, 'left.sqlite');
  const copy = join(folder, 'copy.sqlite');
  rmSync(`${copy}-shm`, { force: true });
  copyFileSync(left, copy);
  writeFileSync(`${copy}-wal`, durable);
  const db = new DatabaseSync(copy, { readOnly: true });
  const rows = db.prepare('select name from counters').all();
  db.close();
  return new Set(rows.map(({ name }) => String(name)));
}

function assertSurvive(names: Iterable<string>, who: string): void {
  assert.deepEqual([...new Set(names).difference(survivors())], [], who);
}

let made = 0;

async function write(): Promise<string> {
  const name = `n${++made}`;
  await database.write((tx) => tx.insertInto('counters').values({ name, value: 1 }).execute());
  return name;
}

const select = (queries: Database['read']) => queries.selectFrom('counters').select('name');
const namesOf = (rows: readonly { name: string }[]) => rows.map(({ name }) => name);

/** Reads in every way, again and again, until stopped. */
function readers(isOver: () => boolean): Promise<void>[] {
  const prepared = new PreparedQuery(() => select(database.read));
  const ways = {
    'a query': async () => namesOf(await select(database.read).execute()),
    'a prepared query': async () => namesOf(await prepared.all(database.read, {})),
    'a snapshot': () => database.snapshot(async (tx) => namesOf(await select(tx).execute())),
  };
  return Object.entries(ways).map(async ([who, read]) => {
    while (!isOver()) {
      const names = await read();
      assertSurvive(names, who);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
}

test('writes that share a commit, and all reads meanwhile', async () => {
  syncs = { here: 0, elsewhere: 0 };
  let isOver = false;
  const reading = readers(() => isOver);
  const writers = Array.from({ length: 4 }, async () => {
    for (let times = 0; times < 10; times++) assertSurvive([await write()], 'a writer');
  });
  await Promise.all(writers).finally(() => {
    isOver = true;
  });
  await Promise.all(reading);
  assert.ok(syncs.elsewhere >= 10);
  assert.equal(survivors().size, made);
});

test('single reads while a commit is under way: they are answered before its sync is done', async () => {
  const before = made;
  const written = Promise.all([write(), write()]);
  while (!isSyncing) await new Promise((resolve) => setImmediate(resolve));
  const prepared = new PreparedQuery(() => select(database.read));
  const found = [await select(database.read).execute(), await prepared.all(database.read, {})].map(
    namesOf,
  );
  assert.equal(isSyncing, true);
  for (const names of found) {
    assert.equal(names.length, before);
    assertSurvive(names, 'a reader');
  }
  assertSurvive(await written, 'a writer');
});

test('a single writer', async () => {
  syncs = { here: 0, elsewhere: 0 };
  for (let times = 0; times < 10; times++) assertSurvive([await write()], 'a writer');
  // The sync is made here, or in another thread where the last one took long.
  assert.equal(syncs.here + syncs.elsewhere, 10);
});

test('a write that changes nothing makes no sync', async () => {
  syncs = { here: 0, elsewhere: 0 };
  await database.write((tx) => select(tx).execute());
  await Promise.all([1, 2].map(() => database.write((tx) => select(tx).execute())));
  // For example, the lease of a queue that is empty.
  await database.write((tx) =>
    tx.updateTable('counters').set({ value: 2 }).where('name', '=', 'nobody').execute(),
  );
  assert.deepEqual(syncs, { here: 0, elsewhere: 0 });
});

test('what a killed process left in the log is on the disk before anything is read', async () => {
  await Promise.all([write(), write()]);
  const left = join(folder, 'killed.sqlite');
  copyFileSync(path, left);
  copyFileSync(`${path}-wal`, `${left}-wal`);
  const reopened = await openSqlite({ path: left });
  assert.equal(statSync(`${left}-wal`).size, 0);
  assert.equal((await select(reopened.read).execute()).length, made);
  await reopened.close();
});

test('a write after or during the close is refused', async () => {
  const ending = await openSqlite({ path: join(folder, 'ending.sqlite') });
  const [closed, late] = [ending.close(), Promise.withResolvers<unknown>()];
  setImmediate(() => {
    const refused = ending.write((tx) => select(tx).execute());
    refused.catch(late.resolve);
  });
  assert.match(String(await late.promise), /closed/);
  await closed;
});
