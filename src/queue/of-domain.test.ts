/** The deliveries of a domain that an operator suspends and resumes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine } from '../../test/support/databases.ts';
import { countOpenDeliveries } from './queue.ts';
import { until } from './testing/fake-clock.ts';
import { delivered, openQueueBench, type QueueBench, refused } from './testing/open-queue.ts';

async function setSuspended({ database, domainId }: QueueBench, at: number | null): Promise<void> {
  await database.write((tx) =>
    tx.updateTable('domains').set({ suspended_at: at }).where('id', '=', domainId).execute(),
  );
}

const statesOf = ({ database }: QueueBench) =>
  database.read
    .selectFrom('deliveries')
    .select(['status', 'held_by', 'next_attempt_at as due'])
    .orderBy('id')
    .execute();

onEachEngine('deliveries of a suspended domain', (engine) => {
  test('wait, also more than fit into one step, and go out once it is resumed', async () => {
    const bench = await openQueueBench(engine);
    const waiting = bench.queue();
    const more = Array.from({ length: 501 }, () => bench.delivery('a'));
    await bench.enqueue(waiting, ...more);
    const before = await statesOf(bench);
    assert.equal(await waiting.holdDomain(bench.domainId), 0, 'it is not suspended');
    await setSuspended(bench, 1);
    assert.equal(await waiting.holdDomain(bench.domainId), 501);
    assert.ok((await statesOf(bench)).every(({ held_by }) => held_by === 'suspension'));
    assert.equal(await countOpenDeliveries(bench.database.read, bench.domainId), 501);
    assert.equal(await waiting.releaseDomain(bench.domainId), 0, 'it is still suspended');
    await setSuspended(bench, null);
    assert.equal(await waiting.releaseDomain(bench.domainId), 501);
    assert.deepEqual(await statesOf(bench), before, 'each is due when it was due before');
  });

  test('an attempt under way goes on, and what it would repeat is held', async () => {
    const bench = await openQueueBench(engine);
    const answer = Promise.withResolvers<typeof refused>();
    let attempts = 0;
    const { queue } = bench.start({
      attempt: () => (++attempts === 1 ? answer.promise : Promise.resolve(delivered)),
    });
    await bench.enqueue(queue, bench.delivery('a'));
    await until(() => attempts === 1);
    await setSuspended(bench, 1);
    assert.equal(await queue.holdDomain(bench.domainId), 0);
    answer.resolve(refused);
    await queue.idle();
    const [held] = await statesOf(bench);
    assert.deepEqual([held?.status, held?.held_by], ['held', 'suspension']);
    await setSuspended(bench, null);
    await bench.clock.advance(3_600_000);
    assert.equal(attempts, 1);
    assert.equal(await queue.releaseDomain(bench.domainId), 1);
    await until(() => attempts === 2);
    await queue.idle();
    assert.equal((await statesOf(bench))[0]?.status, 'delivered');
  });
});
