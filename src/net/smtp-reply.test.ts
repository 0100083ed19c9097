/** Replies, whatever a server says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  enhancedOf,
  formatReply,
  isFinalRefusal,
  type Reply,
  ReplyReader,
  SmtpFailure,
} from './smtp-reply.ts';

/** What a reader makes of a conversation: its replies, and whether it broke off. */
function read(source: Buffer, sizes: readonly number[]): { replies: Reply[]; broke: boolean } {
  const reader = new ReplyReader();
  const replies: Reply[] = [];
  try {
    for (let at = 0, turn = 0; at < source.length; turn++) {
      const size = sizes[turn % sizes.length] ?? 1;
      for (const reply of reader.read(source.subarray(at, at + size))) replies.push(reply);
      at += size;
    }
    return { replies, broke: false };
  } catch (error) {
    assert.ok(error instanceof SmtpFailure);
    return { replies, broke: true };
  }
}

const readOne = (text: string) => read(Buffer.from(`${text}\r\n`), [7]);

for (const [text, code, enhanced, expected] of [
  ['550 5.1.1 no such user', 550, '5.1.1', 'no such user'],
  ['550-5.1.1 no such\n550 5.1.1 user', 550, '5.1.1', 'no such\nuser'],
  ['550-5.7.1 one\r\n550-5.7.1 two\r\n550 5.7.1 three', 550, '5.7.1', 'one\ntwo\nthree'],
  ['451 try later', 451, undefined, 'try later'],
  ['450 5.1.1 odd', 450, undefined, '5.1.1 odd'],
  ['550', 550, undefined, ''],
  ['550 5.1.1', 550, '5.1.1', ''],
  ['550 5.1.12345 odd', 550, undefined, '5.1.12345 odd'],
  ['354 go on', 354, undefined, 'go on'],
] as const) {
  test(JSON.stringify(text), () => {
    const reply = { code, ...(enhanced && { enhanced }), text: expected };
    assert.deepEqual(readOne(text), { replies: [reply], broke: false });
    if (enhanced) assert.deepEqual(readOne(formatReply(reply).trimEnd()).replies, [reply]);
  });
}

for (const text of ['', 'hello', '55 x', '5500 x', '650 x', '550x', '250-a\r\n251 b', '150 x']) {
  test(`${JSON.stringify(text)} is no reply`, () => assert.ok(readOne(text).broke));
}

test('replies are the same however they are cut, and nothing but a failure is thrown', () => {
  const units = ['250', '550', '-', ' ', '5.1.1 ', 'x', '\r\n', '\n', '\r', '\0', '\xff'];
  const bytes = fc
    .array(fc.constantFrom(...units), { maxLength: 60 })
    .map((parts) => Buffer.from(parts.join('')));
  const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(bytes, cuts, (source, sizes) => {
      assert.deepEqual(read(source, sizes), read(source, [source.length + 1]));
    }),
    { numRuns: 2_000 },
  );
});

test('a reply without an end is not read for ever', () => {
  assert.equal(read(Buffer.from('250-x\r\n'.repeat(200)), [100]).broke, true);
  assert.equal(read(Buffer.from(`250 ${'x'.repeat(9_000)}`), [100]).broke, true);
});

test('5xx is for good, but for what is no fault of the message', () => {
  const final = [550, 554, 552, 503, 530, 535, 451, 250].filter((code) =>
    isFinalRefusal({ code, text: '' }),
  );
  assert.deepEqual(final, [550, 554, 552]);
});

test('a refusal without an enhanced code has the vaguest of its class', () => {
  assert.deepEqual(
    [550, 451, 354].map((code) => enhancedOf({ code, text: '' })),
    ['5.0.0', '4.0.0', '4.5.0'],
  );
  assert.equal(enhancedOf({ code: 550, enhanced: '5.1.1', text: '' }), '5.1.1');
});
