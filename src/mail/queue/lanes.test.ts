import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { onEachEngine } from '../../../test/support/databases.ts';
import { turns, until } from '../../../test/support/queue/fake-clock.ts';
import {
  type Attempt,
  delivered,
  openQueueBench,
  refused,
} from '../../../test/support/queue/open-queue.ts';
import { DueHeap } from './due-heap.ts';
import { Lanes } from './lanes.ts';
import type { Batch, Lane } from './parties.ts';
import { senderOf, userOf } from './parties.ts';
import type { Slot, WorkOptions } from './queue.ts';

const HORIZON = 10_000;
const open = (concurrency = 512, perDestination = 32) =>
  new Lanes({ concurrency, perDestination, horizon: HORIZON });
const lane = (destination: string, sender = '1/1') => ({ sender, destination });
const expect = (lanes: Lanes, due: number, ...all: Lane[]) =>
  all.every((one) => lanes.expect(one, due, 0));
const manyFor = (sender: string, count: number) =>
  Array.from({ length: count }, (_, n) => lane(`${sender}-${n}`, sender));

/** Fills every free slot with a leased row, as if there were always more. */
function takeAll(lanes: Lanes, now = 0, by: keyof Lane = 'destination'): Map<string, number> {
  const taken = new Map<string, number>();
  for (;;) {
    const batch = lanes.next(now);
    if (!batch) return taken;
    taken.set(batch[by], (taken.get(batch[by]) ?? 0) + batch.slots);
    lanes.leased(batch, batch.slots, now, now);
  }
}

test('one destination gets no more than its own slots', () => {
  const lanes = open();
  expect(lanes, 0, lane('dead'));
  assert.deepEqual(takeAll(lanes), new Map([['dead', 32]]));
  lanes.settled(lane('dead'), 'delivered', 0);
  assert.deepEqual(takeAll(lanes), new Map([['dead', 1]]));
});

test('in a pool of ten, a user with many accounts leaves a slot for others', () => {
  const lanes = open(10);
  for (let account = 1; account <= 20; account++) {
    const sender = senderOf({ userId: 'many', domainId: account, accountId: account });
    expect(lanes, 0, lane(`d${account}`, sender));
  }
  takeAll(lanes);
  const sender = senderOf({ userId: 'other', domainId: 99, accountId: 99 });
  expect(lanes, 0, lane('other', sender));
  assert.deepEqual(takeAll(lanes), new Map([['other', 1]]));
});

test('after five failures in a row it is one at a time, until a success', () => {
  const lanes = open();
  expect(lanes, 0, lane('dead'));
  takeAll(lanes);
  for (let n = 0; n < 4; n++) lanes.settled(lane('dead'), 'temporary', 0);
  assert.deepEqual(takeAll(lanes), new Map([['dead', 4]]));
  for (let n = 0; n < 31; n++) lanes.settled(lane('dead'), 'temporary', 0);
  assert.deepEqual(takeAll(lanes), new Map());
  lanes.settled(lane('dead'), 'temporary', 0);
  assert.deepEqual(takeAll(lanes), new Map([['dead', 1]]));
  lanes.settled(lane('dead'), 'permanent', 0);
  assert.deepEqual(takeAll(lanes), new Map([['dead', 1]]), 'an answer is no success');
  lanes.settled(lane('dead'), 'delivered', 0);
  assert.deepEqual(takeAll(lanes), new Map([['dead', 32]]));
});

test('senders with mail for one destination share its slots, and each goes on when one is free', () => {
  const lanes = open(512, 4);
  const [one, other] = [lane('slow', '1/1'), lane('slow', '1/2')];
  expect(lanes, 0, one, other);
  assert.deepEqual([...takeAll(lanes).values()], [4]);
  const turns: string[] = [];
  for (let n = 0; n < 20; n++) {
    lanes.settled(turns.length % 2 === 0 ? one : other, 'delivered', 0);
    turns.push(...takeAll(lanes, 0, 'sender').keys());
  }
  assert.equal(turns.length, 20);
  assert.ok(turns.includes('1/1') && turns.includes('1/2'), turns.join());
});

