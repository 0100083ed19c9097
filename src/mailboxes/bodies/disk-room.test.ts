import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { DiskRoom, FREE_BYTES_LEFT } from './disk-room.ts';

const MEGABYTE = 1024 * 1024;

test('a full disk is one line of the log when it begins, and one when it is over', async () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  let free = FREE_BYTES_LEFT + MEGABYTE;
  const room = new DiskRoom({
    freeBytes: async () => free,
    deferred: 'mail',
    log,
  });
  /** Waits until the next look measures anew. */
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
  await measured();
  assert.equal(await room.isFull(), false);
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? '', /has space again: mail is accepted/);
});
