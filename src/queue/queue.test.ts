import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { onEachEngine } from '../../test/support/databases.ts';
import type { Database, Row } from '../database/database.ts';
import { type Job, payloadFormat, type Queue, type Settled, type WorkOptions } from './queue.ts';
import { turns, until } from './testing/fake-clock.ts';
import {
  type Attempt,
  DELAYS,
  delivered,
  gone,
  insertDomain,
  KIND,
  openQueueBench,
  type QueueBench,
  refused,
} from './testing/open-queue.ts';

const SECOND = 1_000;

/** The only row there is, once the condition holds for it. */
async function rowWhen({ database }: QueueBench, holds: (row: Row<'deliveries'>) => boolean) {
  for (;;) {
    const row = await database.read.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow();
    if (holds(row)) return row;
    await turns();
  }
}

onEachEngine('queue', (engine) => {
  test('a delivery is attempted at once, with what was queued, and ends', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    const publicId = crypto.randomUUID();
    const payload = JSON.stringify({ text: 'ä\u0000"\ud800', n: 1 });
    const [id] = await bench.enqueue(queue, bench.delivery('a', { publicId, payload }));
    const { job, answer } = await receiver.nth(0);
    assert.deepEqual(job, {
      id,
      publicId,
      domainId: bench.domainId,
      destination: 'a',
      bodyId: bench.bodyId,
      payload,
      attempt: 1,
      isFirst: true,
      isLast: false,
      isReplay: false,
      createdAt: bench.clock.now(),
    });
    answer(delivered);
    await queue.idle();
    const [listed] = await queue.list({ domainId: bench.domainId, limit: 10, offset: 0 });
    assert.deepEqual(listed, {
      id,
      publicId,
      kind: KIND,
      destination: 'a',
      status: 'delivered',
      attempts: 1,
      createdAt: bench.clock.now(),
      updatedAt: bench.clock.now(),
      finishedAt: bench.clock.now(),
    });
    assert.deepEqual(bench.logged, []);
  });

  test('what was queued without a wake, or before the start, is found', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('a', 2);
    const { queue, receiver } = bench.start();
    receiver.respond = () => delivered;
    await receiver.nth(1);
    await queue.idle();
    await bench.fill('b', 1);
    await bench.clock.advance(60 * SECOND);
    assert.equal((await receiver.nth(2)).job.destination, 'b');
  });

  const DAY = 86_400 * SECOND;

  test('a clock that goes back makes nobody wait for longer than some seconds more', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    receiver.respond = () => refused;
    await bench.enqueue(queue, bench.delivery('a'));
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await queue.idle();
    bench.clock.set(-DAY);
    // The clock is looked at every six seconds; from then on it is five.
    await bench.clock.advance(6 * SECOND);
    await queue.idle();
    await bench.clock.advance(5 * SECOND);
    await receiver.nth(1);
    await rowWhen(bench, ({ attempts }) => attempts === 2);
    assert.match(bench.logged[0]?.message ?? '', /the clock went back/);
    await queue.idle();
    await bench.clock.advance(59 * SECOND);
    assert.equal(receiver.attempts.length, 2, 'the schedule holds');
    await bench.clock.advance(1 * SECOND);
    await receiver.nth(2);
    assert.equal(bench.logged.length, 1);
    await queue.idle();
  });

  test('nor one that was ahead when the last process ran', async () => {
    const bench = await openQueueBench(engine);
    bench.clock.set(365 * DAY);
    const first = bench.start();
    const failing = first.receiver;
    failing.respond = () => refused;
    await bench.enqueue(first.queue, bench.delivery('failed'));
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await first.queue.idle();
    failing.respond = () => undefined;
    await bench.enqueue(first.queue, bench.delivery('under way'));
    await failing.nth(1);
    first.kill();
    // Nobody heard of this one.
    await bench.enqueue(bench.queue(), bench.delivery('new'));
    bench.clock.set(-365 * DAY);
    const { receiver } = bench.start();
    receiver.respond = () => delivered;
    // A dead worker's lease ends in time: on SQLite at the start, elsewhere after 20 s.
    await bench.clock.advance(30 * SECOND);
    await until(() => receiver.attempts.length === 3);
    assert.deepEqual(receiver.attempts.map(({ job }) => job.destination).sort(), [
      'failed',
      'new',
      'under way',
    ]);
  });

  test('an instant that was asked for stays, wherever the clock goes', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    const notBefore = bench.clock.now() + 100 * SECOND;
    await bench.enqueue(queue, bench.delivery('a', { notBefore }));
    await queue.idle();
    bench.clock.set(-60 * SECOND);
    await bench.clock.advance(110 * SECOND);
    assert.equal(receiver.attempts.length, 0);
    await bench.clock.advance(60 * SECOND);
    await receiver.nth(0);
    assert.ok(bench.clock.now() >= notBefore);
  });

  test('the lease of an attempt under way holds while the clock goes', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    await bench.enqueue(queue, bench.delivery('a'));
    const { answer } = await receiver.nth(0);
    for (const ms of [-DAY, DAY, -DAY]) {
      bench.clock.set(ms);
      for (let n = 0; n < 5; n++) {
        await bench.clock.advance(6 * SECOND);
      }
    }
    assert.equal(receiver.attempts.length, 1);
    answer(delivered);
    await rowWhen(bench, ({ status }) => status === 'delivered');
  });

  test('a transaction that fails queues nothing', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    await assert.rejects(
      bench.database.write(async (tx) => {
        await queue.enqueue(tx, bench.delivery('a'));
        throw new Error('the message could not be stored');
      }),
    );
    queue.wake([bench.delivery('a')]);
    await queue.idle();
    assert.equal(receiver.attempts.length, 0);
  });

  test('attempts come at the times of the schedule; after the last it has failed', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    receiver.respond = () => refused;
    const start = bench.clock.now();
    await bench.enqueue(queue, bench.delivery('a'));
    await receiver.nth(0);
    const times: number[] = [];
    for (const [index, delay] of DELAYS.entries()) {
      const row = await rowWhen(bench, ({ attempts }) => attempts === index + 1);
      assert.equal(row.status, 'queued');
      times.push(row.next_attempt_at - bench.clock.now());
      await queue.idle();
      await bench.clock.advance(delay * SECOND - 1);
      assert.equal(receiver.attempts.length, index + 1, 'not a moment too early');
      await bench.clock.advance(1);
      const { job } = await receiver.nth(index + 1);
      assert.equal(job.attempt, index + 2);
      assert.equal(job.isLast, index === DELAYS.length - 1);
    }
    assert.deepEqual(
      times,
      DELAYS.map((delay) => delay * SECOND),
    );
    const row = await rowWhen(bench, ({ status }) => status === 'failed');
    assert.equal(row.attempts, 4);
    assert.equal(row.finished_at, start + DELAYS.reduce((sum, delay) => sum + delay) * SECOND);
    assert.deepEqual(JSON.parse(row.last_error ?? ''), { status: 500, text: 'no' });
    await bench.clock.advance(300 * SECOND);
    assert.equal(receiver.attempts.length, 4);
  });

  test('Retry-After puts the next attempt off, a permanent failure ends it', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    await bench.enqueue(queue, bench.delivery('a'));
    (await receiver.nth(0)).answer({ ...refused, retryAfterSeconds: 120 });
    const { next_attempt_at } = await rowWhen(bench, ({ attempts }) => attempts === 1);
    assert.equal(next_attempt_at, bench.clock.now() + 120 * SECOND);
    await queue.idle();
    await bench.clock.advance(120 * SECOND);
    (await receiver.nth(1)).answer(gone);
    const row = await rowWhen(bench, ({ status }) => status === 'failed');
    assert.equal(row.attempts, 2);
  });

  test('a delivery may be put off, and withdrawn until it is attempted', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    const notBefore = bench.clock.now() + 16 * SECOND;
    const [first = 0, second = 0] = await bench.enqueue(
      queue,
      bench.delivery('a', { notBefore }),
      bench.delivery('b', { notBefore }),
    );
    const withdraw = (id: number) => bench.database.write((tx) => queue.withdraw(tx, id));
    await queue.idle();
    await bench.clock.advance(15_999);
    assert.equal(receiver.attempts.length, 0);
    assert.equal(await withdraw(first), true);
    assert.equal(await withdraw(first), false);
    await bench.clock.advance(1);
    assert.equal((await receiver.nth(0)).job.id, second);
    assert.equal(await withdraw(second), false, 'it is being attempted');
  });

  test('what follows an outcome is in its transaction, and is done after a failure of it', async () => {
    const bench = await openQueueBench(engine);
    let failures = 2;
    const seen: [Job, Settled][] = [];
    let committed = 0;
    const { queue, receiver } = bench.start({
      delays: [5],
      async onOutcome(tx, job, settled) {
        const name = `${settled.status} ${job.attempt}`;
        await tx.insertInto('counters').values({ name, value: 1 }).execute();
        if (settled.status === 'failed' && failures-- > 0) throw new Error('the disk is full');
        seen.push([job, settled]);
        return () => {
          committed++;
        };
      },
    });
    receiver.respond = () => refused;
    await bench.enqueue(queue, bench.delivery('a'));
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await queue.idle();
    assert.equal(committed, 1);
    await bench.clock.advance(5 * SECOND);
    await until(() => bench.logged.length === 1);
    await bench.clock.advance(500);
    await until(() => bench.logged.length === 2);
    const before = await bench.database.read.selectFrom('counters').selectAll().execute();
    assert.deepEqual(
      before.map(({ name }) => name),
      ['queued 1'],
    );
    assert.equal((await rowWhen(bench, () => true)).status, 'queued');
    await bench.clock.advance(1_000);
    const row = await rowWhen(bench, ({ status }) => status === 'failed');
    assert.equal(row.attempts, 2);
    await queue.idle();
    assert.equal(receiver.attempts.length, 2, 'the receiver heard nothing of it');
    assert.equal(committed, 2);
    assert.deepEqual(
      seen.map(([job, { status }]) => [job.attempt, job.isLast, status]),
      [
        [1, false, 'queued'],
        [2, true, 'failed'],
      ],
    );
  });

  test('an outcome that cannot be stored at all puts the next attempt far off', async () => {
    const bench = await openQueueBench(engine);
    let broken = true;
    const { queue, receiver } = bench.start({
      async onOutcome() {
        if (broken) throw new Error('a bug');
        return undefined;
      },
    });
    receiver.respond = () => delivered;
    await bench.enqueue(queue, bench.delivery('a'));
    await receiver.nth(0);
    for (const [tries, pause] of [500, 1_000, 2_000, 4_000, 8_000].entries()) {
      await until(() => bench.logged.length === tries + 1);
      await bench.clock.advance(pause);
    }
    const row = await rowWhen(bench, ({ lease_owner }) => lease_owner === null);
    assert.equal(row.attempts, 0);
    assert.ok(row.next_attempt_at > bench.clock.now() + 200 * SECOND);
    await queue.idle();
    broken = false;
    await bench.clock.advance(300 * SECOND);
    const { attempt, isFirst } = (await receiver.nth(1)).job;
    assert.deepEqual({ attempt, isFirst }, { attempt: 1, isFirst: true });
    await rowWhen(bench, ({ status }) => status === 'delivered');
  });

  test('an attempt that throws is a temporary failure', async () => {
    const bench = await openQueueBench(engine);
    const { queue } = bench.start({
      attempt: async () => {
        throw new Error('a bug');
      },
    });
    await bench.enqueue(queue, bench.delivery('a'));
    const row = await rowWhen(bench, ({ attempts }) => attempts === 1);
    assert.equal(row.status, 'queued');
    assert.equal(
      bench.logged[0]?.message,
      'a delivery attempt failed unexpectedly: it counts as a temporary failure',
    );
    await queue.idle();
  });

  test('a last attempt that throws ends nothing, and comes again', async () => {
    const bench = await openQueueBench(engine);
    let isBroken = true;
    let ends = 0;
    const { queue } = bench.start({
      delays: [5, 600],
      attempt: async ({ isLast }) => {
        if (isLast && isBroken) throw new Error('a bug');
        return refused;
      },
      onOutcome: async (_tx, _job, { status }) => {
        if (status === 'failed') ends++;
        return undefined;
      },
    });
    await bench.enqueue(queue, bench.delivery('a'));
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await queue.idle();
    await bench.clock.advance(5 * SECOND);
    await rowWhen(bench, ({ attempts }) => attempts === 2);
    await queue.idle();
    await bench.clock.advance(600 * SECOND);
    const row = await rowWhen(bench, ({ last_error }) => /internal/.test(last_error ?? ''));
    assert.deepEqual([row.status, row.attempts, ends], ['queued', 3, 0]);
    assert.equal(row.next_attempt_at, bench.clock.now() + 600 * SECOND);
    await queue.idle();
    isBroken = false;
    await bench.clock.advance(600 * SECOND);
    const ended = await rowWhen(bench, ({ status }) => status === 'failed');
    assert.deepEqual([ended.attempts, ends], [4, 1]);
    await queue.idle();
  });

  test('a last attempt that throws again and again is held at last', async () => {
    const bench = await openQueueBench(engine);
    let attempts = 0;
    const { queue } = bench.start({
      delays: [],
      attempt: async () => {
        attempts++;
        throw new Error('a bug');
      },
      onOutcome: () => Promise.reject(new Error('nothing follows')),
    });
    await bench.enqueue(queue, bench.delivery('a'));
    for (let n = 1; n <= 6; n++) {
      await until(() => attempts === n);
      await queue.idle();
      await bench.clock.advance(300 * SECOND);
    }
    const row = await rowWhen(bench, ({ status }) => status === 'held');
    assert.match(row.last_error ?? '', /internal error/);
    await bench.clock.advance(600 * SECOND);
    assert.equal(attempts, 6);
  });

  test('a lease that finds nothing writes nothing', async () => {
    const bench = await openQueueBench(engine);
    let writes = 0;
    const { write } = bench.database;
    const database: Database = {
      ...bench.database,
      write: (work) => {
        writes++;
        return write(work);
      },
    };
    const queue = bench.queue(undefined, database);
    queue.work({
      kind: KIND,
      payloads: { read: String },
      delays: [],
      attempt: async () => delivered,
    });
    await queue.idle();
    const atStart = writes;
    queue.wake([bench.delivery('a'), bench.delivery('b')]);
    await queue.idle();
    for (let n = 0; n < 10; n++) await bench.clock.advance(60 * SECOND);
    await queue.idle();
    assert.equal(writes, atStart);
    await bench.enqueue(queue, bench.delivery('a'));
    await rowWhen(bench, ({ status }) => status === 'delivered');
    await queue.idle();
    assert.equal(writes, atStart + 2, 'the lease and the outcome');
  });

  test('a delivery that hangs keeps its lease; no other worker takes it', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    await bench.enqueue(queue, bench.delivery('a'));
    const { answer } = await receiver.nth(0);
    const other = engine === 'sqlite' ? undefined : bench.start();
    for (let n = 0; n < 20; n++) {
      await bench.clock.advance(6 * SECOND);
      const soon = bench.clock.now() + 12 * SECOND;
      await rowWhen(bench, ({ next_attempt_at }) => next_attempt_at > soon);
      await other?.queue.idle();
    }
    assert.equal(receiver.attempts.length, 1);
    assert.equal(other?.receiver.attempts.length ?? 0, 0);
    answer(delivered);
    await rowWhen(bench, ({ status }) => status === 'delivered');
  });

  test('what a dead worker held is attempted again within 30 seconds, the same', async () => {
    const bench = await openQueueBench(engine);
    const first = bench.start();
    await bench.enqueue(first.queue, bench.delivery('a'));
    const { job } = await first.receiver.nth(0);
    const diedAt = bench.clock.now();
    first.kill();
    const { queue, receiver } = bench.start();
    const attempted = Promise.withResolvers<undefined>();
    receiver.respond = () => {
      attempted.resolve(undefined);
      return undefined;
    };
    while (receiver.attempts.length === 0) {
      await Promise.race([queue.idle(), attempted.promise]);
      await bench.clock.advance(500);
    }
    const took = bench.clock.now() - diedAt;
    assert.ok(took <= (engine === 'sqlite' ? 500 : 30 * SECOND), `${took} ms`);
    const again = await receiver.nth(0);
    assert.deepEqual(again.job, job);
    again.answer(delivered);
    await rowWhen(bench, ({ status }) => status === 'delivered');
  });

  // SQLite has one process.
  if (engine !== 'sqlite') {
    test('two nodes share what is due: none of it is attempted twice', async () => {
      const bench = await openQueueBench(engine);
      for (const destination of ['a', 'b', 'c']) await bench.fill(destination, 100);
      const nodes = [bench.start(), bench.start()];
      for (const { receiver } of nodes) receiver.respond = () => delivered;
      const attempts = () => nodes.flatMap(({ receiver }) => receiver.attempts);
      await until(() => attempts().length >= 300);
      for (const { queue } of nodes) await queue.idle();
      assert.equal(new Set(attempts().map(({ job }) => job.id)).size, 300);
      assert.equal(attempts().length, 300);
      for (const { receiver } of nodes) assert.ok(receiver.attempts.length > 0);
    });
  }

  test('an outcome that comes after the end of the lease is dropped', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    await bench.enqueue(queue, bench.delivery('a'));
    const { answer } = await receiver.nth(0);
    await bench.database.write((tx) =>
      tx.updateTable('deliveries').set({ lease_owner: 'another worker' }).execute(),
    );
    answer(gone);
    await queue.idle();
    assert.match(bench.logged[0]?.message ?? '', /after its lease/);
    const row = await rowWhen(bench, () => true);
    assert.equal(row.status, 'queued');
    assert.equal(row.lease_owner, 'another worker');
  });

  test('a stop waits for attempts, then aborts them and gives them back uncounted', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    const [quick = 0, slow = 0] = await bench.enqueue(
      queue,
      bench.delivery('quick'),
      bench.delivery('slow'),
    );
    await receiver.nth(1);
    const attemptOf = (id: number) => {
      const attempt = receiver.attempts.find(({ job }) => job.id === id);
      assert.ok(attempt);
      return attempt;
    };
    const { signal, answer } = attemptOf(slow);
    signal.addEventListener('abort', () => answer(refused));
    const stopped = queue.stop(5 * SECOND);
    const [late = 0] = await bench.enqueue(queue, bench.delivery('late'));
    attemptOf(quick).answer(delivered);
    const rowOf = async (id: number) => {
      const found = await queue.find(bench.domainId, id);
      return { status: found?.status, attempts: found?.attempts, next: found?.nextAttemptAt };
    };
    while ((await rowOf(quick)).status !== 'delivered') await turns();
    assert.equal(signal.aborted, false);
    const before = bench.clock.now();
    await bench.clock.advance(5 * SECOND);
    await stopped;
    assert.equal(signal.aborted, true);
    const at = bench.clock.now();
    assert.deepEqual(await rowOf(slow), { status: 'queued', attempts: 0, next: at });
    assert.deepEqual(await rowOf(late), { status: 'queued', attempts: 0, next: before });
    const next = bench.start();
    await next.receiver.nth(1);
  });

  test('a stop with nothing under way is done at once', async () => {
    const bench = await openQueueBench(engine);
    const { queue } = bench.start();
    await queue.idle();
    await queue.stop(5 * SECOND);
    await queue.stop(5 * SECOND);
  });
});

