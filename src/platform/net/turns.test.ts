import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Turns } from './turns.ts';

/** Tasks that record their start; held ones end when the test says so. */
function openTurns(atOnce: number) {
  const turns = new Turns(atOnce);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const partiesOf = (key: number) => [
    { name: `account ${key}`, most: 1 },
    { name: key < 10 ? 'acme.test' : 'other.test', most: 2 },
  ];
  const run = (name: string, key: number, signal = new AbortController().signal) =>
    turns.run(partiesOf(key), async () => void begun.push(name), signal);
  const hold = (name: string, key: number) => {
    const held = new Promise<void>((resolve) => ends.set(name, resolve));
    const begin = () => {
      begun.push(name);
      return held;
    };
    return turns.run(partiesOf(key), begin, new AbortController().signal);
  };
  return { turns, begun, run, hold, end: (name: string) => ends.get(name)?.() };
}

void suite('turns', () => {
  void test('run one at a time for each key, in the order of the requests', async () => {
    const { begun, run, hold, end } = openTurns(2);
    const [first, second, other, last] = [hold('a', 1), run('b', 1), hold('c', 2), hold('d', 3)];
    await turn();
    assert.deepEqual(begun, ['a', 'c']);
    end('c');
    await other;
    await turn();
    assert.deepEqual(begun, ['a', 'c', 'd']);
    end('a');
    await first;
    await second;
    assert.deepEqual(begun, ['a', 'c', 'd', 'b']);
    end('d');
    await last;
  });

  void test('leave a slot for others where one party has all of its tasks under way', async () => {
    const { turns, begun, run, hold, end } = openTurns(3);
    const held = [hold('a', 1), hold('b', 2), hold('c', 3)];
    await run('d', 11);
    assert.deepEqual(begun, ['a', 'b', 'd']);
    assert.equal(turns.tasksOf('acme.test'), 3);
    for (const name of ['a', 'b']) end(name);
    await turn();
    assert.deepEqual(begun, ['a', 'b', 'd', 'c']);
    end('c');
    await Promise.all(held);
    assert.equal(turns.tasksOf('acme.test'), 0);
  });

  void test('a task counts for all of its parties, also while it waits for one of them', async () => {
    const { turns, run, hold, end } = openTurns(3);
    const held = hold('a', 1);
    const waiting = [run('b', 1), run('c', 1)];
    assert.equal(turns.tasksOf('account 1'), 3);
    assert.equal(turns.tasksOf('acme.test'), 3);
    end('a');
    await Promise.all([held, ...waiting]);
    assert.equal(turns.tasksOf('acme.test'), 0);
  });

  void test('an aborted wait ends, and its task never runs', async () => {
    const { begun, run, hold, end } = openTurns(2);
    const reason = new Error('given up');
    const giving = new AbortController();
    const first = hold('a', 1);
    const waiting = Promise.allSettled([run('b', 1, giving.signal), run('c', 1, giving.signal)]);
    const last = run('d', 1);
    giving.abort(reason);
    end('a');
    await Promise.all([first, last]);
    assert.deepEqual(begun, ['a', 'd']);
    for (const one of await waiting) assert.deepEqual(one, { status: 'rejected', reason });
    await assert.rejects(run('e', 2, giving.signal), reason);
    assert.deepEqual(begun, ['a', 'd']);
  });
});
