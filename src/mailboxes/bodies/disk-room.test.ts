import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { DiskRoom, FREE_BYTES_LEFT } from './disk-room.ts';

const MEGABYTE = 1024 * 1024;

test('a full disk is one line of the log when it begins, and one when it is over', async (t) => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  let free = FREE_BYTES_LEFT + MEGABYTE;
  const room = new DiskRoom({
    freeBytes: async () => free,
    deferred: 'mail',
    log,
  });
  t.after(() => room.close());
  /** Waits for the next measurement, which comes by itself while the disk is full. */
  const measured = () => pause(1_100);

  assert.equal(await room.free(), FREE_BYTES_LEFT + MEGABYTE);
  assert.equal(await room.isFull(), false);
  free = FREE_BYTES_LEFT - 1;
  await measured();
  for (let mail = 0; mail < 10; mail++) assert.equal(await room.free(), FREE_BYTES_LEFT - 1);
  assert.equal(await room.isFull(), true);
  assert.equal(lines.length, 1);
  assert.match(
    lines[0] ?? '',
    /the disk of DATA_DIR, or that of its bodies, is full: mail is deferred/,
  );

  // Mail that fits in again is accepted; the disk is not full and empty by turns.
  free = FREE_BYTES_LEFT + 10;
  await measured();
  assert.equal(await room.free(), FREE_BYTES_LEFT + 10);
  assert.equal(await room.isFull(), true);

  free = FREE_BYTES_LEFT + 20 * MEGABYTE;
  while (lines.length === 1) await pause(50, undefined, { signal: t.signal });
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? '', /has space again: mail is accepted/);
  assert.equal(await room.isFull(), false);
});

test('a timer that fires a little early measures all the same', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let measured = 0;
  const room = new DiskRoom({
    deferred: 'mail',
    freeBytes: async () => {
      measured++;
      return 0;
    },
  });
  t.after(() => room.close());
  await room.free();
  for (let times = 2; times <= 4; times++) {
    now += 999;
    t.mock.timers.tick(1_000);
    assert.equal(measured, times);
    await room.free();
  }
});
