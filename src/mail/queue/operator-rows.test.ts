import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { twiceAtOnce } from '../../../test/support/at-once.ts';
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
import { findBodyOf, pruneDeliveries, readDepths, removeDeliveriesOf } from './operator-rows.ts';
import { payloadFormat, type Queue } from './queue.ts';

const SECOND = 1_000;

onEachEngine('deliveries that cannot be read', (engine) => {
  const texts = payloadFormat(1, Type.Object({ text: Type.String() }));

  /** A row whose payload another release wrote. */
  async function enqueueRaw(bench: QueueBench, queue: Queue, payload: string): Promise<number> {
    const [id = 0] = await bench.enqueue(queue, bench.delivery('a', { payload }));
    return id;
  }

  test('are reported and kept, never attempted again, and delay no other', async () => {
    const bench = await openQueueBench(engine);
    const attempts: string[] = [];
    const { queue } = bench.start({
      payloads: { read: (json) => texts.read(json).text },
      attempt: async ({ payload }) => {
        attempts.push(payload);
        return delivered;
      },
      onOutcome: async (_tx, { payload }) => {
        assert.equal(payload, 'good');
        return undefined;
      },
    });
    const unreadable = [
      ['{"v":2,"text":"newer"}', 'the payload is of version 2, this program reads version 1'],
      ['{"text":"older"}', 'the payload is of version undefined, this program reads version 1'],
      ['{"v":1,"text":7}', 'the payload is not valid: /text must be string'],
      ['{"v":1', 'the payload is not JSON'],
      ['', 'the payload is not JSON'],
      ['null', 'the payload is of version undefined, this program reads version 1'],
    ] as const;
    const ids: number[] = [];
    for (const [payload] of unreadable) ids.push(await enqueueRaw(bench, queue, payload));
    await enqueueRaw(bench, queue, texts.write({ text: 'good' }));
    await until(() => bench.logged.length === unreadable.length && attempts.length === 1);
    await queue.idle();
    assert.deepEqual(attempts, ['good']);
    for (const [index, [, reason]] of unreadable.entries()) {
      const found = await queue.find(bench.domainId, ids[index] ?? 0);
      assert.deepEqual(
        [found?.status, found?.attempts, found?.lastError, found?.nextAttemptAt],
        ['held', 0, { text: reason }, undefined],
      );
      const { fields, message } =
        bench.logged.find(({ fields: { id } }) => id === ids[index]) ?? {};
      assert.match(message ?? '', /a delivery is held/);
      assert.equal(fields?.reason, reason);
    }
    // Neither time nor a restart changes them.
    await queue.stop(0);
    await bench.clock.advance(40 * 86_400 * SECOND);
    const next = bench.start({ payloads: { read: (json) => texts.read(json).text } });
    await bench.clock.advance(600 * SECOND);
    const pruned = await bench.remove((tx) => pruneDeliveries(tx, bench.clock.now()));
    assert.equal(pruned, 1, 'the good one');
    const held = await next.queue.list({
      domainId: bench.domainId,
      status: 'held',
      limit: 10,
      offset: 0,
    });
    assert.equal(held.length, unreadable.length);
    assert.equal(bench.logged.length, unreadable.length);
    assert.equal(next.receiver.attempts.length, 0);
  });

  test('continues after a manual retry with a program that can read it', async () => {
    const bench = await openQueueBench(engine);
    const old = bench.start({ payloads: { read: (json) => texts.read(json).text } });
    const id = await enqueueRaw(bench, old.queue, '{"v":2,"text":"newer"}');
    await rowWhen(bench, ({ status }) => status === 'held');
    await old.queue.stop(0);
    const { queue, receiver } = bench.start();
    await queue.idle();
    assert.equal(receiver.attempts.length, 0);
    assert.equal((await queue.retry(bench.domainId, id, 'test'))?.status, 'queued');
    const { job, answer } = await receiver.nth(0);
    assert.deepEqual(
      [job.payload, job.isFirst, job.isReplay],
      ['{"v":2,"text":"newer"}', true, false],
    );
    answer(delivered);
    await rowWhen(bench, ({ status }) => status === 'delivered');
  });

  test('an attempt may find that it cannot be made', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start({
      onOutcome: () => Promise.reject(new Error('nothing follows')),
    });
    await bench.enqueue(queue, bench.delivery('a'));
    (await receiver.nth(0)).answer({ result: 'held', error: { text: 'the body is gone' } });
    const row = await rowWhen(bench, ({ status }) => status === 'held');
    assert.equal(row.last_error, '{"text":"the body is gone"}');
    assert.deepEqual([row.finished_at, row.lease_owner], [null, null]);
  });

  test('a delivery with an unreadable error is listed', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    receiver.respond = () => refused;
    await bench.enqueue(queue, bench.delivery('a'));
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    for (const last_error of ['{', 'null', '{"text":1}', '{"status":"x","text":"y"}']) {
      await bench.database.write((tx) =>
        tx.updateTable('deliveries').set({ last_error }).execute(),
      );
      const [listed] = await queue.list({ domainId: bench.domainId, limit: 10, offset: 0 });
      assert.deepEqual(listed?.lastError, { text: 'the error that is stored cannot be read' });
    }
    await queue.idle();
  });
});

