import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { cuts } from '../../../test/support/message/sample-messages.ts';
import { BodyHash, type Canonicalization, canonicalField, signedText } from './dkim.ts';

const sha256 = (text: string) =>
  createHash('sha256').update(Buffer.from(text, 'latin1')).digest('base64');

function hashOf(canon: Canonicalization, chunks: readonly Buffer[]) {
  const hash = new BodyHash(canon);
  for (const chunk of chunks) hash.write(chunk);
  return hash.end();
}

function cut(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const end = at + Math.max(lengths[index % lengths.length] ?? 1, 1);
    chunks.push(bytes.subarray(at, end));
    at = end;
  }
  return chunks;
}

/** RFC 6376 sections 3.4.3 and 3.4.4, implemented literally. */
function canonical(body: string, canon: Canonicalization): string {
  const lines = body.replace(/\r?\n/g, '\r\n');
  const relaxed = lines.replace(/[ \t]+(?=\r\n|$)/g, '').replace(/[ \t]+/g, ' ');
  let text = canon === 'relaxed' ? relaxed : lines;
  while (text.endsWith('\r\n')) text = text.slice(0, -2);
  return text === '' && canon === 'relaxed' ? '' : `${text}\r\n`;
}

const cases: [body: string, simple: string, relaxed: string][] = [
  // RFC 6376 section 3.4.5 and 3.4.6.
  [' C \r\nD \t E\r\n\r\n\r\n', ' C \r\nD \t E\r\n', ' C\r\nD E\r\n'],
  ['', '\r\n', ''],
  ['\r\n', '\r\n', ''],
  ['\r\n\r\n\n', '\r\n', ''],
  ['a', 'a\r\n', 'a\r\n'],
  ['a\r\n', 'a\r\n', 'a\r\n'],
  ['a\nb\r\n\nc\n\n', 'a\r\nb\r\n\r\nc\r\n', 'a\r\nb\r\n\r\nc\r\n'],
  ['a \t', 'a \t\r\n', 'a\r\n'],
  [' \t', ' \t\r\n', ''],
  [' \r\n \r\n', ' \r\n \r\n', ''],
  ['\r\n a', '\r\n a\r\n', '\r\n a\r\n'],
  ['a\rb', 'a\rb\r\n', 'a\rb\r\n'],
  ['a \rb', 'a \rb\r\n', 'a \rb\r\n'],
  ['a\r\r\nb', 'a\r\r\nb\r\n', 'a\r\r\nb\r\n'],
  ['a\r \nb', 'a\r \r\nb\r\n', 'a\r\r\nb\r\n'],
  ['\n\n\n\n\n\n\n\na', `${'\r\n'.repeat(8)}a\r\n`, `${'\r\n'.repeat(8)}a\r\n`],
];

suite('body hashes', () => {
  for (const [body, simple, relaxed] of cases) {
    test(JSON.stringify(body), () => {
      const bytes = Buffer.from(body, 'latin1');
      for (const chunks of [[bytes], cut(bytes, [1])]) {
        const expected = { hash: sha256(simple), length: simple.length };
        assert.deepEqual(hashOf('simple', chunks), expected);
        const relaxedExpected = { hash: sha256(relaxed), length: relaxed.length };
        assert.deepEqual(hashOf('relaxed', chunks), relaxedExpected);
      }
    });
  }

  const piece = fc.oneof(
    fc.constantFrom('\r\n', '\n', '\r', ' ', '\t', 'a', 'bc', '\0', '\xff', '\r\n\r\n', 'a b'),
    fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
    fc.constantFrom('x'.repeat(3_000), '\r\n'.repeat(4_000), ' '.repeat(50), 'y z\r\n'.repeat(500)),
  );
  const canon = fc.constantFrom<Canonicalization>('simple', 'relaxed');

  test('are those of the canonical body, for all chunks', () => {
    fc.assert(
      fc.property(fc.array(piece), canon, cuts, (parts, form, lengths) => {
        const body = parts.join('');
        const text = canonical(body, form);
        const expected = { hash: sha256(text), length: text.length };
        assert.deepEqual(hashOf(form, cut(Buffer.from(body, 'latin1'), lengths)), expected);
      }),
      { numRuns: 1_000 },
    );
  });
});

suite('signed headers', () => {
  const fields = ['A : X ', 'B : Y\t\r\n\tZ  '].map((text) => ({
    name: text.charAt(0).toLowerCase(),
    text,
  }));

  test('the examples of RFC 6376 section 3.4.5', () => {
    assert.deepEqual(
      fields.map(({ text }) => canonicalField(text, 'relaxed')),
      ['a:X', 'b:Y Z'],
    );
    assert.deepEqual(
      fields.map(({ text }) => canonicalField(text, 'simple')),
      ['A : X ', 'B : Y\t\r\n\tZ  '],
    );
  });

  test('fields are used from the bottom up, and a missing field is empty', () => {
    const all = [{ name: 'a', text: 'A: 1' }, ...fields, { name: 'a', text: 'A: 2\n 3' }];
    const names = ['a', 'x', 'b', 'a', 'a', 'a'];
    assert.equal(
      signedText(all, names, 'S: b=', 'relaxed'),
      'a:2 3\r\nb:Y Z\r\na:X\r\na:1\r\ns:b=',
    );
    assert.equal(signedText(all, ['a'], 'S: b=', 'simple'), 'A: 2\r\n 3\r\nS: b=');
  });
});
