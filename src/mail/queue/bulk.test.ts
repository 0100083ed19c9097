import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { until } from '../../../test/support/queue/fake-clock.ts';
import {
  delivered,
  gone,
  insertDomain,
  KIND,
  openQueueBench,
  type QueueBench,
  refused,
  rowWhen,
} from '../../../test/support/queue/open-queue.ts';
import type { Queries } from '../../platform/database/database.ts';
import { DAY_MS, untilDone } from '../../platform/time/time.ts';
import type { TraceEvent } from '../trace/trace.ts';
import { type BulkPosition, countOpenDeliveries, type QueueFilter } from './queue.ts';

/** Records what the next queues of the bench write to the trace. */
function keepTrace(bench: QueueBench): TraceEvent[] {
  const traced: TraceEvent[] = [];
  bench.trace = { write: async (_tx, events) => void traced.push(...events) };
  return traced;
}

onEachEngine('orders of operators', (engine) => {
  const order = (action: 'retry' | 'hold' | 'release', destination: string) =>
    ({ action, filter: { destination }, isDryRun: false, heldBy: 'operator' }) as const;

  test('workers skip held deliveries, and attempt them after their release', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('held.test', 2);
    const before = bench.queue();
    assert.deepEqual(await before.bulk(order('hold', 'held.test'), 'x'), {
      matched: 2,
      changed: 2,
      skipped: {},
      more: false,
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

  test('tell the owner of what was dropped, but of no kind that does so itself', async () => {
    const bench = await openQueueBench(engine);
    const { queue } = bench.start();
    await queue.idle();
    const at = { notBefore: bench.clock.now() + 1_000, recipients: ['a@dropped.test'] };
    const [id] = await bench.enqueue(queue, bench.delivery('dropped.test', at));
    const drop = { action: 'drop', isDryRun: false, heldBy: 'operator' } as const;
    await queue.bulk({ ...drop, filter: { destination: 'dropped.test' } }, 'x');
    const other = bench.start({ tellsEnds: true }).queue;
    await other.idle();
    await bench.enqueue(other, bench.delivery('silent.test', at));
    await other.bulk({ ...drop, filter: { destination: 'silent.test' } }, 'x');
    const rows = await bench.database.read.selectFrom('events').selectAll().execute();
    assert.deepEqual(
      rows.map(({ type, user_id, data }) => [type, user_id, JSON.parse(data)]),
      [
        [
          'delivery.failed',
          'user',
          {
            delivery_id: id,
            kind: KIND,
            destination: 'dropped.test',
            detail: 'dropped by the operator of the service',
            recipient: 'a@dropped.test',
          },
        ],
      ],
    );
  });

  test('many retried deliveries reach a receiver that still fails one at a time', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    // Its look at the start would find the rows while they are still queued.
    await queue.idle();
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
    // After the first batch that was leased, one is under way until it has failed.
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

  test('an order goes on where its call before ended, and sees each row once', async () => {
    const bench = await openQueueBench(engine);
    const other = await insertDomain(bench.database, 'other.test');
    const queue = bench.queue();
    await bench.fill((n) => `host${n % 2}.test`, 3_200);
    await bench.database.write(async (tx) => {
      await sql`update deliveries set domain_id = ${other} where id > 2000`.execute(tx);
      await sql`update deliveries set status = 'held', held_by = 'operator' where id % 4 = 0`.execute(
        tx,
      );
    });
    const domainIds = [bench.domainId, other];
    const filters: readonly QueueFilter[] = [
      { domainIds },
      { kind: KIND },
      { destination: 'host1.test' },
      { destination: 'host1.test', domainIds },
    ];
    for (const filter of filters) {
      const request = { filter, isDryRun: true, heldBy: 'operator', action: 'drop' } as const;
      const whole = await queue.bulk(request, 'x');
      let calls = 0;
      const sum = await untilDone<BulkPosition>((next) => {
        calls += 1;
        return queue.bulk({ ...request, longestMs: 0, ...next }, 'x');
      });
      assert.equal(sum.matched, whole.matched);
      assert.equal(whole.matched, filter.destination ? 1_600 : 3_200);
      assert.ok(calls > 1, `${calls} calls`);
    }
    // What a call changes does not move the rows that are left.
    const drop = { filter: { domainIds }, isDryRun: false, heldBy: 'operator' } as const;
    const done = await untilDone<BulkPosition>((next) =>
      queue.bulk({ ...drop, action: 'drop', longestMs: 0, ...next }, 'x'),
    );
    assert.deepEqual(done, { matched: 3_200, changed: 3_200, skipped: {} });
  });

  test('a delivery that was attempted after the order was given is not retried by it', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('dead.test', 3);
    const now = bench.clock.now();
    const set = (updated_at: number) =>
      bench.database.write((tx) =>
        tx
          .updateTable('deliveries')
          .set({ attempts: 1, next_attempt_at: now + 60_000, updated_at })
          .execute(),
      );
    await set(now + 1);
    assert.equal((await bench.queue().bulk(order('retry', 'dead.test'), 'x')).changed, 0);
    await set(now - 1);
    assert.equal((await bench.queue().bulk(order('retry', 'dead.test'), 'x')).changed, 3);
  });

  test('a delivery that was attempted before the clock was set back is retried', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('dead.test', 1);
    const tomorrow = bench.clock.now() + DAY_MS;
    await bench.database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ attempts: 1, next_attempt_at: tomorrow + 60_000, updated_at: tomorrow })
        .execute(),
    );
    assert.equal((await bench.queue().bulk(order('retry', 'dead.test'), 'x')).changed, 1);
  });

  test('the retry of a single delivery is noted in the trace', async () => {
    const bench = await openQueueBench(engine);
    const traced = keepTrace(bench);
    const { queue, receiver } = bench.start();
    const [id = 0] = await bench.enqueue(queue, bench.delivery('a', { mailId: 'mail' }));
    (await receiver.nth(0)).answer(gone);
    await queue.idle();
    traced.length = 0;
    assert.equal((await queue.retry(bench.domainId, id, 'ann'))?.status, 'queued');
    const { recipient, webhookId, ...retried } = traced[0] ?? assert.fail();
    assert.equal(recipient, null);
    assert.ok(webhookId);
    assert.deepEqual(retried, {
      mailId: 'mail',
      event: 'retried',
      deliveryId: id,
      detail: 'by ann',
    });
    const { answer } = await receiver.nth(1);
    await queue.retry(bench.domainId, id, 'ann');
    assert.equal(traced.length, 1, 'one that is being attempted is left to its attempt');
    answer(delivered);
    await queue.idle();
  });
});

