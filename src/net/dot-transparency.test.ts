import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DotTransparency } from './dot-transparency.ts';

/** What RFC 5321 section 4.5.2 says, line by line: slow, and plain to see. */
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

test('a message is the same wherever the network cuts it', () => {
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

test('any bytes in any chunks come out as RFC 5321 says', () => {
  const wire = fc.string({
    unit: fc.constantFrom('\r', '\n', '.', 'a', '\r\n', '\r\n.'),
    maxLength: 40,
  });
  fc.assert(
    fc.property(fc.array(wire, { maxLength: 6 }), (chunks) => {
      const expected = reference(chunks.join(''));
      const actual = take(chunks);
      // A dot, and a CR after it, are held back at the end of the input, until they can be judged.
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

test('stuffing a message and taking it gives the message back', () => {
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
