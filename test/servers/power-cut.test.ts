/**
 * Power cuts: what SQLite's files may look like after one, at any moment of a run with checkpoints, logs that
 * start anew, a long reader, a stop and a start. What a process writes and syncs is recorded
 * (power-cut/record-io.c); of what was not synced yet, a cut leaves any part. Each such disk is opened by the
 * product: it has every transaction that counted as written, none by halves, and no damage.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openSqlite } from '../../src/platform/database/database.ts';
import { type CutDisk, cutPower } from './power-cut/cut-power.ts';
import { type Event, readEvents } from './power-cut/events.ts';
import { findLoss } from './power-cut/look-at-disk.ts';

const here = (name: string) => fileURLToPath(new URL(`./power-cut/${name}`, import.meta.url));
// In memory where there is such a folder: a thousand databases are opened.
const folder = mkdtempSync(
  join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'postroom-power-cut-'),
);
const path = join(folder, 'database');
/** Milliseconds; some 40 s on a quiet machine. */
const TIMEOUT = 600_000;
let first: Buffer;
let events: readonly Event[];

before(async () => {
  const shim = join(folder, 'record-io.so');
  execFileSync('gcc', ['-shared', '-fPIC', '-O1', '-o', shim, here('record-io.c'), '-ldl']);
  const database = await openSqlite({ path });
  await database.write((tx) =>
    tx.insertInto('counters').values({ name: 'numbers', value: 0 }).execute(),
  );
  await database.close();
  first = readFileSync(path);
  const record = join(folder, 'record');
  const recording = { LD_PRELOAD: shim, RECORD_PREFIX: path, RECORD_TO: record };
  const { signal, stderr } = spawnSync(process.execPath, [here('writer.ts'), path], {
    env: { ...process.env, ...recording },
  });
  assert.equal(signal, 'SIGKILL', String(stderr));
  events = readEvents(readFileSync(record));
});

after(() => rmSync(folder, { recursive: true }));

/** What the first disk lacks of what it has to have. */
async function firstLoss(disks: Iterable<CutDisk>): Promise<string | undefined> {
  let looked = 0;
  for (const disk of disks) {
    looked++;
    const loss = await findLoss(join(folder, 'cut'), disk);
    if (loss !== undefined) return `${disk.what}: ${loss}`;
  }
  assert.ok(looked > 500, `only ${looked} disks`);
  return undefined;
}

/** The same run on a disk that does as if it synced a file: what it would be without that sync. */
const without = (file: string) =>
  events.filter(({ kind, suffix }) => suffix !== file || (kind !== 'begin' && kind !== 'end'));

test('the run has checkpoints, and logs that start again', () => {
  const synced = events.filter(({ kind, suffix }) => kind === 'end' && suffix === '');
  const begun = events.filter(
    ({ kind, suffix, offset }) => kind === 'write' && suffix === '-wal' && offset === 0,
  );
  assert.ok(synced.length >= 10, `${synced.length} checkpoints`);
  assert.ok(begun.length >= 5, `${begun.length} logs`);
});

test('no cut loses a transaction that was acknowledged, or damages it', {
  timeout: TIMEOUT,
}, async () => {
  assert.equal(await firstLoss(cutPower(first, events)), undefined);
});

test('without synced checkpoints, some cuts would lose transactions', async () => {
  assert.match(String(await firstLoss(cutPower(first, without('')))), /lacks|malformed|damage/);
});

test('without a synced log, some cuts would lose transactions', async () => {
  assert.match(String(await firstLoss(cutPower(first, without('-wal')))), /lacks|malformed|damage/);
});
