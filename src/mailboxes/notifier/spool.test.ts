import assert from 'node:assert/strict';
import { appendFile, chmod, link, mkdtemp, open, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Spool, type SpoolOptions } from './spool.ts';

const folders: string[] = [];
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));

async function openSpool(options: Partial<SpoolOptions> = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-spool-'));
  folders.push(directory);
  const spool = new Spool({ directory, ...options });
  await spool.prepare();
  return { spool, directory, events: join(directory, 'events') };
}

test('each line is read once, blank ones not at all, a part of one not yet', async () => {
  const { spool, events } = await openSpool();
  await appendFile(events, '\none\n\ntwo\n\nthr');
  const first = await spool.read({});
  assert.deepEqual(first.lines, ['one', 'two']);
  assert.deepEqual((await spool.read(first.positions)).lines, []);
  await appendFile(events, 'ee\n');
  assert.deepEqual((await spool.read(first.positions)).lines, ['three']);
});

test('a file of very short lines is read, as many as there are', async () => {
  const { spool, events } = await openSpool();
  await appendFile(events, 'x\n'.repeat(300_000));
  assert.equal((await spool.read({})).lines.length, 300_000);
});

test('a writer that opened the file before it was changed is still read', async () => {
  let now = 1_700_000_000_000;
  const { spool, directory, events } = await openSpool({
    limits: { rotateBytes: 4 },
    now: () => now,
  });
  const late = await open(events, 'a');
  await appendFile(events, 'early\n');
  const first = await spool.read({});
  await spool.rotate();
  await appendFile(events, 'new\n');
  await late.appendFile('late\n');
  await late.close();
  const second = await spool.read(first.positions);
  assert.deepEqual(second.lines, ['late', 'new']);
  // New files stay, and so do files that are not read.
  await spool.removeOld(second.positions);
  now += 3_600_000;
  await spool.removeOld(first.positions);
  assert.equal((await readdir(directory)).length, 2);
  const left = await spool.removeOld(second.positions);
  assert.deepEqual(await readdir(directory), ['events']);
  assert.equal(Object.keys(left).length, 1);
  assert.deepEqual(await spool.known({ ...left, 999: 5 }), left);
});

test('a line cut off at the end of an old file does not keep it for ever', async () => {
  let now = 1_700_000_000_000;
  const { spool, directory, events } = await openSpool({
    limits: { rotateBytes: 4 },
    now: () => now,
  });
  await appendFile(events, 'whole\ncut');
  const first = await spool.read({});
  await spool.rotate();
  now += 3_600_000;
  const second = await spool.read(first.positions);
  assert.equal(second.passedOver, 3);
  await spool.removeOld(second.positions);
  assert.deepEqual(await readdir(directory), ['events']);
});

test('a file that was emptied is read from its start', async () => {
  const { spool, events } = await openSpool();
  await appendFile(events, 'a long line\n');
  const { positions } = await spool.read({});
  await (await open(events, 'w')).close();
  await appendFile(events, 'short\n');
  assert.deepEqual((await spool.read(positions)).lines, ['short']);
});

test('a huge spool is read in shares of limited size', async () => {
  const { spool, events } = await openSpool();
  const lines = Array.from({ length: 60_000 }, (_, index) => `${index}`.padStart(49, '-'));
  await appendFile(events, `${lines.join('\n')}\n`);
  let positions = {};
  const found: string[] = [];
  let shares = 0;
  for (let share = await spool.read({}); share.lines.length > 0; ) {
    shares++;
    found.push(...share.lines);
    assert.ok(share.lines.length * 50 <= 1_048_576);
    positions = share.positions;
    share = await spool.read(positions);
  }
  assert.equal(shares, 3);
  assert.deepEqual(found, lines);
});

test('bytes without a newline for a whole share are skipped', async () => {
  const { spool, events } = await openSpool();
  await appendFile(events, 'x'.repeat(1_500_000));
  await appendFile(events, '\nnext\n');
  const first = await spool.read({});
  assert.equal(first.passedOver, 1_048_576);
  assert.equal((await spool.read(first.positions)).lines.at(-1), 'next');
});

test('a new file has the rights of the one it follows', async () => {
  const { spool, events } = await openSpool({ limits: { rotateBytes: 1 } });
  await chmod(events, 0o662);
  await appendFile(events, 'line\n');
  const { ino } = await stat(events);
  await spool.rotate();
  const fresh = await stat(events);
  assert.notEqual(fresh.ino, ino);
  assert.equal(fresh.mode & 0o777, 0o662);
});

test('a process that died while it rotated the file returns no line twice', async () => {
  const { spool, directory, events } = await openSpool();
  await appendFile(events, 'line\n');
  const first = await spool.read({});
  await link(events, `${events}.1700000000000`);
  await spool.prepare();
  assert.deepEqual(await readdir(directory), ['events']);
  assert.deepEqual((await spool.read(first.positions)).lines, []);
});
