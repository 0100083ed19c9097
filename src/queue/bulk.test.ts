import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine } from '../../test/support/databases.ts';
import { until } from './testing/fake-clock.ts';
import { openQueueBench, refused } from './testing/open-queue.ts';

onEachEngine('orders of operators', (engine) => {
  const order = (action: 'retry' | 'hold' | 'release', destination: string) =>
    ({ action, filter: { destination }, isDryRun: false, heldBy: 'operator' }) as const;

  test('workers pass over what is held, and attempt it once it is released', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('held.test', 2);
    const before = bench.queue();
    assert.deepEqual(await before.bulk(order('hold', 'held.test'), 'x'), {
      ...{ matched: 2, changed: 2, more: false },
    });
    const { queue, receiver } = bench.start();
    await bench.enqueue(queue, bench.delivery('other.test'));
    (await receiver.nth(0)).answer({ result: 'delivered' });
    await queue.idle();
    assert.equal(receiver.attempts.length, 1);
    assert.equal((await queue.bulk(order('release', 'held.test'), 'x')).changed, 2);
    await receiver.nth(2);
    for (const attempt of receiver.attempts.slice(1)) attempt.answer({ result: 'delivered' });
    await queue.idle();
    assert.equal(receiver.attempts.length, 3);
  });

  test('many that are tried again come to a receiver that still fails one at a time', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    await bench.fill('dead.test', 300);
    await bench.database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ status: 'failed', finished_at: bench.clock.now() })
        .where('destination', '=', 'dead.test')
        .execute(),
    );
    const { changed } = await queue.bulk(order('retry', 'dead.test'), 'x');
    assert.equal(changed, 300);
    await until(() => receiver.attempts.length > 0);
    let under = 0;
    let most = 0;
    // After the first that were leased together, one is under way until it has failed.
    for (let answered = 0; answered < 60; answered++) {
      const attempt = await receiver.nth(answered);
      under = receiver.attempts.length - answered;
      if (answered > 40) most = Math.max(most, under);
      else assert.ok(under <= 32, `${under} at a time`);
      attempt.answer(refused);
    }
    assert.equal(most, 1);
    for (let answered = 60; answered < receiver.attempts.length; answered++) {
      receiver.attempts[answered]?.answer(refused);
    }
    await queue.stop(0);
  });
});
