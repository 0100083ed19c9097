import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Poller } from './shared.ts';

test('what was missed is looked for until a look succeeds', async () => {
  const gaps: boolean[] = [];
  const { promise: enough, resolve } = Promise.withResolvers<void>();
  const poller = new Poller({ error: () => {} }, 1);
  poller.lookNow();
  // The pauses of the poller do not keep the process running.
  const awake = setInterval(() => {}, 1_000);
  poller.start(async (afterGap) => {
    gaps.push(afterGap);
    if (gaps.length === 3) resolve();
    if (gaps.length === 1) throw new Error('the database is away');
  });
  await enough;
  await poller.stop();
  clearInterval(awake);
  assert.deepEqual(gaps.slice(0, 3), [true, true, false]);
});
