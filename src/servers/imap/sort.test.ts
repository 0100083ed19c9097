/** Base subjects (RFC 5256 section 2.1), and how numbers are put in order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { sortInTurns } from './long-work.ts';
import { readBaseSubject, textKey } from './sort-keys.ts';

const subjects: readonly (readonly [subject: string, base: string, isReply: boolean])[] = [
  ['Minutes', 'Minutes', false],
  ['Re: Minutes', 'Minutes', true],
  ['RE[2] : fw:  Minutes (fwd) (FWD)  ', 'Minutes', true],
  ['Re: [list] Fwd: [other] Minutes', 'Minutes', true],
  ['[list] Minutes', 'Minutes', false],
  ['[list]', '[list]', false],
  ['[a][b] Re: [c]', '[c]', true],
  ['[Fwd: Re: [fwd: Minutes]]', 'Minutes', true],
  ['Regards: Minutes', 'Regards: Minutes', false],
  ['Minutes (a)', 'Minutes (a)', false],
  ['Re:', '', true],
  ['', '', false],
  ['a \t b', 'a b', false],
  ['Antw: Minutes', 'Antw: Minutes', false],
];

for (const [subject, text, isReply] of subjects) {
  test(`the base of ${JSON.stringify(subject)}`, () => {
    assert.deepEqual(readBaseSubject(subject), { text, isReply });
  });
}

test('a base subject is its own base, whatever a stranger writes', () => {
  const word = fc.constantFrom('re', 'Fwd', ':', '[', ']', '(fwd)', ' ', '[fwd:', 'x', '[a]', '\t');
  const subject = fc.array(word, { maxLength: 400 }).map((words) => words.join(''));
  fc.assert(
    fc.property(subject, (one) => {
      const { text } = readBaseSubject(one);
      assert.deepEqual(readBaseSubject(text), { text, isReply: false });
    }),
  );
});

test('many numbers are put in order, and equal ones stay as they were', async () => {
  for (const length of [0, 1, 4_096, 4_097, 20_011]) {
    const keys = Array.from({ length }, (_, at) => (at * 7_919) % 501);
    const compare = (a: number, b: number) => (keys[a] ?? 0) - (keys[b] ?? 0) || a - b;
    const expected = Array.from(keys.keys()).sort(compare);
    assert.deepEqual(Array.from(await sortInTurns(length, compare)), expected);
  }
});

test('a key of an order does not keep the text that it was cut from in memory', () => {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  const keyOf = (at: number) => {
    const { subject } = JSON.parse(`{"subject":"${at}${'X'.repeat(60_000)}"}`);
    return textKey(readBaseSubject(subject).text);
  };
  collect();
  const before = process.memoryUsage().heapUsed;
  const keys = Array.from({ length: 1_000 }, (_, at) => keyOf(at));
  collect();
  const held = process.memoryUsage().heapUsed - before;
  assert.ok(held < 5_000_000, `${held} octets for ${keys.length} keys`);
  assert.equal(keys[7], `7${'X'.repeat(127)}`);
});