test('failures are remembered while a destination has nothing due', () => {
  const lanes = open();
  for (let n = 0; n < 5; n++) {
    expect(lanes, 0, lane('dead'));
    const batch = lanes.next(0);
    assert.ok(batch);
    lanes.leased(batch, 1, undefined, 0);
    lanes.settled(batch, 'temporary', 0);
  }
  expect(lanes, 0, lane('dead'));
  assert.deepEqual(takeAll(lanes), new Map([['dead', 1]]));
});

test('those that have something due share the slots', () => {
  const lanes = open(100);
  expect(lanes, 0, ...manyFor('1/1', 50));
  const taken = takeAll(lanes);
  assert.equal(taken.size, 50);
  for (const slots of taken.values()) assert.ok(slots >= 1 && slots <= 4, `${slots}`);
});

test('a sender alone may have all slots but the last eighth', () => {
  const lanes = open(224, 16);
  expect(lanes, 0, ...manyFor('1/1', 400));
  assert.deepEqual(takeAll(lanes, 0, 'sender'), new Map([['1/1', 196]]));
});

test('who comes later gets slots at once, also in the same domain, and free ones before the first', () => {
  const lanes = open(224, 16);
  expect(lanes, 0, ...manyFor('1/1', 400));
  takeAll(lanes);
  expect(lanes, 0, ...manyFor('1/2', 100));
  assert.deepEqual(
    takeAll(lanes, 0, 'sender'),
    new Map([['1/2', 14]]),
    'half is for other domains',
  );
  expect(lanes, 0, ...manyFor('2/3', 100));
  assert.deepEqual(takeAll(lanes, 0, 'sender'), new Map([['2/3', 7]]));
  expect(lanes, 0, ...manyFor('3/4', 100));
  assert.deepEqual(takeAll(lanes, 0, 'sender'), new Map([['3/4', 4]]), 'and no more than is left');
  for (let n = 0; n < 100; n++) lanes.settled(lane(`1/1-${n}`), 'temporary', 0);
  const { '1/1': first, ...others } = Object.fromEntries(takeAll(lanes, 0, 'sender'));
  assert.equal(first, undefined);
  // The domain of the first has more than theirs, also with what the second has.
  assert.deepEqual(others, { '1/2': 7, '2/3': 36, '3/4': 39 });
});

test('one user with many domains leaves slots for another, who has free ones before him', () => {
  const lanes = open(224, 16);
  for (let n = 0; n < 20; n++) expect(lanes, 0, ...manyFor(`${n}/${n}/eve`, 40));
  const ofEve = [...takeAll(lanes, 0, 'sender').keys()];
  expect(lanes, 0, ...manyFor('20/20/bob', 100));
  const bob = takeAll(lanes, 0, 'sender').get('20/20/bob') ?? 0;
  assert.ok(bob >= 4, `${bob} at once`);
  assert.equal(lanes.waiting, 'within');
  for (let n = 0; n < 3; n++) {
    for (const sender of ofEve) lanes.settled(lane(`${sender}-${n}`, sender), 'temporary', 0);
  }
  const [[first, slots] = ['', 0]] = takeAll(lanes, 0, 'sender');
  assert.equal(first, '20/20/bob');
  assert.ok(bob + slots >= 28, `then ${slots}`);
});

test('of a user with many domains and seven others none has more than an eighth', () => {
  const lanes = open(224, 16);
  for (let n = 0; n < 20; n++) expect(lanes, 0, ...manyFor(`${n}//eve`, 20));
  for (let n = 20; n < 27; n++) expect(lanes, 0, ...manyFor(`${n}//user${n}`, 50));
  const taken = Map.groupBy(takeAll(lanes, 0, 'sender'), ([sender]) => sender.split('/').at(-1));
  assert.equal(taken.size, 8);
  for (const [user, all] of taken) {
    const slots = all.reduce((sum, [, some]) => sum + some, 0);
    assert.ok(slots >= 14 && slots <= 28, `${user} has ${slots}`);
  }
});

test('where one user has all domains, they are as fair to one another', () => {
  const lanes = open(224, 16);
  for (let account = 0; account < 100; account++) {
    expect(lanes, 0, ...manyFor(`1/${account}/all`, 10));
  }
  assert.equal(
    [...takeAll(lanes).values()].reduce((one, other) => one + other),
    210,
  );
  expect(lanes, 0, ...manyFor('2/1000/all', 100));
  assert.deepEqual(takeAll(lanes, 0, 'sender'), new Map([['2/1000/all', 7]]));
  assert.equal(lanes.waiting, 'within user');
  for (let n = 0; n < 20; n++) {
    lanes.settled(lane(`1/${n}/all-0`, `1/${n}/all`), 'temporary', 0);
  }
  assert.deepEqual(takeAll(lanes, 0, 'sender'), new Map([['2/1000/all', 10]]));
});

