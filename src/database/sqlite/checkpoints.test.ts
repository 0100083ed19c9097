import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Checkpoints, startThread } from './checkpoints.ts';

/** Pages; a row below takes one and its commit a few more. */
const LONG = 100;
const ROW = 'x'.repeat(3_000);

let folder: string;
let path: string;
let db: DatabaseSync;
let checkpoints: Checkpoints;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postroom-checkpoints-'));
  path = join(folder, 'test.sqlite');
  db = new DatabaseSync(path);
  db.exec('pragma journal_mode = wal; create table rows (text)');
});

afterEach(async () => {
  await checkpoints.close();
  db.close();
  rmSync(folder, { recursive: true });
});

function open(start = () => startThread(path)): void {
  checkpoints = new Checkpoints(db, { start, longLog: LONG, commitsALook: 1 });
}

function readLog(): { length: number; moved: number } {
  const { log, checkpointed } = db.prepare('pragma wal_checkpoint(noop)').get() ?? {};
  return { length: Number(log), moved: Number(checkpointed) };
}

/** Commits until `isDone`, without a pause; answers how long the log ever was. */
async function commitUntil(isDone: () => boolean): Promise<number> {
  const insert = db.prepare('insert into rows values (?)');
  let longest = 0;
  for (let commits = 0; !isDone(); commits++) {
    assert.ok(commits < 20_000, 'it never came');
    await checkpoints.tend();
    insert.run(ROW);
    longest = Math.max(longest, readLog().length);
    // A turn of the event loop, as between the groups of GroupCommit.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return longest;
}

/** Whether the log has started anew since the last call. */
function restarts(): () => boolean {
  let last = readLog().length;
  return () => {
    const { length } = readLog();
    const isShorter = length < last;
    last = length;
    return isShorter;
  };
}

test('the log is moved and starts anew though commits never end, again and again', async () => {
  open();
  for (let times = 0; times < 3; times++) {
    assert.ok((await commitUntil(restarts())) >= LONG);
  }
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

test('what a reader holds on to is moved once it lets go', async () => {
  open();
  await commitUntil(() => readLog().length >= LONG / 2);
  const reader = new DatabaseSync(path, { readOnly: true });
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

for (const [what, start] of [
  [
    'cannot be started',
    () => {
      throw new Error('EAGAIN');
    },
  ],
  ['dies', () => new Worker('throw new Error("no memory")', { eval: true })],
] as const) {
  test(`where the thread ${what}, SQLite moves the log itself`, async () => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on('warning', note);
    try {
      open(start);
      for (let times = 0; times < 2; times++) await commitUntil(restarts());
    } finally {
      process.off('warning', note);
    }
    assert.match(String(warnings), /without a thread/);
    assert.equal(warnings.length, 1);
  });
}

test('where the thread ends between two questions, commits go on, and so does the end', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  try {
    const [thread, ended] = [startThread(path), Promise.withResolvers<void>()];
    thread.once('exit', () => ended.resolve());
    open(() => thread);
    await commitUntil(() => readLog().length >= LONG);
    const answered = once(thread, 'message');
    await checkpoints.tend();
    await answered;
    await thread.terminate();
    await ended.promise;
    for (let times = 0; times < 2; times++) await commitUntil(restarts());
  } finally {
    process.off('warning', note);
  }
  assert.match(String(warnings), /without a thread.*ended with 1/);
});

test('a checkpoint that fails is told, and tried again later', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  try {
    const fails = `const { parentPort } = require('node:worker_threads');
      parentPort.on('message', () => parentPort.postMessage({ failure: 'disk full' }));`;
    open(() => new Worker(fails, { eval: true }));
    await commitUntil(() => warnings.length >= 4);
  } finally {
    process.off('warning', note);
  }
  assert.match(String(warnings[0]), /disk full/);
  // Twice for each time that it was due.
  assert.ok(readLog().length >= 2 * LONG);
});

test('the end waits for what is under way, and the log is gone with the last connection', async () => {
  open();
  await commitUntil(() => readLog().length >= LONG);
  await checkpoints.tend();
  await checkpoints.close();
  assert.equal(readLog().moved, readLog().length);
  db.close();
  assert.equal(existsSync(`${path}-wal`), false);
  db = new DatabaseSync(path);
  open();
});
