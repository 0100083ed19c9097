/** Whose writes wait for whose, and for how long. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { WriteLine } from './mail-user.ts';

/** A line, and writes in it that end when the test says so. */
function openLine(engine: 'postgres' | 'sqlite') {
  const line = new WriteLine({ engine });
  const begun: string[] = [];
  const begin = (name: string, accountIds: readonly number[]) => {
    const { promise, resolve: end } = Promise.withResolvers<void>();
    const written = line.run(accountIds, () => {
      begun.push(name);
      return promise;
    });
    return { written, end };
  };
  return { begin, begun };
}

test('on PostgreSQL the third write of an account waits, and those of other accounts do not', async () => {
  const { begin, begun } = openLine('postgres');
  const [first, second] = [begin('first', [1]), begin('second', [1])];
  const third = begin('third', [1, 2]);
  const other = begin('other', [2]);
  await turn();
  assert.deepEqual(begun.toSorted(), ['first', 'other', 'second']);
  first.end();
  await first.written;
  await turn();
  assert.equal(begun.at(-1), 'third');
  for (const { end } of [second, third, other]) end();
  await Promise.all([second.written, third.written, other.written]);
});

test('one that waits too long is refused and never runs', async (t) => {
  const time = new AbortController();
  t.mock.method(AbortSignal, 'timeout', () => time.signal);
  const { begin, begun } = openLine('postgres');
  const [first, second] = [begin('first', [1]), begin('second', [1])];
  const late = begin('late', [3, 1]);
  const refused = assert.rejects(late.written, { code: 'unavailable' });
  await turn();
  time.abort();
  await refused;
  for (const { end } of [first, second]) end();
  await Promise.all([first.written, second.written]);
  const next = begin('next', [3, 1]);
  await turn();
  assert.deepEqual(begun, ['first', 'second', 'next']);
  next.end();
  await next.written;
});

test('on SQLite none waits', () => {
  const { begin, begun } = openLine('sqlite');
  for (const name of ['a', 'b', 'c']) begin(name, [1]).end();
  assert.deepEqual(begun, ['a', 'b', 'c']);
});