test('who waits for more than the share of his user has a right to slots of that user alone', () => {
  const lanes = open(224, 16);
  expect(lanes, 0, lane('slow', '100//bob'));
  for (let n = 0; n < 20; n++) expect(lanes, 0, ...manyFor(`${n}//eve`, 40));
  takeAll(lanes);
  assert.equal(lanes.waiting, 'within user');
  assert.equal(lanes.isWanted(lane('0//eve-0', '0//eve')), true);
  assert.equal(lanes.isWanted(lane('slow', '100//bob')), false);
  assert.ok(lanes.heldBy('0//eve') > lanes.heldBy('100//bob'));
});

test('a user may be named by any text', () => {
  const lanes = open(8, 8);
  for (const userId of ['a/b', '7', '\n', 'ä ']) {
    const name = senderOf({ userId, domainId: 3 });
    assert.equal(userOf(name), userId);
    assert.equal(userOf(senderOf({ userId, domainId: 3, accountId: 4 })), userId);
    expect(lanes, 0, lane(`of ${userId}`, name));
  }
  assert.equal(takeAll(lanes, 0, 'sender').size, 4);
  for (const old of ['', '12', '12/34']) assert.equal(userOf(old), '');
});

test('of eight senders none has more than an eighth', () => {
  const lanes = open(224, 16);
  const senders = Array.from({ length: 8 }, (_, n) => `${n}/${n}`);
  for (const sender of senders) expect(lanes, 0, ...manyFor(sender, 50));
  const taken = takeAll(lanes, 0, 'sender');
  for (const sender of senders) {
    const slots = taken.get(sender) ?? 0;
    assert.ok(slots >= 14 && slots <= 28, `${sender} has ${slots}`);
  }
});

test('many accounts of one domain together leave slots for another domain', () => {
  const lanes = open(224, 16);
  for (let n = 0; n < 100; n++) expect(lanes, 0, ...manyFor(`1/${n}`, 10));
  const taken = [...takeAll(lanes, 0, 'sender').values()].reduce((one, other) => one + other);
  assert.equal(taken, 210);
  expect(lanes, 0, ...manyFor('2', 100));
  assert.deepEqual(takeAll(lanes, 0, 'sender'), new Map([['2', 7]]));
});

test('slow destinations together leave slots for one with nothing under way', () => {
  const lanes = open(64);
  for (let n = 0; n < 10; n++) expect(lanes, 0, lane(`slow${n}`, `${n}/${n}`));
  takeAll(lanes);
  expect(lanes, 0, lane('new', '11'));
  assert.equal(lanes.next(0)?.destination, 'new');
});

test('many domains at one host leave slots for others, as soon as the host is known', () => {
  const lanes = open(224, 16);
  for (let n = 0; n < 8; n++) expect(lanes, 0, ...manyFor(`${n}`, 40));
  // Nobody else waits, so all of them may be at the host.
  const begun: Batch[] = [];
  for (let batch = lanes.next(0); batch; batch = lanes.next(0)) {
    lanes.leased(batch, batch.slots, undefined, 0);
    begun.push(batch);
  }
  assert.equal(begun.length, 200);
  const entered = begun.filter((batch) => lanes.enter(batch, '192.0.2.1', batch.host));
  assert.equal(entered.length, 28, 'who is below his share waits');
  for (const batch of begun) {
    const host = entered.includes(batch) ? '192.0.2.1' : undefined;
    lanes.settled(batch, host ? 'temporary' : 'postponed', 0, host);
  }
  // It is known now: with what others have, it holds its share again.
  for (const { sender, destination } of begun) expect(lanes, 0, { sender, destination });
  for (let n = 10; n < 18; n++) expect(lanes, 0, ...manyFor(`${n}`, 40));
  const again = new Map<string | undefined, number>();
  for (let batch = lanes.next(0); batch; batch = lanes.next(0)) {
    lanes.leased(batch, batch.slots, undefined, 0);
    again.set(batch.host, (again.get(batch.host) ?? 0) + batch.slots);
  }
  assert.ok((again.get('192.0.2.1') ?? 0) <= 28, `${again.get('192.0.2.1')} at one host`);
  assert.ok((again.get(undefined) ?? 0) >= 196, `${again.get(undefined)} at others`);
});

