import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { after, test } from 'node:test';
import { refusalOfFailure } from '../failures.ts';
import { UnfitDatabase } from '../migrate.ts';
import { openSqlite } from './sqlite.ts';

const folder = mkdtempSync(join(tmpdir(), 'postroom-sqlite-'));
after(() => rmSync(folder, { recursive: true }));

test('snapshots work again after a time in which no file could be opened', async () => {
  const path = join(folder, 'descriptors.sqlite');
  const database = await openSqlite({ path });
  const look = () => database.snapshot((tx) => tx.selectFrom('counters').selectAll().execute());
  // Without a free descriptor, SQLite cannot open the file either.
  renameSync(path, `${path}-away`);
  for (let times = 0; times < 20; times++) await assert.rejects(look(), /unable to open/);
  renameSync(`${path}-away`, path);
  await Promise.all(Array.from({ length: 20 }, look));
  await database.close();
});

test('a database that is refused gets no file beside it', async () => {
  const path = join(folder, 'refused.sqlite');
  await (await openSqlite({ path })).close();
  const file = new DatabaseSync(path);
  file.exec('alter table counters add column colour text');
  file.close();
  rmSync(`${path}-reserve`);
  await assert.rejects(openSqlite({ path }), UnfitDatabase);
  assert.equal(existsSync(`${path}-reserve`), false);
});

test('a damaged page is reported once, and the database stays marked as damaged', async () => {
  const path = join(folder, 'damaged.sqlite');
  const made = await openSqlite({ path });
  await made.write((tx) => tx.insertInto('counters').values({ name: 'a', value: 1 }).execute());
  await made.close();
  const file = new DatabaseSync(path);
  const root = file.prepare("select rootpage from sqlite_schema where name = 'counters'").get();
  const page = Number(file.prepare('pragma page_size').get()?.page_size);
  file.close();
  const raw = openSync(path, 'r+');
  writeSync(raw, Buffer.alloc(page, 0xff), 0, page, (Number(root?.rootpage) - 1) * page);
  closeSync(raw);
  const told: string[] = [];
  const log = { warn: (_: object, text: string) => told.push(text) };
  const database = await openSqlite({ path, log });
  const count = () => database.read.selectFrom('counters').selectAll().execute();
  const settings = () => database.read.selectFrom('settings').selectAll().execute();
  await settings();
  assert.equal(database.isDamaged, false);
  for (let times = 0; times < 2; times++) await assert.rejects(count(), /malformed/);
  // The error does not end the turn for the others.
  const [failed, read] = await Promise.allSettled([count(), settings()]);
  assert.deepEqual([failed.status, read.status], ['rejected', 'fulfilled']);
  assert.equal(database.isDamaged, true);
  assert.deepEqual(
    told.map((text) => /^the database is damaged/.test(text)),
    [true],
  );
  await database.close();
});

test('a file that can only be read is reported once, and defers what would be written until it can', async (t) => {
  let now = 10_000;
  t.mock.method(performance, 'now', () => now);
  // All timers of the database: none of before could be cleared.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const told: string[] = [];
  const log = { warn: (_: object, text: string) => told.push(text) };
  const database = await openSqlite({ path: join(folder, 'read-only.sqlite'), log });
  await database.write((tx) =>
    tx.insertInto('settings').values({ name: 'a', value: 'b' }).execute(),
  );
  let isReadOnly = true;
  const run = StatementSync.prototype.run;
  t.mock.method(
    StatementSync.prototype,
    'run',
    function (this: StatementSync, ...values: Parameters<typeof run>) {
      if (!isReadOnly || this.sourceSQL !== 'begin immediate') return run.apply(this, values);
      throw Object.assign(new Error('attempt to write a readonly database'), { errcode: 8 });
    },
  );
  let written = 0;
  const write = () =>
    database.write((tx) =>
      tx
        .insertInto('counters')
        .values({ name: `n${written++}`, value: 1 })
        .execute(),
    );
  for (let times = 0; times < 2; times++) {
    await assert.rejects(write(), (error) => refusalOfFailure(error)?.code === 'unavailable');
  }
  assert.equal(database.isFailing, true);
  isReadOnly = false;
  await write();
  assert.equal(database.isFailing, true);
  now += 10_000;
  await write();
  assert.equal(database.isFailing, false);
  // Also where nobody writes.
  isReadOnly = true;
  await assert.rejects(write());
  for (const left of [true, false]) {
    isReadOnly = left;
    now += 11_000;
    t.mock.timers.tick(11_000);
    await database.write(async () => {}).catch(() => {});
    assert.equal(database.isFailing, left);
  }
  assert.deepEqual(
    told.map((text) => text.split(/[:;]/)[0]),
    Array(2)
      .fill([
        'the file of the database cannot be read or written',
        'the database can be written again',
      ])
      .flat(),
  );
  await database.close();
});
