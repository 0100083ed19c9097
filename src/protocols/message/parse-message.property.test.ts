import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  checkParsed,
  contentOf,
  cuts,
  knownMessages,
  leavesOf,
  lines,
  mutatedMessages,
  parse,
  readCorpus,
} from '../../../test/support/message/sample-messages.ts';

test('the parts of a well-formed message have the content that was put into them', () => {
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

test('any bytes give a structure with correct offsets, sizes and numbers', () => {
  fc.assert(
    fc.property(mutatedMessages, (source) => checkParsed(source, parse(source))),
    { numRuns: 3_000 },
  );
});

test('the chunks of a message make no difference', () => {
  fc.assert(
    fc.property(mutatedMessages, cuts, (source, lengths) => {
      const whole = parse(source);
      assert.deepEqual(parse(source, lengths), whole);
      assert.deepEqual(parse(source, [1]), whole);
    }),
    { numRuns: 1_000 },
  );
});

test('lines of any length are counted', () => {
  const line = fc
    .record({ length: fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: 200 })), times: fc.nat(1_500) })
    .map(({ length, times }) => `${'x'.repeat(length)}\n`.repeat(times));
  fc.assert(
    fc.property(fc.array(line, { maxLength: 4 }), fc.constantFrom('', 'open'), (text, last) => {
      const body = text.join('') + last;
      const parsed = parse(Buffer.from(`\n${body}`));
      assert.equal(parsed.structure.lines, body.match(/.*\n|.+$/g)?.length ?? 0);
    }),
    { numRuns: 200 },
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

test('a long message can be cut into long chunks at every place of its lines', () => {
  const source = lines(
    ...Array.from({ length: 300 }, (_, at) => `X-Field-${at}: value`),
    'Content-Type: multipart/mixed; boundary=b',
    '',
    ...Array.from({ length: 300 }, (_, at) => [`--b`, `X-Part: ${at}`, '', '--c', '']).flat(),
    '--b--',
  );
  const whole = parse(source);
  checkParsed(source, whole);
  assert.equal(whole.structure.childNodes?.length, 300);
  for (let length = 2_001; length < 2_200; length++) {
    assert.deepEqual(parse(source, [length]), whole, `chunks of ${length}`);
  }
});
