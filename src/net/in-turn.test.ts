import assert from 'node:assert/strict';
import { test } from 'node:test';
import pLimit from 'p-limit';
import { runInTurn } from './in-turn.ts';

const never = new AbortController().signal;
const reason = new Error('given up');

/** Tasks on one place that note their beginning; the first one ends when it is told to. */
function hold() {
  const limit = pLimit(1);
  const begun: string[] = [];
  const held = Promise.withResolvers<void>();
  const first = runInTurn(limit, never, () => {
    begun.push('first');
    return held.promise;
  });
  const run = (name: string, signal = never) =>
    runInTurn(limit, signal, async () => {
      begun.push(name);
      return name;
    });
  return { begun, first, end: held.resolve, run };
}

test('work waits for its place, in order, and hands it on when it fails', async () => {
  const { begun, first, end, run } = hold();
  const failing = runInTurn(pLimit(1), never, async () => {
    throw new Error('failed');
  });
  const all = Promise.all([run('second'), run('third')]);
  await assert.rejects(failing, /failed/);
  assert.deepEqual(begun, ['first']);
  end();
  assert.deepEqual(await all, ['second', 'third']);
  await first;
});

test('who gives up waiting is told at once, and never runs', async () => {
  const { begun, first, end, run } = hold();
  const giving = new AbortController();
  const second = run('second', giving.signal);
  const third = run('third');
  giving.abort(reason);
  await assert.rejects(second, reason);
  await assert.rejects(run('fourth', giving.signal), reason);
  end();
  await Promise.all([first, third]);
  assert.deepEqual(begun, ['first', 'third']);
});

test('a place that is given up as it is given goes to the next', async () => {
  const { begun, first, end, run } = hold();
  const giving = new AbortController();
  const second = run('second', giving.signal);
  const third = run('third');
  end();
  // After the place was handed on, and before whoever it went to runs.
  queueMicrotask(() => giving.abort(reason));
  await assert.rejects(second, reason);
  await Promise.all([first, third]);
  assert.deepEqual(begun, ['first', 'third']);
});
