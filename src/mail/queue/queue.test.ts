import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { turns, UNTIL_MS, until } from '../../../test/support/queue/fake-clock.ts';
import {
  delivered,
  gone,
  KIND,
  openQueueBench,
  refused,
  rowWhen,
} from '../../../test/support/queue/open-queue.ts';
import type { Database } from '../../platform/database/database.ts';

const SECOND = 1_000;

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
      userId: 'ann',
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

  test('a row that was queued without a wake, or before the start, is found', async () => {
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

  test('the limit of attempts at a destination holds for all nodes together', async () => {
    const bench = await openQueueBench(engine);
    let byOthers = 32;
    let held = 0;
    bench.slots = {
      take: async (_key, wanted, most) => {
        const taken = Math.max(0, Math.min(wanted, most - byOthers - held));
        held += taken;
        return taken;
      },
      give: (_key, amount) => {
        held -= amount;
      },
    };
    await bench.fill('a', 40);
    const { queue, receiver } = bench.start();
    await queue.idle();
    assert.equal(receiver.attempts.length, 0, 'the others make all 32');
    byOthers = 30;
    await bench.clock.advance(SECOND);
    await receiver.nth(1);
    await turns(20);
    assert.equal(receiver.attempts.length, 2);
    byOthers = 0;
    receiver.respond = () => delivered;
    // An attempt that ends here makes room at once.
    for (const { answer } of [...receiver.attempts]) answer(delivered);
    await receiver.nth(39);
    await queue.idle();
    assert.deepEqual([receiver.attempts.length, held], [40, 0]);
  });

  test('of the slots that nodes share, one takes as many as deliveries are due, and one more', async () => {
    const bench = await openQueueBench(engine);
    const taken: number[] = [];
    bench.slots = {
      take: async (_key, wanted) => {
        taken.push(wanted);
        return wanted;
      },
      give: () => {},
    };
    await bench.fill('a', 3);
    const { queue, receiver } = bench.start();
    receiver.respond = () => delivered;
    await receiver.nth(2);
    await queue.idle();
    assert.deepEqual(taken, [4]);
  });

  const DAY = 86_400 * SECOND;

  test('a requested instant stays, whatever the clock is set to', async () => {
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

  test('the lease of an attempt under way holds when the clock is changed', async () => {
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
      const renewed = bench.clock.now() + 20 * SECOND;
      await rowWhen(bench, ({ next_attempt_at }) => next_attempt_at === renewed);
      await other?.queue.idle();
    }
    assert.equal(receiver.attempts.length, 1);
    assert.equal(other?.receiver.attempts.length ?? 0, 0);
    answer(delivered);
    await rowWhen(bench, ({ status }) => status === 'delivered');
  });

  test('a renewal that comes late does not shorten the lease', async () => {
    const bench = await openQueueBench(engine);
    const held = Promise.withResolvers<void>();
    const late: Promise<unknown>[] = [];
    let isHeld = false;
    const { write } = bench.database;
    const database: Database = {
      ...bench.database,
      write: (work) => {
        if (!isHeld) return write(work);
        const written = held.promise.then(() => write(work));
        late.push(written);
        return written;
      },
    };
    const { queue, receiver } = bench.start({}, database);
    await bench.enqueue(queue, bench.delivery('a'));
    const { answer } = await receiver.nth(0);
    isHeld = true;
    await bench.clock.advance(6 * SECOND);
    isHeld = false;
    await bench.clock.advance(6 * SECOND);
    const renewed = bench.clock.now() + 20 * SECOND;
    await rowWhen(bench, ({ next_attempt_at }) => next_attempt_at === renewed);
    held.resolve();
    await Promise.all(late);
    assert.equal(late.length, 1);
    assert.equal((await rowWhen(bench, () => true)).next_attempt_at, renewed);
    answer(delivered);
    await queue.idle();
  });

  test('the deliveries of a dead worker are attempted again within 30 seconds, unchanged', async () => {
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
    test('a lease that ended while the database was away is taken over when it is steady again', async () => {
      const bench = await openQueueBench(engine);
      const first = bench.start();
      await bench.enqueue(first.queue, bench.delivery('a'));
      await first.receiver.nth(0);
      first.kill();
      let isSteady = false;
      const { queue, receiver } = bench.start({}, bench.database, () => isSteady);
      await bench.clock.advance(SECOND);
      await queue.idle();
      for (let look = 0; look < 10; look++) {
        await bench.clock.advance(6 * SECOND);
        await queue.idle();
      }
      assert.equal(receiver.attempts.length, 0);
      // What nobody has leased is attempted all the same.
      await bench.enqueue(queue, bench.delivery('a'));
      (await receiver.nth(0)).answer(delivered);
      await queue.idle();
      isSteady = true;
      await bench.clock.advance(6 * SECOND);
      assert.equal((await receiver.nth(1)).job.publicId, first.receiver.attempts[0]?.job.publicId);
    });

    test('a delivery that could not be put back while the database was away is attempted again by its own node when its lease ends', async () => {
      const bench = await openQueueBench(engine);
      const away = Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
      let isAway = false;
      let attempts = 0;
      const attempt = async () => {
        isAway = attempts++ === 0;
        if (isAway) throw away;
        return delivered;
      };
      const write: Database['write'] = (work) =>
        isAway ? Promise.reject(away) : bench.database.write(work);
      const { queue } = bench.start({ attempt }, { ...bench.database, write }, () => false);
      await bench.enqueue(queue, bench.delivery('a'));
      await until(() => attempts > 0);
      await queue.idle();
      isAway = false;
      for (let look = 0; look < 5; look++) {
        await bench.clock.advance(6 * SECOND);
        await queue.idle();
      }
      assert.equal(attempts, 2);
    });

    test('a lease that ended while the disk of the server was full is left to its holder', async () => {
      const bench = await openQueueBench(engine);
      const first = bench.start();
      await bench.enqueue(first.queue, bench.delivery('a'));
      await first.receiver.nth(0);
      first.kill();
      const full = bench.start({}, { ...bench.database, isDiskFull: true });
      for (let look = 0; look < 6; look++) {
        await bench.clock.advance(6 * SECOND);
        await full.queue.idle();
      }
      assert.equal(full.receiver.attempts.length, 0);
      const { receiver } = bench.start();
      await receiver.nth(0);
    });

    test('a row whose outcome is being written does not keep the other leases from being renewed, and is renewed last', async (t) => {
      const bench = await openQueueBench(engine);
      const locked = Promise.withResolvers<void>();
      const over = Promise.withResolvers<void>();
      t.after(() => over.resolve());
      const { queue, receiver } = bench.start({
        async onOutcome() {
          locked.resolve();
          await over.promise;
          throw Object.assign(new Error('locked'), { code: '55P03' });
        },
      });
      await bench.enqueue(queue, bench.delivery('a'), bench.delivery('b'));
      const { job, answer } = await receiver.nth(0);
      await receiver.nth(1);
      answer(delivered);
      await locked.promise;
      await bench.clock.advance(6 * SECOND);
      const renewed = bench.clock.now() + 20 * SECOND;
      const rows = bench.database.read.selectFrom('deliveries').select(['id', 'next_attempt_at']);
      const isRenewed = async (isLocked: boolean) => {
        const found = (await rows.execute()).find(({ id }) => (id === job.id) === isLocked);
        return found?.next_attempt_at === renewed;
      };
      const end = performance.now() + UNTIL_MS;
      while (!(await isRenewed(false)))
        assert.ok(performance.now() < end, 'the other is not renewed');
      assert.equal(await isRenewed(true), false);
      over.resolve();
      while (!(await isRenewed(true))) assert.ok(performance.now() < end, 'it is not renewed');
    });

    test('two nodes share the due deliveries: none is attempted twice', async () => {
      const bench = await openQueueBench(engine);
      for (const destination of ['a', 'b', 'c']) await bench.fill(destination, 100);
      const nodes = [bench.start(), bench.start()];
      const attempts = () => nodes.flatMap(({ receiver }) => receiver.attempts);
      // One alone may hold 96: so the other gets some, however late its connections to the database come.
      await until(() => nodes.every(({ receiver }) => receiver.attempts.length > 0));
      for (const { receiver } of nodes) receiver.respond = () => delivered;
      for (const { answer } of attempts()) answer(delivered);
      await until(() => attempts().length >= 300);
      for (const { queue } of nodes) await queue.idle();
      assert.equal(new Set(attempts().map(({ job }) => job.id)).size, 300);
      assert.equal(attempts().length, 300);
    });
  }

  test('an outcome that comes after the end of the lease is ignored', async () => {
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
