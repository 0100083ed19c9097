import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { onEachEngine } from '../../../test/support/databases.ts';
import { Destinations, DueHeap } from './destinations.ts';
import { turns, until } from './testing/fake-clock.ts';
import { type Attempt, delivered, openQueueBench, refused } from './testing/open-queue.ts';

const HORIZON = 10_000;
const open = (concurrency = 512, perDestination = 32) =>
  new Destinations({ concurrency, perDestination, horizon: HORIZON });

/** Fills every free place with a leased row, as if there were always more. */
function takeAll(destinations: Destinations, now = 0): Map<string, number> {
  const taken = new Map<string, number>();
  for (;;) {
    const batch = destinations.next(now);
    if (!batch) return taken;
    taken.set(batch.destination, (taken.get(batch.destination) ?? 0) + batch.places);
    destinations.leased(batch, batch.places, now, now);
  }
}

test('one destination gets no more than its own places', () => {
  const destinations = open();
  destinations.expect('dead', 0, 0);
  assert.deepEqual(takeAll(destinations), new Map([['dead', 32]]));
  destinations.settled('dead', 'delivered', 0);
  assert.deepEqual(takeAll(destinations), new Map([['dead', 1]]));
});

test('after five failures in a row it is one at a time, until a success', () => {
  const destinations = open();
  destinations.expect('dead', 0, 0);
  takeAll(destinations);
  for (let n = 0; n < 4; n++) destinations.settled('dead', 'temporary', 0);
  assert.deepEqual(takeAll(destinations), new Map([['dead', 4]]));
  for (let n = 0; n < 31; n++) destinations.settled('dead', 'temporary', 0);
  assert.deepEqual(takeAll(destinations), new Map());
  destinations.settled('dead', 'temporary', 0);
  assert.deepEqual(takeAll(destinations), new Map([['dead', 1]]));
  destinations.settled('dead', 'permanent', 0);
  assert.deepEqual(takeAll(destinations), new Map([['dead', 1]]), 'an answer is no success');
  destinations.settled('dead', 'delivered', 0);
  assert.deepEqual(takeAll(destinations), new Map([['dead', 32]]));
});

test('failures are remembered while a destination has nothing due', () => {
  const destinations = open();
  for (let n = 0; n < 5; n++) {
    destinations.expect('dead', 0, 0);
    const batch = destinations.next(0);
    assert.ok(batch);
    destinations.leased(batch, 1, undefined, 0);
    destinations.settled('dead', 'temporary', 0);
  }
  destinations.expect('dead', 0, 0);
  assert.deepEqual(takeAll(destinations), new Map([['dead', 1]]));
});

test('those that have something due share the places', () => {
  const destinations = open(100);
  for (let n = 0; n < 50; n++) destinations.expect(`d${n}`, 0, 0);
  const taken = takeAll(destinations);
  assert.equal(taken.size, 50);
  for (const places of taken.values()) assert.ok(places >= 1 && places <= 4, `${places}`);
});

test('slow destinations together leave places for one with nothing under way', () => {
  const destinations = open(64);
  for (let n = 0; n < 10; n++) destinations.expect(`slow${n}`, 0, 0);
  takeAll(destinations);
  destinations.expect('new', 0, 0);
  assert.equal(destinations.next(0)?.destination, 'new');
});

test('a later row comes at its time, one beyond the horizon is not kept', () => {
  const destinations = open();
  destinations.expect('soon', 1_000, 0);
  destinations.expect('sooner', 900, 0);
  destinations.expect('late', HORIZON + 1, 0);
  assert.equal(destinations.nextDue, 900);
  assert.equal(destinations.next(899), undefined);
  assert.deepEqual([...takeAll(destinations, 1_000).keys()].sort(), ['soon', 'sooner']);
  assert.deepEqual(takeAll(destinations, HORIZON + 1), new Map());
});

test('a row that comes during a lease is not forgotten', () => {
  const destinations = open();
  destinations.expect('a', 0, 0);
  const batch = destinations.next(0);
  assert.ok(batch);
  assert.equal(destinations.next(0), undefined);
  destinations.expect('a', 0, 0);
  assert.equal(destinations.next(0), undefined, 'one lease at a time');
  destinations.leased(batch, 0, undefined, 0);
  assert.equal(destinations.next(0)?.destination, 'a');
});

test('the number of destinations is limited; a look may add a few more', () => {
  const destinations = open();
  for (let n = 0; n < 20_000; n++) destinations.expect(`d${n}`, 5_000, 0);
  assert.ok(destinations.isFull);
  destinations.add('one more', 0, 0);
  assert.equal(destinations.next(0)?.destination, 'one more');
});

test('a heap returns its entries in the order of time', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(50)), (dues) => {
      const heap = new DueHeap<number>();
      for (const due of dues) heap.push(due, due);
      heap.keep((item) => item % 7 !== 0);
      const given: (number | undefined)[] = [];
      while (heap.size > 0) {
        const { earliest } = heap;
        given.push(heap.pop());
        assert.equal(given.at(-1), earliest);
      }
      const expected = dues.filter((due) => due % 7 !== 0).sort((a, b) => a - b);
      assert.deepEqual(given, expected);
    }),
  );
});

onEachEngine('queue fairness', (engine) => {
  test('a dead destination with 10,000 rows delays no other', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('dead', 10_000);
    const { queue, receiver } = bench.start();
    await receiver.nth(31);
    const isDead = ({ job }: Attempt) => job.destination === 'dead';
    // The clock does not move: it is attempted while the dead one still hangs.
    await bench.enqueue(queue, bench.delivery('alive'));
    assert.equal((await receiver.nth(32)).job.destination, 'alive');
    receiver.attempts[32]?.answer(delivered);
    // Four failures in a row: each place is filled again.
    for (let n = 0; n < 4; n++) {
      receiver.attempts[n]?.answer(refused);
      assert.equal((await receiver.nth(33 + n)).job.destination, 'dead');
    }
    for (const attempt of receiver.attempts.slice(4).filter(isDead)) attempt.answer(refused);
    // From then on they are attempted one at a time.
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
    // It answers again: all places are used again.
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
    // In addition come what four leases may bring before their sizes are known, and one for each.
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

  test('of more destinations than one look reads, all get their turn', async () => {
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
