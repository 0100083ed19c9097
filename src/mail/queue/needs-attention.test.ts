import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openQueueBench } from '../../../test/support/queue/open-queue.ts';
import { findFailingReceivers, findHeld, findRecentFailures } from './needs-attention.ts';

onEachEngine('what of the queue needs an operator', (engine) => {
  test('a receiver fails where more waits after a failure than it took lately', async () => {
    const bench = await openQueueBench(engine);
    const now = bench.clock.now();
    await bench.fill('dead.test', 5);
    await bench.fill('busy.test', 4);
    await bench.fill('untried.test', 4);
    await bench.fill('single.test', 2);
    await bench.fill('held.test', 4);
    await bench.fill('busy.test', 4);
    await bench.database.write(async (tx) => {
      await sql`update deliveries set reason = '500 no' where destination <> 'untried.test'`.execute(
        tx,
      );
      await sql`update deliveries set reason = '451 busy', created_at = ${now - 9} where id = 1`.execute(
        tx,
      );
      await sql`update deliveries set status = 'held' where destination = 'held.test'`.execute(tx);
      await sql`update deliveries set status = 'delivered', finished_at = ${now} where id > 19`.execute(
        tx,
      );
    });
    const limits = { waiting: 3, since: now - 1, receivers: 10 };
    const dead = { destination: 'dead.test', count: 5, oldestAt: now - 9, reason: '500 no' };
    assert.deepEqual(await findFailingReceivers(bench.database, limits), [dead]);
    const busy = { destination: 'busy.test', count: 4, oldestAt: now, reason: '500 no' };
    assert.deepEqual(await findFailingReceivers(bench.database, { ...limits, since: now }), [
      dead,
      busy,
    ]);
    assert.deepEqual(
      await findFailingReceivers(bench.database, { ...limits, since: now, receivers: 1 }),
      [dead],
    );
    assert.deepEqual(await findFailingReceivers(bench.database, { ...limits, waiting: 6 }), []);
  });

  test('held deliveries are told by the time since when they are', async () => {
    const bench = await openQueueBench(engine);
    const now = bench.clock.now();
    await bench.fill('a.test', 3);
    assert.deepEqual(await findHeld(bench.database, now), { count: 0, since: undefined });
    const hold = { action: 'hold', isDryRun: false, heldBy: 'operator' } as const;
    await bench.queue().bulk({ ...hold, filter: { ids: [1, 2] } }, 'test');
    assert.deepEqual(await findHeld(bench.database, now - 1), { count: 0, since: undefined });
    assert.deepEqual(await findHeld(bench.database, now), { count: 2, since: now });
  });

  test('refused mail is found among the newest deliveries, and not behind any number of others', async () => {
    const bench = await openQueueBench(engine);
    const now = bench.clock.now();
    await bench.fill('a.test', 6);
    await bench.database.write(async (tx) => {
      await sql`update deliveries set kind = 'send', reason = '554 listed', created_at = ${now} + id`.execute(
        tx,
      );
      await sql`update deliveries set kind = 'webhook' where id = 6`.execute(tx);
      await sql`update deliveries set reason = null where id = 5`.execute(tx);
      await sql`update deliveries set status = 'failed', finished_at = ${now} where id <= 2`.execute(
        tx,
      );
    });
    const found = async (since: number, looked: number) =>
      (await findRecentFailures(bench.database, since, looked)).map(
        ({ createdAt }) => createdAt - now,
      );
    assert.deepEqual(await found(now, 9), [2, 1, 4, 3]);
    assert.deepEqual(await found(now + 4, 9), [4]);
    assert.deepEqual(await found(now, 3), [2, 1, 4]);
    assert.deepEqual(await found(now, 2), [2, 1]);
  });
});
