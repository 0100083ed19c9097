/** Shares of the event loop: a party that works much waits, and nobody else waits for more than its share. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { enterTurn, takeTurn } from './turns.ts';

let now = 0;

/** The clock of a test moves on by its work alone; the other tests of the process have the real one. */
function ownClock(t: TestContext): void {
  t.mock.method(performance, 'now', () => now);
}

/** Works like a query: nothing else runs meanwhile. */
function work(milliseconds: number): void {
  now += milliseconds;
}

const partiesOf = (userId: string, accountId: number) => [
  { name: `account ${accountId}`, most: 2 },
  { name: `user ${userId}`, most: 4 },
];

test('pieces of work of an account have a share of each turn, and those of a user, each in its order', async (t) => {
  ownClock(t);
  const took: string[] = [];
  const run = async (userId: string, accountId: number) => {
    for (let piece = 0; piece < 3; piece++) {
      await takeTurn(partiesOf(userId, accountId));
      took.push(`${userId}${accountId}`);
      work(3);
    }
  };
  const count = (of: string) => took.filter((one) => one.startsWith(of)).length;
  const many = Array.from({ length: 10 }, () => run('a', 1));
  const beside = run('a', 2);
  const accounts = Array.from({ length: 10 }, (_, at) => run('b', 10 + at));
  await run('c', 3);
  // In each of three turns one of an account, and two of a user.
  assert.equal(count('a1'), 3);
  assert.equal(count('a'), 6);
  assert.equal(count('b'), 6);
  await beside;
  await Promise.all([...many, ...accounts]);
  assert.equal(took.length, 66);
});

test('a request begins at once until its share is used up, and in the next turn after that', async (t) => {
  ownClock(t);
  await turn();
  assert.equal(enterTurn(partiesOf('d', 4)), undefined);
  work(1);
  assert.equal(enterTurn(partiesOf('d', 4)), undefined);
  work(2);
  const waits = enterTurn(partiesOf('d', 4));
  assert.ok(waits);
  assert.equal(enterTurn(partiesOf('d', 5)), undefined);
  work(1);
  // All accounts of the user together have used its share.
  const others = enterTurn(partiesOf('d', 6));
  assert.ok(others);
  assert.equal(enterTurn(partiesOf('e', 7)), undefined);
  await Promise.all([waits, others]);
});

test('those who wait go before those who come later', async (t) => {
  ownClock(t);
  await turn();
  const begun: number[] = [];
  const begin = async (number: number) => {
    await enterTurn(partiesOf('f', 8));
    begun.push(number);
    work(3);
  };
  const first = Array.from({ length: 4 }, (_, number) => begin(number));
  await turn();
  await Promise.all([...first, begin(4), begin(5)]);
  assert.deepEqual(begun, [0, 1, 2, 3, 4, 5]);
});

test('one that works without end is not before those who wait', async (t) => {
  ownClock(t);
  await turn();
  let isOver = false;
  const endless = (async () => {
    while (!isOver) {
      await takeTurn(partiesOf('g', 9));
      work(5);
    }
  })();
  const took: number[] = [];
  const wait = async (number: number) => {
    await enterTurn(partiesOf('g', number));
    took.push(number);
    work(3);
  };
  await turn();
  const waiting = [wait(9), wait(9), wait(10)];
  for (let turns = 0; turns < 20; turns++) await turn();
  isOver = true;
  assert.deepEqual(took.toSorted(), [10, 9, 9]);
  await Promise.all([endless, ...waiting]);
});

test('of those who share a turn, each network goes in its turn, however many of another wait', async (t) => {
  ownClock(t);
  await turn();
  const took: string[] = [];
  const run = async (network: string, client: number) => {
    const all = { name: 'all mail', most: 6 };
    const most = Number.POSITIVE_INFINITY;
    await takeTurn([{ name: `client ${client}`, most }, { name: network, most }, all]);
    took.push(network);
    work(3);
  };
  const flood = Array.from({ length: 40 }, (_, at) => run(`flood ${at % 2}`, at));
  const one = Promise.all([run('one', 100), run('one', 101)]);
  await one;
  // In a round each of the three has one; the first of all went before the others had come.
  assert.ok(took.length <= 10, `${took.length} of 42 went until then`);
  await Promise.all(flood);
});
