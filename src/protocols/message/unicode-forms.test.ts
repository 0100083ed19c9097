import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { decodeText } from './text.ts';

/** UTF-7 of any text: all but letters as UTF-16 in base64 (RFC 2152). */
function encodeUtf7(text: string): string {
  return text.replace(/[^A-Za-z]+/g, (run) => {
    const units = Buffer.from(run, 'utf16le').swap16();
    return `+${units.toString('base64').replace(/=+$/, '')}-`;
  });
}

function encodeUtf32(text: string, isLittle: boolean): Buffer {
  const points = Array.from(text, (character) => character.codePointAt(0) ?? 0);
  const bytes = Buffer.alloc(4 * points.length);
  for (const [at, point] of points.entries()) {
    if (isLittle) bytes.writeUInt32LE(point, 4 * at);
    else bytes.writeUInt32BE(point, 4 * at);
  }
  return bytes;
}

const texts = fc.string({ unit: anyCharacter }).map((text) => text.toWellFormed());

test('UTF-7: the samples of RFC 2152, and text that is not encoded', () => {
  for (const [encoded, text] of [
    ['A+ImIDkQ.', 'A≢Α.'],
    ['Hi Mom -+Jjo--!', 'Hi Mom -☺-!'],
    ['+ZeVnLIqe', '日本語'],
    ['1 +- 1', '1 + 1'],
    ['1 + 1', '1 + 1'],
    ['+A', '+A'],
    ['+2D3cAA-', '🐀'],
    ['+2D0-', '\ufffd'],
    ['', ''],
  ] as const) {
    assert.equal(decodeText(Buffer.from(encoded), 'UTF-7'), text, encoded);
    assert.equal(decodeText(Buffer.from(encoded), 'unicode-1-1-utf-7'), text, encoded);
  }
});

test('UTF-32: the order is that of its name, of the mark, or the one in which the text is possible', () => {
  const text = 'Grüße 🎉';
  const big = encodeUtf32(text, false);
  const little = encodeUtf32(text, true);
  assert.equal(decodeText(big, 'utf-32be'), text);
  assert.equal(decodeText(little, 'UTF-32LE'), text);
  assert.equal(decodeText(big, 'utf-32'), text);
  assert.equal(decodeText(little, 'utf-32'), text);
  assert.equal(decodeText(encodeUtf32(`\ufeff${text}`, false), 'utf-32'), text);
  assert.equal(decodeText(encodeUtf32(`\ufeff${text}`, true), ' UTF-32 '), text);
  assert.equal(decodeText(big.subarray(0, 6), 'utf-32'), 'G\ufffd');
  assert.equal(decodeText(Buffer.from('0000d800', 'hex'), 'utf-32be'), '\ufffd');
  assert.equal(decodeText(Buffer.from('00110000', 'hex'), 'utf-32be'), '\ufffd');
});

test('UTF-16 in big endian is told by its mark', () => {
  assert.equal(decodeText(Buffer.from('feff20ac', 'hex'), 'utf-16'), '€');
  assert.equal(decodeText(Buffer.from('fffeac20', 'hex'), 'UTF-16'), '€');
  assert.equal(decodeText(Buffer.from('ac20', 'hex'), 'utf-16'), '€');
});

test('property: what is encoded is decoded', () => {
  fc.assert(
    fc.property(texts, (text) => {
      assert.equal(decodeText(Buffer.from(encodeUtf7(text)), 'utf-7'), text);
      const marked = `\ufeff${text}`;
      assert.equal(decodeText(encodeUtf32(marked, false), 'utf-32'), text);
      assert.equal(decodeText(encodeUtf32(marked, true), 'utf-32'), text);
    }),
    { numRuns: 500 },
  );
});

test('property: any bytes give well-formed text', () => {
  fc.assert(
    fc.property(
      fc.uint8Array(),
      fc.constantFrom('utf-7', 'utf-32', 'utf-32le'),
      (bytes, charset) => {
        assert.equal(decodeText(bytes, charset).isWellFormed(), true);
      },
    ),
    { numRuns: 1_000 },
  );
});
