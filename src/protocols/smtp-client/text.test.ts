/** Replies, whatever a server sends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  DotTransparency,
  enhancedOf,
  formatReply,
  isFinalRefusal,
  type Reply,
  ReplyReader,
  SmtpFailure,
} from './text.ts';

/** The result of reading a conversation: its replies, and whether it broke off. */
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

test('replies are the same for all chunks, and only a failure is thrown', () => {
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

test('5xx is final, except codes that are no fault of the message', () => {
  const final = [550, 554, 552, 503, 530, 535, 451, 250].filter((code) =>
    isFinalRefusal({ code, text: '' }),
  );
  assert.deepEqual(final, [550, 554, 552]);
});

test('a refusal without an enhanced code gets the most general of its class', () => {
  assert.deepEqual(
    [550, 451, 354].map((code) => enhancedOf({ code, text: '' })),
    ['5.0.0', '4.0.0', '4.5.0'],
  );
  assert.equal(enhancedOf({ code: 550, enhanced: '5.1.1', text: '' }), '5.1.1');
});

/** RFC 5321 section 4.5.2 line by line: slow, and easy to check. */
function reference(wire: string): { content: string; rest: string | undefined } {
  let content = '';
  let left = wire;
  for (;;) {
    const end = left.indexOf('\r\n');
    const line = end < 0 ? left : left.slice(0, end + 2);
    if (line === '.\r\n') return { content, rest: left.slice(3) };
    content += line.startsWith('.') ? line.slice(1) : line;
    left = left.slice(line.length);
    if (end < 0) return { content, rest: undefined };
  }
}

function take(chunks: readonly string[]): { content: string; rest: string | undefined } {
  const transparency = new DotTransparency();
  let content = '';
  for (const [index, chunk] of chunks.entries()) {
    const taken = transparency.take(Buffer.from(chunk));
    content += taken.content.toString();
    if (taken.rest !== undefined) {
      return { content, rest: taken.rest.toString() + chunks.slice(index + 1).join('') };
    }
  }
  return { content, rest: undefined };
}

test('a message is the same however the network splits it', () => {
  const wire = 'a\r\n..b\r\n...\r\n.c\r\n\r\n\n..\r..\r\n.\n\r\n.\r\r\n.\r\nNEXT\r\n.\r\n';
  const whole = reference(wire);
  assert.equal(whole.rest, 'NEXT\r\n.\r\n');
  for (let first = 0; first <= wire.length; first++) {
    for (let second = first; second <= wire.length; second++) {
      const chunks = [wire.slice(0, first), wire.slice(first, second), wire.slice(second)];
      assert.deepEqual(take(chunks), whole, JSON.stringify(chunks));
    }
  }
  assert.deepEqual(take([...wire]), whole);
});

test('any bytes in any chunks are read as RFC 5321 says', () => {
  const wire = fc.string({
    unit: fc.constantFrom('\r', '\n', '.', 'a', '\r\n', '\r\n.'),
    maxLength: 40,
  });
  fc.assert(
    fc.property(fc.array(wire, { maxLength: 6 }), (chunks) => {
      const expected = reference(chunks.join(''));
      const actual = take(chunks);
      // A dot, and a CR after it, are held back at the end of the input, until it is known what they are.
      if (expected.rest === undefined && actual.rest === undefined) {
        const held = expected.content.slice(actual.content.length);
        assert.ok(['', '\r'].includes(held), JSON.stringify(held));
        assert.equal(actual.content, expected.content.slice(0, actual.content.length));
      } else {
        assert.deepEqual(actual, expected);
      }
    }),
    { numRuns: 5000 },
  );
});

test('stuffing a message and reading it gives the same message', () => {
  const text = fc.string({ unit: fc.constantFrom('\r', '\n', '.', 'a', '\r\n'), maxLength: 60 });
  fc.assert(
    fc.property(text, fc.nat(64), (body, cut) => {
      const message = `${body}\r\n`;
      const wire = `${message.replaceAll(/(^|\r\n)\./g, '$1..')}.\r\n`;
      const { content, rest } = take([wire.slice(0, cut), wire.slice(cut)]);
      assert.deepEqual({ content, rest }, { content: message, rest: '' });
    }),
    { numRuns: 2000 },
  );
});
