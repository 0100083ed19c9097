import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  checkParsed,
  contentOf,
  cuts,
  knownMessages,
  leavesOf,
  mutatedMessages,
  parse,
  readCorpus,
} from './sample-messages.ts';

test('the parts of a well-formed message hold what was put into them', () => {
  fc.assert(
    fc.property(knownMessages, cuts, ({ source, leaves }, lengths) => {
      const parsed = parse(source, lengths);
      checkParsed(source, parsed);
      const found = leavesOf(parsed.structure).map((part) => [part.part, contentOf(source, part)]);
      assert.deepEqual(found, leaves);
    }),
    { numRuns: 500 },
  );
});

test('any bytes give a structure whose offsets, sizes and numbers hold', () => {
  fc.assert(
    fc.property(mutatedMessages, (source) => checkParsed(source, parse(source))),
    { numRuns: 3_000 },
  );
});

test('how a message is cut into chunks makes no difference', () => {
  fc.assert(
    fc.property(mutatedMessages, cuts, (source, lengths) => {
      const whole = parse(source);
      assert.deepEqual(parse(source, lengths), whole);
      assert.deepEqual(parse(source, [1]), whole);
    }),
    { numRuns: 1_000 },
  );
});

test('every message of the corpus can be cut at every place', () => {
  for (const [name, source] of readCorpus()) {
    const whole = parse(source);
    checkParsed(source, whole);
    for (let at = 1; at < source.length; at++) {
      assert.deepEqual(parse(source, [at, source.length]), whole, `${name} cut at ${at}`);
    }
  }
});