onEachEngine('deliveries of a suspended domain', (engine) => {
  const suspend = (tx: Queries, { domainId }: QueueBench, at: number | null) =>
    tx.updateTable('domains').set({ suspended_at: at }).where('id', '=', domainId).execute();
  const setSuspended = (bench: QueueBench, at: number | null) =>
    bench.database.write((tx) => suspend(tx, bench, at));
  const order = ({ domainId }: QueueBench, action: 'hold' | 'release') => {
    const filter = { domainIds: [domainId] };
    return { action, filter, isDryRun: false, heldBy: 'suspension' } as const;
  };
  const statesOf = ({ database }: QueueBench) =>
    database.read
      .selectFrom('deliveries')
      .select(['status', 'held_by', 'next_attempt_at as due'])
      .orderBy('id')
      .execute();

  test('wait until it is resumed, each with its due time', async () => {
    const bench = await openQueueBench(engine);
    const queue = bench.queue();
    await bench.fill('a', 250);
    const before = await statesOf(bench);
    assert.equal((await queue.bulk(order(bench, 'hold'), 'x')).changed, 0, 'it is not suspended');
    await setSuspended(bench, 1);
    const all = { matched: 250, changed: 250, skipped: {}, more: false };
    assert.deepEqual(await queue.bulk(order(bench, 'hold'), 'x'), all);
    assert.ok((await statesOf(bench)).every(({ held_by }) => held_by === 'suspension'));
    assert.equal(await countOpenDeliveries(bench.database.read, bench.domainId), 250);
    await setSuspended(bench, null);
    assert.deepEqual(await queue.bulk(order(bench, 'release'), 'x'), all);
    assert.deepEqual(await statesOf(bench), before);
  });

  test('are not attempted, also those that are queued after the others were held', async () => {
    const bench = await openQueueBench(engine);
    const traced = keepTrace(bench);
    const { queue, receiver } = bench.start();
    await bench.enqueue(queue, bench.delivery('a'));
    const attempt = await receiver.nth(0);
    await setSuspended(bench, 1);
    assert.equal((await queue.bulk(order(bench, 'hold'), 'x')).changed, 0, 'it is under way');
    attempt.answer(refused);
    await queue.idle();
    await bench.enqueue(queue, bench.delivery('a', { mailId: 'late' }), bench.delivery('b'));
    await queue.idle();
    await bench.clock.advance(60_000);
    await queue.idle();
    assert.equal(receiver.attempts.length, 1);
    assert.deepEqual(
      (await statesOf(bench)).map(({ status, held_by }) => [status, held_by]),
      Array.from({ length: 3 }, () => ['held', 'suspension']),
    );
    const late = traced.filter(({ mailId }) => mailId === 'late');
    assert.deepEqual(
      late.map(({ event, detail }) => [event, detail]),
      [['held', 'by the suspension of its domain']],
    );
    receiver.respond = () => delivered;
    await setSuspended(bench, null);
    assert.equal((await queue.bulk(order(bench, 'release'), 'x')).changed, 3);
    await until(() => receiver.attempts.length === 4);
    await queue.idle();
    assert.ok((await statesOf(bench)).every(({ status }) => status === 'delivered'));
  });

  test('are not held by a lease that waited for the end of the suspension', {
    skip: engine === 'sqlite' && 'it writes one transaction after the other',
  }, async () => {
    const bench = await openQueueBench(engine);
    await setSuspended(bench, 1);
    const { queue, receiver } = bench.start();
    receiver.respond = () => delivered;
    await bench.database.write(async (tx) => {
      await suspend(tx, bench, null);
      await bench.enqueue(queue, bench.delivery('a'));
      for (let looks = 0; looks < 100; looks++) {
        const { rows } = await sql`
          select pid from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))
        `.execute(tx);
        if (rows.length > 0) return;
        await pause(20);
      }
    });
    assert.equal((await rowWhen(bench, ({ status }) => status !== 'queued')).status, 'delivered');
    await queue.idle();
  });
});