onEachEngine('queue for operators', (engine) => {
  test('a replay has the same id, payload and body, and the whole schedule again', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start({ delays: [5] });
    const [id = 0] = await bench.enqueue(queue, bench.delivery('a'));
    const { job, answer } = await receiver.nth(0);
    answer(delivered);
    await queue.idle();
    const replayed = await queue.retry(bench.domainId, id, 'test');
    assert.equal(replayed?.status, 'queued');
    assert.equal(replayed?.attempts, 0);
    const again = await receiver.nth(1);
    assert.deepEqual(again.job, { ...job, isFirst: false, isReplay: true });
    assert.equal((await queue.retry(bench.domainId, id, 'test'))?.nextAttemptAt, undefined);
    again.answer(refused);
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await queue.idle();
    assert.equal((await queue.retry(bench.domainId, id, 'test'))?.status, 'queued');
    assert.equal((await receiver.nth(2)).job.attempt, 1, 'not before the schedule says, but now');
  });

  test('the manual retry of a delivery before its end is no first attempt, and no replay', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    receiver.respond = () => refused;
    const [id = 0] = await bench.enqueue(queue, bench.delivery('a'));
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await queue.idle();
    await queue.retry(bench.domainId, id, 'test');
    const { attempt, isFirst, isReplay } = (await receiver.nth(1)).job;
    assert.deepEqual(
      { attempt, isFirst, isReplay },
      { attempt: 1, isFirst: false, isReplay: false },
    );
    await queue.idle();
  });

  test('a domain sees only its own deliveries, in pages and by status', async () => {
    const bench = await openQueueBench(engine);
    const other = await insertDomain(bench.database, 'other.test');
    const { queue, receiver } = bench.start();
    receiver.respond = ({ destination }) => (destination === 'bad' ? gone : delivered);
    const deliveries = ['a', 'bad', 'b', 'c'].map((name) => bench.delivery(name));
    const [first = 0] = await bench.enqueue(queue, ...deliveries);
    await queue.idle();
    const list = async (domainId: number, status?: 'failed', limit = 10, offset = 0) =>
      (await queue.list({ domainId, status, limit, offset })).map(({ destination }) => destination);
    assert.deepEqual(await list(bench.domainId), ['a', 'bad', 'b', 'c']);
    assert.deepEqual(await list(bench.domainId, 'failed'), ['bad']);
    assert.deepEqual(await list(bench.domainId, undefined, 2, 1), ['bad', 'b']);
    const [oldest] = await queue.list({ domainId: bench.domainId, limit: 1, offset: 0 });
    const behind = { domainId: bench.domainId, limit: 2, offset: 0, after: oldest?.id ?? 0 };
    assert.deepEqual(
      (await queue.list(behind)).map(({ destination }) => destination),
      ['bad', 'b'],
    );
    assert.deepEqual(await list(other), []);
    assert.equal(await queue.find(other, first), undefined);
    assert.equal(await queue.retry(other, first, 'test'), undefined);
    assert.equal((await queue.find(bench.domainId, first))?.status, 'delivered');
    const failed = await queue.list({
      domainId: bench.domainId,
      status: 'failed',
      limit: 1,
      offset: 0,
    });
    assert.deepEqual(failed[0]?.lastError, { status: 410, text: 'gone' });
  });

  test('old ended deliveries are pruned with their bodies, queued ones stay', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    receiver.respond = ({ destination }) => (destination === 'a' ? delivered : refused);
    const [, queued = 0] = await bench.enqueue(queue, bench.delivery('a'), bench.delivery('b'));
    await until(() => receiver.attempts.length === 2);
    await queue.idle();
    const publicId = receiver.attempts[0]?.job.publicId ?? '';
    assert.equal(await findBodyOf(bench.database.read, publicId), bench.bodyId);
    const end = bench.clock.now();
    const prune = (before: number) => bench.remove((tx) => pruneDeliveries(tx, before));
    assert.equal(await prune(end), 0);
    assert.equal(await prune(end + 1), 1);
    const left = await queue.list({ domainId: bench.domainId, limit: 10, offset: 0 });
    assert.deepEqual(
      left.map(({ id }) => id),
      [queued],
    );
    assert.ok(await bench.bodies.find(bench.bodyId), 'the other still needs it');
    await bench.clock.advance(5 * SECOND);
    await until(() => receiver.attempts.length === 3);
    await queue.idle();
    await bench.database.write((tx) => queue.withdraw(tx, queued));
    await bench.database.write((tx) => bench.bodies.release(tx, [bench.bodyId]));
    const payloads = await bench.database.read
      .selectFrom('delivery_payloads')
      .selectAll()
      .execute();
    assert.deepEqual(payloads, []);
    assert.equal(await bench.bodies.find(bench.bodyId), undefined);
  });

  test('deleting a domain drops its deliveries, also one that is being attempted', async () => {
    const bench = await openQueueBench(engine);
    let outcomes = 0;
    const { queue, receiver } = bench.start({
      async onOutcome() {
        outcomes++;
        return undefined;
      },
    });
    await bench.enqueue(queue, bench.delivery('a'), bench.delivery('b'));
    const { answer } = await receiver.nth(0);
    await receiver.nth(1);
    const remove = async (tx: Queries) => (await removeDeliveriesOf(tx, bench.domainId)).bodyIds;
    assert.equal(await bench.remove(remove), 2);
    assert.deepEqual(await bench.database.read.selectFrom('deliveries').selectAll().execute(), []);
    assert.equal(await bench.bodies.find(bench.bodyId), undefined);
    answer(delivered);
    await until(() => bench.logged.length === 1);
    assert.equal(outcomes, 0);
  });

  test('deliveries of a domain are removed some at a time, waiting ones first', async () => {
    const bench = await openQueueBench(engine);
    const queue = bench.queue();
    const other = await insertDomain(bench.database, 'other.test');
    await bench.enqueue(queue, bench.delivery('kept', { domainId: other }));
    await bench.fill('ended', 150);
    await bench.database.write((tx) =>
      tx.updateTable('deliveries').set({ status: 'delivered', finished_at: 1 }).execute(),
    );
    await bench.fill('waiting', 200);
    const counted = () =>
      bench.database.read
        .selectFrom('deliveries')
        .select((eb) => ['destination', eb.fn.countAll<number>().as('count')])
        .groupBy('destination')
        .orderBy('destination')
        .execute();
    const removeSome = () => bench.database.write((tx) => removeDeliveriesOf(tx, bench.domainId));
    assert.equal((await removeSome()).bodyIds.length, 200);
    const kept = { destination: 'kept', count: 1 };
    assert.deepEqual(await counted(), [{ destination: 'ended', count: 150 }, kept]);
    assert.equal((await removeSome()).bodyIds.length, 150);
    assert.deepEqual(await removeSome(), { found: 0, bodyIds: [] });
    assert.deepEqual(await counted(), [kept]);
  });

  test('of two nodes that remove the same deliveries at once, none takes the rest for removed', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('a', 250);
    const remove = (tx: Queries) => removeDeliveriesOf(tx, bench.domainId);
    const { found } = await twiceAtOnce(bench.database, remove);
    assert.notEqual(found, 0);
  });

  test('the number of open deliveries of each kind, and the age of the oldest', async () => {
    const bench = await openQueueBench(engine);
    const queue = bench.queue();
    assert.deepEqual(await readDepths(bench.database.read), []);
    const start = bench.clock.now();
    await bench.enqueue(queue, bench.delivery('a'));
    await bench.clock.advance(1_000);
    await bench.enqueue(queue, bench.delivery('b'), bench.delivery('c', { kind: 'other' }));
    const depths = await readDepths(bench.database.read);
    assert.deepEqual(
      [...depths].sort((a, b) => a.kind.localeCompare(b.kind)),
      [
        {
          kind: 'other',
          state: 'queued',
          count: 1,
          oldestCreatedAt: start + 1_000,
          nextAttemptAt: start + 1_000,
        },
        {
          kind: KIND,
          state: 'queued',
          count: 2,
          oldestCreatedAt: start,
          nextAttemptAt: start,
        },
      ],
    );
  });
});