test('alone one host may have nearly all slots', () => {
  const lanes = open(224, 16);
  expect(lanes, 0, ...manyFor('1/1', 196));
  const begun: Batch[] = [];
  for (let batch = lanes.next(0); batch; batch = lanes.next(0)) {
    lanes.leased(batch, batch.slots, undefined, 0);
    begun.push(batch);
  }
  assert.ok(begun.every((batch) => lanes.enter(batch, '192.0.2.1', batch.host)));
  assert.equal(begun.length, 196);
});

test('who waits for more than his share has no right to slots of those below theirs', () => {
  const lanes = open(224, 16);
  expect(lanes, 0, ...manyFor('1/1', 400));
  expect(lanes, 0, lane('slow', '2/2'));
  takeAll(lanes);
  assert.equal(lanes.waiting, 'beyond');
  assert.equal(lanes.isWanted(lane('1/1-0', '1/1')), true);
  assert.equal(lanes.isWanted(lane('slow', '2/2')), false);
});

test('a later row comes at its time, one beyond the horizon is not kept', () => {
  const lanes = open();
  expect(lanes, 1_000, lane('soon'));
  expect(lanes, 900, lane('sooner'));
  expect(lanes, HORIZON + 1, lane('late'));
  assert.equal(lanes.nextDue, 900);
  assert.equal(lanes.next(899), undefined);
  assert.deepEqual([...takeAll(lanes, 1_000).keys()].sort(), ['soon', 'sooner']);
  assert.deepEqual(takeAll(lanes, HORIZON + 1), new Map());
});

test('a row that comes during a lease is not forgotten', () => {
  const lanes = open();
  expect(lanes, 0, lane('a'));
  const batch = lanes.next(0);
  assert.ok(batch);
  assert.equal(lanes.next(0), undefined);
  expect(lanes, 0, lane('a'));
  assert.equal(lanes.next(0), undefined, 'one lease at a time');
  lanes.leased(batch, 0, undefined, 0);
  assert.equal(lanes.next(0)?.destination, 'a');
});

test('the number of lanes is limited; each sender has room for his share, or for one', () => {
  const lanes = open();
  assert.equal(expect(lanes, 5_000, ...manyFor('1/1', 500)), true);
  assert.equal(expect(lanes, 5_000, lane('one more')), false);
  assert.equal(lanes.hasRoomFor('1/1'), false);
  for (let n = 2; n <= 20; n++) expect(lanes, 5_000, ...manyFor(`1/${n}`, 500));
  assert.equal(expect(lanes, 5_000, ...manyFor('2/1', 64)), true);
  assert.equal(expect(lanes, 5_000, lane('one more', '2/1')), false);
  for (let n = 0; n < 1_407; n++) expect(lanes, 5_000, ...manyFor(`3/${n}`, 64));
  assert.equal(expect(lanes, 0, lane('one', '2/21')), true);
  assert.equal(expect(lanes, 0, lane('two', '2/21')), false);
  assert.equal(lanes.next(0)?.destination, 'one');
});

test('many accounts of one domain leave room for the lanes of another sender', () => {
  const lanes = open(224, 16);
  for (let account = 0; account < 20; account++) {
    expect(lanes, 0, ...manyFor(`1/${account}`, 500));
  }
  for (let n = 0; n < 28; n++) assert.ok(lanes.expect(lane(`far-${n}`, '2/1'), 0, 0), `${n}`);
});

test('a lane that cannot have slots lets another sender go on at its destination', () => {
  const lanes = open(224, 16);
  const take = () => {
    const senders: string[] = [];
    for (let batch = lanes.next(0); batch; batch = lanes.next(0)) {
      lanes.leased(batch, 1, undefined, 0);
      senders.push(batch.sender);
    }
    return senders;
  };
  // One at a time, and one is under way.
  for (let n = 0; n <= 5; n++) {
    if (n > 0) lanes.settled(lane('failing', '9/9'), 'temporary', 0);
    expect(lanes, 0, lane('failing', '9/9'));
    take();
  }
  expect(lanes, 0, lane('failing', '1/1'), ...manyFor('1/1', 400));
  take();
  expect(lanes, 0, lane('failing', '2/2'));
  assert.deepEqual(take(), []);
  lanes.settled(lane('failing', '9/9'), 'temporary', 0);
  assert.deepEqual(take(), ['2/2']);
});