onEachEngine('deliveries that cannot be read', (engine) => {
  const texts = payloadFormat(1, Type.Object({ text: Type.String() }));

  /** A row whose payload is another program's. */
  async function enqueueRaw(bench: QueueBench, queue: Queue, payload: string): Promise<number> {
    const [id = 0] = await bench.enqueue(queue, bench.delivery('a', { payload }));
    return id;
  }

  test('they are reported and kept, never attempted again, and delay no other', async () => {
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
    // Neither time nor a restart touches them.
    await queue.stop(0);
    await bench.clock.advance(40 * 86_400 * SECOND);
    const next = bench.start({ payloads: { read: (json) => texts.read(json).text } });
    await bench.clock.advance(600 * SECOND);
    const pruned = await bench.remove((tx) => next.queue.prune(tx, bench.clock.now()));
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

  test('one that is tried again by hand with a program that can read it goes on as it was', async () => {
    const bench = await openQueueBench(engine);
    const old = bench.start({ payloads: { read: (json) => texts.read(json).text } });
    const id = await enqueueRaw(bench, old.queue, '{"v":2,"text":"newer"}');
    await rowWhen(bench, ({ status }) => status === 'held');
    await old.queue.stop(0);
    const { queue, receiver } = bench.start();
    await queue.idle();
    assert.equal(receiver.attempts.length, 0);
    assert.equal((await queue.retry(bench.domainId, id))?.status, 'queued');
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

  test('an error that cannot be read hides no delivery', async () => {
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

onEachEngine('what does not wait for the first attempt', (engine) => {
  /** A process that notes what it did late, in the transaction that notes it. */
  function startLate(bench: QueueBench, options: Partial<WorkOptions<string>> = {}) {
    return bench.start({
      onLate:
        async ({ publicId }) =>
        async (tx) => {
          await tx.insertInto('counters').values({ name: publicId, value: 1 }).execute();
          return undefined;
        },
      ...options,
    });
  }

  const countLate = async ({ database }: QueueBench) =>
    (await database.read.selectFrom('counters').selectAll().execute()).length;

  test('it is done at its time, once, while the attempt is still under way', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = startLate(bench);
    const lateAt = bench.clock.now() + 16 * SECOND;
    const [id = 0] = await bench.enqueue(queue, bench.delivery('a', { lateAt }));
    const { answer } = await receiver.nth(0);
    await bench.clock.advance(16 * SECOND - 1);
    assert.equal(await countLate(bench), 0);
    await bench.clock.advance(1);
    await rowWhen(bench, ({ late_at }) => late_at === null);
    assert.equal(await countLate(bench), 1);
    assert.equal(await bench.database.write((tx) => queue.cancelLate(tx, id)), false);
    answer(delivered);
    await rowWhen(bench, ({ status }) => status === 'delivered');
    await bench.clock.advance(120 * SECOND);
    assert.equal(await countLate(bench), 1);
  });

  test('an outcome in time takes it over', async () => {
    const bench = await openQueueBench(engine);
    const taken: boolean[] = [];
    const { queue, receiver } = startLate(bench, {
      onOutcome: async (tx, { id }) => {
        taken.push(await queue.cancelLate(tx, id));
        return undefined;
      },
    });
    receiver.respond = () => refused;
    await bench.enqueue(queue, bench.delivery('a', { lateAt: bench.clock.now() + 16 * SECOND }));
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await queue.idle();
    await bench.clock.advance(60 * SECOND);
    await queue.idle();
    assert.deepEqual(taken.slice(0, 2), [true, false]);
    assert.equal(await countLate(bench), 0);
  });

  test('a process that died is no reason to wait longer, nor a clock that went back', async () => {
    const bench = await openQueueBench(engine);
    const first = startLate(bench);
    const hour = 3_600 * SECOND;
    const now = bench.clock.now();
    await bench.enqueue(first.queue, bench.delivery('a', { lateAt: now + 16 * SECOND }));
    await first.receiver.nth(0);
    first.kill();
    await bench.database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ created_at: now + hour, late_at: now + hour + 16 * SECOND })
        .execute(),
    );
    startLate(bench);
    await rowWhen(bench, ({ late_at }) => late_at === null);
    assert.equal(await countLate(bench), 1);
  });

  test('what fails comes again a minute later, and keeps no other from being done', async () => {
    const bench = await openQueueBench(engine);
    let isBroken = true;
    const { queue } = startLate(bench, {
      onLate: async ({ publicId, destination }) => {
        if (destination === 'a' && isBroken) throw new Error('the disk is full');
        return async (tx) => {
          await tx.insertInto('counters').values({ name: publicId, value: 1 }).execute();
          return undefined;
        };
      },
    });
    const lateAt = bench.clock.now() + SECOND;
    await bench.enqueue(queue, bench.delivery('a', { lateAt }), bench.delivery('b', { lateAt }));
    await bench.clock.advance(SECOND);
    while ((await countLate(bench)) < 1) await turns();
    await until(() => bench.logged.length === 1);
    isBroken = false;
    await bench.clock.advance(60 * SECOND);
    while ((await countLate(bench)) < 2) await turns();
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
    const replayed = await queue.retry(bench.domainId, id);
    assert.equal(replayed?.status, 'queued');
    assert.equal(replayed?.attempts, 0);
    const again = await receiver.nth(1);
    assert.deepEqual(again.job, { ...job, isFirst: false, isReplay: true });
    assert.equal((await queue.retry(bench.domainId, id))?.nextAttemptAt, undefined);
    again.answer(refused);
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await queue.idle();
    assert.equal((await queue.retry(bench.domainId, id))?.status, 'queued');
    assert.equal((await receiver.nth(2)).job.attempt, 1, 'not before the schedule says, but now');
  });

  test('a delivery that is tried again by hand before its end is not a first one, nor a replay', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    receiver.respond = () => refused;
    const [id = 0] = await bench.enqueue(queue, bench.delivery('a'));
    await rowWhen(bench, ({ attempts }) => attempts === 1);
    await queue.idle();
    await queue.retry(bench.domainId, id);
    const { attempt, isFirst, isReplay } = (await receiver.nth(1)).job;
    assert.deepEqual(
      { attempt, isFirst, isReplay },
      { attempt: 1, isFirst: false, isReplay: false },
    );
    await queue.idle();
  });

  test('a domain sees its own deliveries only, in pages and by status', async () => {
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
    assert.equal(await queue.retry(other, first), undefined);
    assert.equal((await queue.find(bench.domainId, first))?.status, 'delivered');
    const failed = await queue.list({
      domainId: bench.domainId,
      status: 'failed',
      limit: 1,
      offset: 0,
    });
    assert.deepEqual(failed[0]?.lastError, { status: 410, text: 'gone' });
  });

  test('old ends are pruned with their bodies, what is queued stays', async () => {
    const bench = await openQueueBench(engine);
    const { queue, receiver } = bench.start();
    receiver.respond = ({ destination }) => (destination === 'a' ? delivered : refused);
    const [, queued = 0] = await bench.enqueue(queue, bench.delivery('a'), bench.delivery('b'));
    await until(() => receiver.attempts.length === 2);
    await queue.idle();
    const publicId = receiver.attempts[0]?.job.publicId ?? '';
    assert.equal(await queue.findBody(publicId), bench.bodyId);
    const end = bench.clock.now();
    const prune = (before: number) => bench.remove((tx) => queue.prune(tx, before));
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
    assert.equal(await bench.remove((tx) => queue.removeSomeOf(tx, bench.domainId)), 2);
    assert.deepEqual(await bench.database.read.selectFrom('deliveries').selectAll().execute(), []);
    assert.equal(await bench.bodies.find(bench.bodyId), undefined);
    answer(delivered);
    await until(() => bench.logged.length === 1);
    assert.equal(outcomes, 0);
  });

  test('deliveries of a domain go some at a time, those first that still wait', async () => {
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
    const removeSome = () => bench.database.write((tx) => queue.removeSomeOf(tx, bench.domainId));
    assert.equal((await removeSome()).length, 200);
    const kept = { destination: 'kept', count: 1 };
    assert.deepEqual(await counted(), [{ destination: 'ended', count: 150 }, kept]);
    assert.equal((await removeSome()).length, 150);
    assert.equal((await removeSome()).length, 0);
    assert.deepEqual(await counted(), [kept]);
  });

  test('the depth of each kind, and how old it is', async () => {
    const bench = await openQueueBench(engine);
    const queue = bench.queue();
    assert.deepEqual(await queue.depths(), []);
    const start = bench.clock.now();
    await bench.enqueue(queue, bench.delivery('a'));
    await bench.clock.advance(1_000);
    await bench.enqueue(queue, bench.delivery('b'), bench.delivery('c', { kind: 'other' }));
    const depths = await queue.depths();
    assert.deepEqual(
      [...depths].sort((a, b) => a.kind.localeCompare(b.kind)),
      [
        { kind: 'other', queued: 1, oldestCreatedAt: start + 1_000 },
        { kind: KIND, queued: 2, oldestCreatedAt: start },
      ],
    );
  });
});

onEachEngine('queue fairness', (engine) => {
  test('a dead destination with 10,000 rows delays nobody', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('dead', 10_000);
    const { queue, receiver } = bench.start();
    await receiver.nth(31);
    const isDead = ({ job }: Attempt) => job.destination === 'dead';
    // No time passes: it is attempted while the dead one still hangs.
    await bench.enqueue(queue, bench.delivery('alive'));
    assert.equal((await receiver.nth(32)).job.destination, 'alive');
    receiver.attempts[32]?.answer(delivered);
    // Four failures in a row: each place is filled again.
    for (let n = 0; n < 4; n++) {
      receiver.attempts[n]?.answer(refused);
      assert.equal((await receiver.nth(33 + n)).job.destination, 'dead');
    }
    for (const attempt of receiver.attempts.slice(4).filter(isDead)) attempt.answer(refused);
    // From then on it is one at a time, each followed by the next.
    for (let n = 0; n < 10; n++) {
      const next = await receiver.nth(37 + n);
      await turns(20);
      assert.equal(receiver.attempts.length, 38 + n);
      assert.equal(next.job.destination, 'dead');
      if (n < 9) next.answer(refused);
    }
    await bench.enqueue(queue, bench.delivery('alive'), bench.delivery('other'));
    const two = [
      (await receiver.nth(47)).job.destination,
      (await receiver.nth(48)).job.destination,
    ];
    assert.deepEqual(two.sort(), ['alive', 'other']);
    // It is back: all places again.
    receiver.attempts[46]?.answer(delivered);
    await receiver.nth(48 + 32);
    await turns(20);
    assert.equal(receiver.attempts.length, 49 + 32);
  });

  test('large payloads are bounded in memory, and delay no other destination', async () => {
    const bench = await openQueueBench(engine);
    const payload = JSON.stringify('x'.repeat(100_000));
    const large = Array.from({ length: 200 }, (_, n) =>
      bench.delivery(`slow${n % 20}`, { payload }),
    );
    await bench.enqueue(bench.queue(), ...large);
    const { queue, receiver } = bench.start({ payloadsMax: 3_000_000 });
    const destinations = () => new Set(receiver.attempts.map(({ job }) => job.destination));
    await until(() => destinations().size === 20);
    await bench.enqueue(queue, bench.delivery('new'));
    await until(() => destinations().has('new'));
    // What four leases may bring before their sizes are known comes on top, and one for each.
    const underWay = receiver.attempts.length;
    assert.ok(underWay <= 30 + 4 * 10 + 21, `${underWay} under way`);
    receiver.respond = () => delivered;
    for (const { answer } of receiver.attempts) answer(delivered);
    await until(() => receiver.attempts.length === 201);
    await queue.idle();
  });

  test('many slow destinations together leave a place for a new one', async () => {
    const bench = await openQueueBench(engine);
    for (let n = 0; n < 10; n++) await bench.fill(`slow${n}`, 40);
    const { queue, receiver } = bench.start({ concurrency: 64 });
    await receiver.nth(55);
    await turns(20);
    assert.equal(receiver.attempts.length, 56);
    await bench.enqueue(queue, bench.delivery('new'));
    assert.equal((await receiver.nth(56)).job.destination, 'new');
  });

  test('more destinations than a look takes in at a time all get their turn', async () => {
    const bench = await openQueueBench(engine);
    const destinations = Array.from({ length: 1_100 }, (_, n) => bench.delivery(`d${n}`));
    await bench.enqueue(bench.queue(), ...destinations);
    const { queue, receiver } = bench.start();
    receiver.respond = () => delivered;
    await until(() => receiver.attempts.length === 1_100);
    await queue.idle();
    assert.equal(new Set(receiver.attempts.map(({ job }) => job.destination)).size, 1_100);
  });
});
