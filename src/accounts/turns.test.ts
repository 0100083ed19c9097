import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Turns } from './turns.ts';

test('so many run at once, the others in order, failures included', async () => {
  const turns = new Turns(2, 10);
  const begun: number[] = [];
  let running = 0;
  const results = await Promise.allSettled(
    Array.from({ length: 8 }, (_, n) =>
      turns.run(async () => {
        begun.push(n);
        running++;
        assert.ok(running <= 2);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
        if (n % 3 === 0) throw new Error('failed');
        return n;
      }),
    ),
  );
  assert.deepEqual(begun, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(
    results.map((one) => (one.status === 'fulfilled' ? one.value : one.reason.message)),
    ['failed', 1, 2, 'failed', 4, 5, 'failed', 7],
  );
  assert.equal(await turns.run(async () => 'free again'), 'free again');
});

test('beyond the line nobody waits', async () => {
  const turns = new Turns(1, 2);
  let finish = () => {};
  const first = turns.run(() => new Promise<void>((resolve) => (finish = resolve)));
  const waiting = [turns.run(async () => 1), turns.run(async () => 2)];
  await assert.rejects(
    turns.run(async () => 3),
    { code: 'unavailable', retryAfter: 5 },
  );
  finish();
  await first;
  assert.deepEqual(await Promise.all(waiting), [1, 2]);
});
