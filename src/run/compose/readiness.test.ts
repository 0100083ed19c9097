import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diskReadiness } from './readiness.ts';

test('a node whose disk is full asks about the others once in a second, however often it is asked', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  let questions = 0;
  let others = true;
  const check = diskReadiness(
    { isDiskFull: async () => true },
    {
      async othersHave() {
        questions++;
        return others;
      },
    },
    {},
  );
  assert.deepEqual(await Promise.all(Array.from({ length: 50 }, check)), Array(50).fill(false));
  assert.equal(questions, 1);
  others = false;
  now = 1_000;
  assert.equal(await check(), 'degraded');
  assert.equal(questions, 2);
});
