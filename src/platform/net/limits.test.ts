import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import pLimit from 'p-limit';
import { limitInMemory } from './limits.ts';
import { runInTurn } from './turns.ts';

const options = { name: 'test', most: 2, seconds: 60 };

suite('a limit in memory', () => {
  test('counts each key in a window of its own', async (t) => {
    t.mock.timers.enable({ apis: ['Date', 'setTimeout'], now: 1_800_000_000_000 });
    const limit = limitInMemory(options);
    const unused = { most: 2, remaining: 2, exceeded: false, resetSeconds: 0 };
    assert.deepEqual(await limit.look('a'), unused);
    assert.deepEqual(await limit.take('a'), { ...unused, remaining: 1, resetSeconds: 60 });
    t.mock.timers.tick(20_500);
    assert.deepEqual(await limit.take('a'), { ...unused, remaining: 0, resetSeconds: 40 });
    const exceeded = { ...unused, remaining: 0, exceeded: true, resetSeconds: 40 };
    assert.deepEqual(await limit.take('a'), exceeded);
    assert.deepEqual(await limit.look('a'), exceeded);
    assert.deepEqual(await limit.take('b'), { ...unused, remaining: 1, resetSeconds: 60 });
    t.mock.timers.tick(39_500);
    assert.deepEqual(await limit.look('a'), unused);
    assert.equal((await limit.look('b')).remaining, 1);
  });

  test('takes counts back, down to none', async () => {
    const limit = limitInMemory(options);
    await limit.giveBack('a');
    await limit.take('a');
    await limit.giveBack('a');
    assert.equal((await limit.take('a')).remaining, 1);
    await limit.take('a');
    await limit.take('a');
    await limit.clear('a');
    assert.equal((await limit.look('a')).remaining, 2);
  });

  test('after a clock was set back, no wait is longer than a window', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 });
    const seconds = 0.1;
    const limit = limitInMemory({ ...options, seconds });
    for (let n = 0; n < 3; n++) await limit.take('a');
    t.mock.timers.setTime(1_700_000_000_000);
    assert.equal((await limit.look('a')).resetSeconds, seconds);
    // Timers run in the order of their ends: the window's own is before this one.
    await setTimeout(1000 * seconds + 50);
    assert.equal((await limit.look('a')).exceeded, false);
  });

  test('keeps the 100,000 keys that were used last', async () => {
    // No window may end while they are counted.
    const limit = limitInMemory({ ...options, seconds: 3_600 });
    await limit.take('first');
    await limit.take('in use');
    for (let n = 0; n < 99_999; n++) {
      await limit.take(`other ${n}`);
      if (n === 50_000) await limit.take('in use');
    }
    assert.equal((await limit.look('in use')).remaining, 0);
    assert.equal((await limit.look('first')).remaining, 2);
    assert.equal((await limit.look('other 0')).remaining, 1);
  });
});

const never = new AbortController().signal;
const reason = new Error('given up');

/** Tasks on one slot that record their start; the first one ends when the test says so. */
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

test('work waits for its slot, in order, and passes it on when it fails', async () => {
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

test('work that throws before it has begun is an error of its caller alone', async () => {
  const limit = pLimit(1);
  const failing = runInTurn(limit, never, () => {
    throw new Error('failed at once');
  });
  await assert.rejects(failing, /failed at once/);
  assert.equal(await runInTurn(limit, never, async () => 'next'), 'next');
});

test('an aborted wait ends at once, and its work never runs', async () => {
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

test('a slot that is given up just when it is given goes to the next', async () => {
  const { begun, first, end, run } = hold();
  const giving = new AbortController();
  const second = run('second', giving.signal);
  const third = run('third');
  end();
  // After the slot was passed on, and before its new owner runs.
  queueMicrotask(() => giving.abort(reason));
  await assert.rejects(second, reason);
  await Promise.all([first, third]);
  assert.deepEqual(begun, ['first', 'third']);
});
