import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { isUnavailable } from '../failures.ts';
import { Checkpoints, startThread } from './checkpoints.ts';

/** In pages; a row below uses one, and its commit a few more. */
const LONG = 100;
const PAGE_SIZE = 4_096;
const PATIENT_AFTER = 20_000;
const ROW = 'x'.repeat(3_000);

let folder: string;
let path: string;
let db: DatabaseSync;
let checkpoints: Checkpoints;
/** The lines of the log. */
let told: string[];
let lost: Error[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postroom-checkpoints-'));
  path = join(folder, 'test.sqlite');
  db = connect();
  db.exec('create table rows (text)');
  [told, lost] = [[], []];
});

afterEach(async () => {
  await checkpoints.finish();
  db.close();
  await checkpoints.close();
  rmSync(folder, { recursive: true });
});

/** With the timeout of sqlite.ts: the thread's check of the log may hold up a write for a moment. */
function connect(): DatabaseSync {
  const made = new DatabaseSync(path, { timeout: 5_000 });
  made.exec(`pragma page_size = ${PAGE_SIZE}; pragma journal_mode = wal`);
  made.exec('pragma wal_autocheckpoint = 0; pragma synchronous = normal');
  return made;
}

function open(start = () => startThread(path)): void {
  checkpoints = new Checkpoints(db, {
    start,
    log: { warn: (fields: object, text: string) => told.push(JSON.stringify(fields) + text) },
    onLost: (error) => lost.push(error),
    limits: { longLog: LONG * PAGE_SIZE, commitsPerCheck: 1 },
  });
}

function readLog(): { length: number; moved: number } {
  const { log, checkpointed } = db.prepare('pragma wal_checkpoint(noop)').get() ?? {};
  return { length: Number(log), moved: Number(checkpointed) };
}

/** Commits until `isDone`; returns the greatest length of the log. */
async function commitUntil(isDone: () => boolean): Promise<number> {
  const insert = db.prepare('insert into rows values (?)');
  let longest = 0;
  for (let commits = 0; !isDone(); commits++) {
    await checkpoints.beforeCommit();
    insert.run(ROW);
    longest = Math.max(longest, readLog().length);
    // A turn of the event loop, as between the groups of GroupCommit.
    await new Promise((resolve) => setImmediate(resolve));
    // Seconds without a pause are enough: a busy disk or machine may need more. The runner's timeout ends it.
    if (commits > PATIENT_AFTER) await pause(10);
  }
  return longest;
}

/** Whether the log has started again from its beginning since the last call. */
function restarts(): () => boolean {
  let last = readLog().length;
  return () => {
    const { length } = readLog();
    const isShorter = length < last;
    last = length;
    return isShorter;
  };
}

test('the log is moved and starts again from its beginning, again and again, while commits never pause', async () => {
  open();
  // A log that was moved whole starts again before the thread's answer is there, and once more after the second checkpoint,
  // which finds it short.
  for (let times = 0; times < 3; ) if ((await commitUntil(restarts())) >= LONG) times++;
  assert.deepEqual({ ...db.prepare('pragma integrity_check').get() }, { integrity_check: 'ok' });
});

test('a short log is left alone, and no thread is started for it', async () => {
  let starts = 0;
  open(() => {
    starts++;
    return startThread(path);
  });
  await commitUntil(() => readLog().length >= LONG - 10);
  assert.equal(starts, 0);
  assert.equal(readLog().moved, 0);
});

test('pages that a reader holds are moved after it ends', async () => {
  open();
  await commitUntil(() => readLog().length >= LONG / 2);
  const reader = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  reader.exec('begin');
  const count = reader.prepare('select count(*) as rows from rows');
  const before = count.get();
  await commitUntil(() => readLog().length >= 4 * LONG);
  assert.ok(readLog().moved < LONG);
  assert.deepEqual(count.get(), before);
  reader.exec('rollback');
  reader.close();
  await commitUntil(restarts());
});

/** A thread whose first answer is this. */
function answering(answer: object, then = 'undefined'): Worker {
  const program = `const { parentPort } = require('node:worker_threads');
    let answer = ${JSON.stringify(answer)};
    parentPort.on('message', ({ id }) => {
      parentPort.postMessage({ id, value: answer });
      answer = ${then} ?? answer;
    });`;
  return new Worker(program, { eval: true });
}

