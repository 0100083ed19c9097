import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Destinations, DueHeap } from './destinations.ts';

const HORIZON = 10_000;
const open = (concurrency = 512, perDestination = 32) =>
  new Destinations({ concurrency, perDestination, horizon: HORIZON });

/** Takes and leases every place it is given, as if rows never ended. */
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

test('slow ones together leave places for one with nothing under way', () => {
  const destinations = open(64);
  for (let n = 0; n < 10; n++) destinations.expect(`slow${n}`, 0, 0);
  takeAll(destinations);
  destinations.expect('new', 0, 0);
  assert.equal(destinations.next(0)?.destination, 'new');
});

test('what is due later comes at its time, what is due beyond the horizon is not kept', () => {
  const destinations = open();
  destinations.expect('soon', 1_000, 0);
  destinations.expect('sooner', 900, 0);
  destinations.expect('late', HORIZON + 1, 0);
  assert.equal(destinations.nextDue, 900);
  assert.equal(destinations.next(899), undefined);
  assert.deepEqual([...takeAll(destinations, 1_000).keys()].sort(), ['soon', 'sooner']);
  assert.deepEqual(takeAll(destinations, HORIZON + 1), new Map());
});

test('a row that comes while rows are being leased is not forgotten', () => {
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

test('no more destinations are kept than there is room for; a look may add a few', () => {
  const destinations = open();
  for (let n = 0; n < 20_000; n++) destinations.expect(`d${n}`, 5_000, 0);
  assert.ok(destinations.isFull);
  destinations.add('one more', 0, 0);
  assert.equal(destinations.next(0)?.destination, 'one more');
});

test('a heap gives what it got in the order of time', () => {
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
