import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LineEnds } from './text.ts';

/** Whole text with CRLF line ends, by a regular expression. */
const expected = (text: string) => {
  const lines = text.replace(/\r\n|\r|\n/g, '\r\n');
  return lines === '' || lines.endsWith('\r\n') ? lines : `${lines}\r\n`;
};

const cases: [given: string, made: string][] = [
  ['', ''],
  ['a\r\nb\r\n', 'a\r\nb\r\n'],
  ['a\nb\n', 'a\r\nb\r\n'],
  ['a\rb\r', 'a\r\nb\r\n'],
  ['a', 'a\r\n'],
  ['\r', '\r\n'],
  ['\r\r', '\r\n\r\n'],
  ['\r\r\n', '\r\n\r\n'],
  ['\n\r', '\r\n\r\n'],
  ['\r\n.\n.\r\n.\r.\r\n', '\r\n.\r\n.\r\n.\r\n.\r\n'],
];
for (const [given, made] of cases) {
  test(`${JSON.stringify(given)} becomes ${JSON.stringify(made)}`, () => {
    const lineEnds = new LineEnds();
    const start = lineEnds.write(Buffer.from(given)).toString();
    assert.equal(start + lineEnds.end().toString(), made);
  });
}

test('for all chunks, all line ends become CRLF and nothing else changes', () => {
  const piece = fc.string({ unit: fc.constantFrom('\r', '\n', '\r\n', 'a', '.'), maxLength: 6 });
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const lineEnds = new LineEnds();
      const written = pieces.map((text) => lineEnds.write(Buffer.from(text)).toString());
      assert.equal(written.join('') + lineEnds.end().toString(), expected(pieces.join('')));
    }),
    { numRuns: 2_000 },
  );
});
