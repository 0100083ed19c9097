import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { turns, until } from '../../../test/support/queue/fake-clock.ts';
import {
  DELAYS,
  delivered,
  gone,
  openQueueBench,
  type QueueBench,
  refused,
  rowWhen,
} from '../../../test/support/queue/open-queue.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { Job, Settled, WorkOptions } from './queue.ts';
import type { InLine } from './work-options.ts';

const SECOND = 1_000;

onEachEngine('outcomes', (engine) => {
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

  test('Retry-After delays the next attempt, a permanent failure ends the delivery', async () => {
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

  test('a delivery may be scheduled for later, and withdrawn until it is attempted', async () => {
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

  test('the consequences of an outcome are in its transaction, and are repeated after it failed', async () => {
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

  test('a database that is away is told once for all outcomes, and once when they are written', async (t) => {
    const bench = await openQueueBench(engine);
    const real = performance.now.bind(performance);
    t.mock.method(performance, 'now', () => real() + bench.clock.monotonic());
    let isAway = true;
    let tries = 0;
    const { queue, receiver } = bench.start({
      async onOutcome() {
        tries++;
        if (isAway) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
        return undefined;
      },
    });
    const pass = async (isOver: () => boolean) => {
      while (!isOver()) await bench.pass(100);
    };
    receiver.respond = () => delivered;
    await bench.enqueue(queue, bench.delivery('a'), bench.delivery('b'), bench.delivery('c'));
    await receiver.nth(2);
    // Of these three may not have come back.
    await pass(() => bench.logged.length > 0 && tries > 6);
    isAway = false;
    await pass(() => bench.logged.length > 1);
    await bench.clock.advance(10 * SECOND);
    await queue.idle();
    const [begin, end, ...more] = bench.logged;
    assert.match(begin?.message ?? '', /^deliveries cannot be written/);
    assert.equal(end?.message, 'deliveries are written again');
    assert.ok(Number(end?.fields.failures) > 3, 'each of them failed, and more than once');
    assert.deepEqual(more, []);
    const rows = await bench.database.read.selectFrom('deliveries').select('status').execute();
    assert.deepEqual(
      rows.map(({ status }) => status),
      ['delivered', 'delivered', 'delivered'],
    );
  });

  test('while outcomes cannot be written since a disk is full, no attempt begins that a kill would repeat', async () => {
    const bench = await openQueueBench(engine);
    let isFull = true;
    let tries = 0;
    const { queue, receiver } = bench.start({
      async onOutcome() {
        tries++;
        if (isFull) throw Object.assign(new Error('no space left'), { code: '53100' });
        return undefined;
      },
    });
    receiver.respond = () => delivered;
    await bench.enqueue(queue, bench.delivery('a'));
    await until(() => tries > 0);
    await turns();
    // Leases are small, and there is room for them.
    await bench.enqueue(queue, bench.delivery('a'), bench.delivery('b'));
    for (let second = 0; second < 10; second++) await bench.pass(SECOND);
    assert.equal(receiver.attempts.length, 1);
    isFull = false;
    while (receiver.attempts.length < 3) await bench.pass(SECOND);
    await rowWhen(bench, ({ status }) => status === 'delivered');
    await queue.idle();
    const rows = await bench.database.read.selectFrom('deliveries').select('status').execute();
    assert.deepEqual(
      rows.map(({ status }) => status),
      ['delivered', 'delivered', 'delivered'],
    );
    assert.equal(receiver.attempts.length, 3);
  });

  test('an outcome that cannot be written while others can is told, and written when it can be', async (t) => {
    const bench = await openQueueBench(engine);
    const real = performance.now.bind(performance);
    t.mock.method(performance, 'now', () => real() + bench.clock.monotonic());
    let isLocked = true;
    let isWritten = false;
    const { queue, receiver } = bench.start({
      async onOutcome(_, job) {
        if (job.destination !== 'a') return undefined;
        if (isLocked) throw Object.assign(new Error('locked'), { code: '55P03' });
        isWritten = true;
        return undefined;
      },
    });
    receiver.respond = () => delivered;
    await bench.enqueue(queue, bench.delivery('a'));
    const pass = async (isOver: () => boolean) => {
      for (let step = 0; !isOver(); step++) {
        await bench.enqueue(queue, bench.delivery('b'));
        await receiver.nth(step + 1);
        await bench.pass(100);
      }
    };
    await pass(() => bench.logged.length > 0);
    assert.match(bench.logged[0]?.message ?? '', /cannot be written, while others can/);
    isLocked = false;
    while (!isWritten) await bench.pass(SECOND);
    await queue.idle();
    const rows = await bench.database.read.selectFrom('deliveries').select('status').execute();
    assert.ok(rows.every(({ status }) => status === 'delivered'));
    assert.equal(bench.logged.length, 1);
    const toA = receiver.attempts.filter(({ job }) => job.destination === 'a');
    assert.equal(toA.length, 1);
  });

  test('an outcome that cannot be written for a reason of its own stops no others, also where the database was away before', async () => {
    const bench = await openQueueBench(engine);
    const codes = ['57P02', '58030'];
    let isWritten = false;
    const { queue, receiver } = bench.start({
      async onOutcome(_, job) {
        const code = codes.length > 1 ? codes.shift() : codes[0];
        if (job.destination !== 'a') return undefined;
        if (code) throw Object.assign(new Error('damaged'), { code });
        isWritten = true;
        return undefined;
      },
    });
    receiver.respond = () => delivered;
    await bench.enqueue(queue, bench.delivery('a'));
    await until(() => codes.length === 1);
    await turns();
    await bench.enqueue(queue, bench.delivery('b'));
    while (receiver.attempts.length < 2) await bench.pass(SECOND);
    codes.length = 0;
    while (!isWritten) await bench.pass(SECOND);
    await rowWhen(bench, ({ status }) => status === 'delivered');
    await queue.idle();
  });

  test('an outcome that others keep from being written for a minute is written then: nobody gets the mail again', async () => {
    const bench = await openQueueBench(engine);
    let attempts = 0;
    let tries = 0;
    const inLine: InLine = (write) => {
      if (tries++ < 60) throw new Refusal('unavailable', 'too many writes are under way');
      return write();
    };
    const { queue } = bench.start({
      async attempt() {
        attempts++;
        return { ...delivered, inLine };
      },
    });
    await bench.enqueue(queue, bench.delivery('a'));
    await until(() => tries > 0);
    while (tries <= 60) await bench.pass(SECOND);
    await rowWhen(bench, ({ status }) => status === 'delivered');
    await queue.idle();
    assert.equal(attempts, 1);
  });

  test('after an outcome that cannot be stored, the next attempt comes much later', async () => {
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

  test('an outcome waits for a database that is away, and the receiver hears nothing of it', async () => {
    const bench = await openQueueBench(engine);
    let isAway = true;
    let tries = 0;
    let isWritten = false;
    const { queue, receiver } = bench.start({
      async onOutcome() {
        tries++;
        if (isAway)
          throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
        isWritten = true;
        return undefined;
      },
    });
    receiver.respond = () => delivered;
    await bench.enqueue(queue, bench.delivery('a'));
    await receiver.nth(0);
    const passUntil = async (condition: () => boolean) => {
      while (!condition()) await bench.pass(SECOND);
    };
    await passUntil(() => tries >= 20);
    isAway = false;
    await passUntil(() => isWritten);
    const row = await rowWhen(bench, ({ status }) => status === 'delivered');
    assert.equal(row.attempts, 1);
    assert.equal(receiver.attempts.length, 1);
    assert.ok(bench.logged.length <= 6, 'one line for each try would fill the log');
    await queue.idle();
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

  test('an attempt that cannot read the database does not count, and comes again at once', async () => {
    const bench = await openQueueBench(engine);
    let attempts = 0;
    const { queue } = bench.start({
      async attempt() {
        if (attempts++ < 3) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
        return delivered;
      },
    });
    await bench.enqueue(queue, bench.delivery('a'));
    await until(() => attempts > 0);
    await queue.idle();
    for (let step = 0; step < 3; step++) {
      await bench.clock.advance(5 * SECOND);
      await queue.idle();
    }
    const row = await rowWhen(bench, ({ status }) => status === 'delivered');
    assert.equal(row.attempts, 1);
    assert.deepEqual(bench.logged, []);
  });

  test('an attempt with a query that takes too long counts, and comes again by the schedule', async () => {
    const bench = await openQueueBench(engine);
    const { queue } = bench.start({
      attempt: async () => {
        throw Object.assign(new Error('canceling statement'), { code: '57014' });
      },
    });
    await bench.enqueue(queue, bench.delivery('a'));
    for (const [index, delay] of DELAYS.entries()) {
      const row = await rowWhen(bench, ({ attempts }) => attempts === index + 1);
      assert.equal(row.next_attempt_at - bench.clock.now(), delay * SECOND);
      await queue.idle();
      await bench.clock.advance(delay * SECOND);
    }
    await queue.idle();
    assert.match(bench.logged[0]?.message ?? '', /it counts as a temporary failure/);
  });

  test('a last attempt that throws does not end the delivery, and is repeated', async () => {
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

  test('an attempt without what it needs says which that is', async () => {
    const bench = await openQueueBench(engine);
    const { queue } = bench.start({
      delays: [5],
      attempt: () => Promise.reject(new Refusal('body_unavailable', 'the source is missing')),
    });
    await bench.enqueue(queue, bench.delivery('a'));
    const row = await rowWhen(bench, ({ attempts }) => attempts === 1);
    assert.match(row.last_error ?? '', /the source is missing/);
    await queue.idle();
  });

  test('a delivery whose last attempt throws again and again is held', async () => {
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
});

onEachEngine('what does not wait for the first attempt', (engine) => {
  /** A process that records what it did late, in the transaction that notes it. */
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

  test('an outcome in time does it instead', async () => {
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

  test('another process does it where the first died', async () => {
    const bench = await openQueueBench(engine);
    const first = startLate(bench);
    const lateAt = bench.clock.now() + 16 * SECOND;
    await bench.enqueue(first.queue, bench.delivery('a', { lateAt }));
    await first.receiver.nth(0);
    first.kill();
    await bench.clock.advance(16 * SECOND);
    startLate(bench);
    await rowWhen(bench, ({ late_at }) => late_at === null);
    assert.equal(await countLate(bench), 1);
  });

  test('a failure is repeated a minute later, and does not delay the others', async () => {
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
    // The line comes before the write of when it is repeated, which reads the clock.
    const putOff = () =>
      bench.database.read
        .selectFrom('deliveries')
        .select('id')
        .where('late_at', '>', bench.clock.now())
        .executeTakeFirst();
    while (!(await putOff())) await turns();
    await bench.clock.advance(60 * SECOND);
    while ((await countLate(bench)) < 2) await turns();
  });
});