test('of many lanes of a destination whose slots other nodes hold, one asks at a time', () => {
  const lanes = open();
  const all = Array.from({ length: 100 }, (_, n) => lane('elsewhere', `${n}/1`));
  expect(lanes, 0, ...all);
  const ask = (now: number) => {
    let asked = 0;
    for (let batch = lanes.next(now); batch; batch = lanes.next(now)) {
      lanes.waitForSlot(batch, now + 1_000, now);
      asked++;
    }
    return asked;
  };
  assert.deepEqual([ask(0), ask(999), ask(1_000), ask(1_500), ask(2_000)], [1, 0, 1, 0, 1]);
  // One that has rows anew meanwhile does not ask earlier.
  expect(lanes, 0, ...all);
  assert.deepEqual([ask(2_500), ask(3_000)], [0, 1]);
  const [batch] = [lanes.next(4_000)];
  assert.ok(batch);
  lanes.leased(batch, 1, undefined, 4_000);
  const next = lanes.next(4_000);
  assert.ok(next);
  lanes.waitForSlot(next, 5_000, 4_000);
  assert.equal(lanes.next(4_000), undefined);
  lanes.settled(batch, 'delivered', 4_100);
  assert.ok(lanes.next(4_100), 'the slot that is free here is used at once');
});

test('what has ended is forgotten', () => {
  const lanes = open();
  expect(lanes, 0, ...manyFor('1/1', 500));
  for (let batch = lanes.next(0); batch; batch = lanes.next(0)) {
    lanes.leased(batch, 1, undefined, 0);
    lanes.settled(batch, 'delivered', 0);
  }
  assert.ok(lanes.hasRoomFor('1/1'));
  assert.equal(expect(lanes, 0, ...manyFor('1/1', 500)), true);
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
    // Four failures in a row: each slot is filled again.
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
    // It answers again: all slots are used again.
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

  test('many slow destinations together leave a slot for a new one', async () => {
    const bench = await openQueueBench(engine);
    for (let n = 0; n < 10; n++) await bench.fill(`slow${n}`, 40);
    const { queue, receiver } = bench.start({ concurrency: 64 });
    await receiver.nth(55);
    await turns(20);
    assert.equal(receiver.attempts.length, 56);
    await bench.enqueue(queue, bench.delivery('new', { accountId: 1 }));
    assert.equal((await receiver.nth(56)).job.destination, 'new');
  });

  test('one sender with many due rows hides no other, neither at his destinations nor at one of them', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill('all', 2_000, 1);
    await bench.fill((n) => `only${n}`, 2_000, 1);
    await bench.clock.advance(1_000);
    await bench.fill('all', 1, 2);
    await bench.fill('zebra', 1, 3);
    const { receiver } = bench.start({ concurrency: 64, perDestination: 4 });
    const isOf = (sender: number) =>
      receiver.attempts.some(({ job }) => job.payload === `${sender}`);
    await until(() => isOf(3));
    for (const { answer, job } of receiver.attempts)
      if (job.destination === 'all') answer(delivered);
    await until(() => isOf(2));
    // The others have not been answered.
    assert.ok(receiver.attempts.length <= 64 + 4);
  });

  test('a row from before 0.4.0, which names no sender, is attempted', async () => {
    const bench = await openQueueBench(engine);
    await bench.enqueue(bench.queue(), bench.delivery('a'), bench.delivery('b', { accountId: 1 }));
    await bench.database.write((tx) =>
      tx.updateTable('deliveries').set({ sender: '' }).where('destination', '=', 'a').execute(),
    );
    const { queue, receiver } = bench.start();
    receiver.respond = () => delivered;
    await until(() => receiver.attempts.length === 2);
    await queue.idle();
    assert.deepEqual(receiver.attempts.map(({ job }) => job.destination).sort(), ['a', 'b']);
  });

  test('an attempt at a host that holds its share is put back, and does not count', async () => {
    const bench = await openQueueBench(engine);
    for (let n = 0; n < 10; n++) await bench.fill((at) => `d${n}-${at}`, 4, n);
    const slots: Slot[] = [];
    const ends: (() => void)[] = [];
    const options: Partial<WorkOptions<string>> = {
      concurrency: 16,
      attempt: (_job, _signal, slot) => {
        slots.push(slot);
        slot.enter('192.0.2.1');
        return new Promise((resolve) => ends.push(() => resolve({ ...delivered })));
      },
    };
    const { queue } = bench.start(options);
    await until(() => slots.length > ends.length);
    const read = () =>
      bench.database.read
        .selectFrom('deliveries')
        .select(['status', 'attempts', 'next_attempt_at']);
    const due = bench.clock.now() + 5_000;
    let putBack: { attempts: number }[] = [];
    while (putBack.length === 0) {
      putBack = await read().where('next_attempt_at', '=', due).execute();
      await turns(20);
    }
    assert.ok(putBack.every(({ attempts }) => attempts === 0));
    for (let done = 0; done < 40; ) {
      const some = ends.splice(0);
      done += some.length;
      for (const end of some) end();
      if (some.length === 0) await bench.pass(1_000);
      await turns(20);
    }
    await queue.idle();
    const rows = await read().execute();
    assert.ok(rows.every(({ status, attempts }) => status === 'delivered' && attempts === 1));
  });

  test('who waits for a slot ends an attempt that may wait for nothing', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill((n) => `slow${n}`, 40, 1);
    let ended = 0;
    const attempted: string[] = [];
    const patient: (() => void)[] = [];
    const { queue } = bench.start({
      concurrency: 16,
      attempt: ({ destination }, _signal, slot) => {
        attempted.push(destination);
        return new Promise((resolve) => {
          const end = () => {
            ended++;
            resolve(refused);
          };
          patient.push(() => void slot.whenWanted(end));
        });
      },
    });
    await until(() => attempted.length === 14);
    await bench.enqueue(queue, ...['a', 'b'].map((to) => bench.delivery(to, { accountId: 2 })));
    await until(() => attempted.length === 15);
    await turns(20);
    assert.deepEqual([attempted.includes('a'), attempted.includes('b'), ended], [true, false, 0]);
    patient[0]?.();
    await until(() => attempted.includes('b'));
    assert.equal(ended, 1);
  });

  test('of the user who has most slots the attempt ends, whoever has waited for longest', async () => {
    const bench = await openQueueBench(engine);
    const attempted: string[] = [];
    const ended: string[] = [];
    const { queue } = bench.start({
      concurrency: 16,
      attempt: ({ destination }, _signal, slot) => {
        attempted.push(destination);
        return new Promise((resolve) => {
          slot.whenWanted(() => {
            ended.push(destination);
            resolve(refused);
          });
        });
      },
    });
    const of = (domainId: number, to: string) =>
      bench.delivery(to, { domainId, accountId: domainId });
    await bench.enqueue(queue, of(1, 'tarpit'));
    await until(() => attempted.length === 1);
    const floods = Array.from({ length: 30 }, (_, n) => of(2 + (n % 3), `drip${n}`));
    await bench.enqueue(queue, ...floods);
    await until(() => attempted.length >= 15);
    const others = ['a', 'b', 'c', 'd'];
    await bench.enqueue(queue, ...others.map((to, n) => of(9 + n, to)));
    await until(() => others.every((to) => attempted.includes(to)));
    assert.ok(ended.length > 0);
    assert.ok(!ended.includes('tarpit'), ended.join(' '));
  });

  test('a lane that sorts before those without room is read with them', async () => {
    const bench = await openQueueBench(engine);
    const names = (n: number) => `m${String(n).padStart(4, '0')}.test`;
    await bench.fill(names, 700);
    const { queue, receiver } = bench.start({ concurrency: 64 });
    await receiver.nth(0);
    await turns();
    await bench.enqueue(queue, bench.delivery('a.test'));
    receiver.respond = () => delivered;
    for (const one of receiver.attempts) one.answer(delivered);
    await queue.idle();
    assert.equal(receiver.attempts.length, 701);
  });

  test('of more destinations than one look reads, all get their turn', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill((n) => `d${n}`, 700);
    const { queue, receiver } = bench.start({ concurrency: 64 });
    receiver.respond = () => delivered;
    await until(() => receiver.attempts.length === 700);
    await queue.idle();
    assert.equal(new Set(receiver.attempts.map(({ job }) => job.destination)).size, 700);
  });
});