for (const [what, fail, text] of [
  [
    'cannot be started',
    () => {
      throw new Error('EAGAIN');
    },
    /EAGAIN.*could not be copied/,
  ],
  ['dies', () => new Worker('throw new Error("no memory")', { eval: true }), /no memory/],
  [
    'finds the disk full',
    () => answering({ failure: { message: 'disk full', errcode: 13 } }),
    /disk full.*grows until a later checkpoint succeeds/,
  ],
] as const) {
  test(`where the thread ${what}, the log grows, a line says so, and another thread is tried`, async () => {
    let fails = true;
    open(() => (fails ? fail() : startThread(path)));
    await commitUntil(() => told.length >= 3);
    assert.match(told[0] ?? '', text);
    // Only when it was due: each time after as much growth again.
    assert.ok(readLog().length >= 3 * LONG);
    assert.deepEqual([readLog().moved, lost], [0, []]);
    fails = false;
    if (what === 'finds the disk full') return;
    for (let times = 0; times < 2; times++) await commitUntil(restarts());
    assert.equal(told.length, 3);
  });
}

test('a checkpoint may fail while a transaction is open', async () => {
  open(() => answering({ failure: { message: 'disk full', errcode: 13 } }));
  await commitUntil(() => readLog().length >= LONG - 1);
  while (told.length === 0) {
    await checkpoints.beforeCommit();
    db.exec('begin immediate');
    db.prepare('insert into rows values (?)').run(ROW);
    // The answer comes in one of these turns. A rejection that nobody handles fails the test.
    for (let turns = 0; turns < 1_000 && told.length === 0; turns++) await pause(0);
    await pause(0);
    db.exec('commit');
  }
  assert.match(told.join(), /disk full/);
});

test('if the thread ends between two requests, commits and the close still work', async () => {
  const [thread, ended] = [startThread(path), Promise.withResolvers<void>()];
  thread.once('exit', () => ended.resolve());
  let starts = 0;
  open(() => (starts++ === 0 ? thread : startThread(path)));
  await commitUntil(() => readLog().length >= LONG);
  const answered = once(thread, 'message');
  await checkpoints.beforeCommit();
  await answered;
  await thread.terminate();
  await ended.promise;
  for (let times = 0; times < 2; times++) await commitUntil(restarts());
  assert.match(told.join(), /the thread ended with 1/);
});

// SQLITE_IOERR_FSYNC, SQLITE_IOERR_WRITE, SQLITE_CORRUPT
for (const errcode of [1034, 778, 11]) {
  test(`a checkpoint that fails with ${errcode} is the last one, and nothing is committed after it`, async () => {
    let asked = 0;
    open(() => {
      const thread = answering({ failure: { message: 'disk I/O error', errcode } }, '{}');
      thread.on('message', () => asked++);
      return thread;
    });
    await assert.rejects(
      commitUntil(() => false),
      (error: unknown) => {
        assert.ok(error instanceof Error && isUnavailable(error));
        assert.equal(error.cause, 'disk I/O error');
        return true;
      },
    );
    await assert.rejects(checkpoints.beforeCommit(), /a checkpoint of the database failed/);
    assert.equal(asked, 1);
    assert.match(String(lost), /^Error: a checkpoint of the database failed$/);
  });
}

test('a log that a reader keeps from shrinking is reported, and again at twice the length', async () => {
  open();
  await commitUntil(() => readLog().length >= LONG / 2);
  const reader = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  reader.exec('begin');
  reader.prepare('select count(*) from rows').get();
  await commitUntil(() => told.length > 0);
  assert.match(told[0] ?? '', /"bytes":\d+\}the write-ahead log of the database keeps growing/);
  assert.ok(readLog().length >= 8 * LONG);
  await commitUntil(() => told.length > 1);
  assert.ok(readLog().length >= 16 * LONG);
  reader.close();
  await commitUntil(restarts());
  assert.equal(told.length, 2);
});

test('closing moves a long log in the thread, and the last connection removes the log', async () => {
  open();
  await commitUntil(() => readLog().length >= LONG);
  await checkpoints.finish();
  assert.equal(readLog().moved, readLog().length);
  db.close();
  assert.equal(existsSync(`${path}-wal`), true);
  await checkpoints.close();
  assert.equal(existsSync(`${path}-wal`), false);
  db = connect();
  open();
});
