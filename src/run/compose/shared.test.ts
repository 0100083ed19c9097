import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Looks } from './shared.ts';

test('what was missed is looked for until a look succeeds', async () => {
  const gaps: boolean[] = [];
  const { promise: enough, resolve } = Promise.withResolvers<void>();
  const looks = new Looks({ error: () => {} }, 1);
  looks.lookNow();
  // The pauses of the looks do not keep the process running.
  const awake = setInterval(() => {}, 1_000);
  looks.start(async (afterGap) => {
    gaps.push(afterGap);
    if (gaps.length === 3) resolve();
    if (gaps.length === 1) throw new Error('the database is away');
  });
  await enough;
  await looks.stop();
  clearInterval(awake);
  assert.deepEqual(gaps.slice(0, 3), [true, true, false]);
});
