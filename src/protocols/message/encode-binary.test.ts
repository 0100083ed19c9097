/** Messages with NUL, as they are stored. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeBinary } from './encode-binary.ts';
import { parseMessage } from './parse-message.ts';
import { findPart } from './structure.ts';
import { decodePart } from './transfer-encoding.ts';

async function* inPieces(octets: Buffer, size: number) {
  for (let at = 0; at < octets.length; at += size) yield octets.subarray(at, at + size);
}

async function encode(source: Buffer, size = 7): Promise<Buffer> {
  const { structure } = await parseMessage(inPieces(source, size));
  const open = (range: { start: number; end: number }) =>
    inPieces(source.subarray(range.start, range.end), size);
  return Buffer.concat(await Array.fromAsync(encodeBinary(structure, source.length, open)));
}

function message(image: Buffer, encoding: string): Buffer {
  const head = [
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    '',
    'text',
    '--b',
    'Content-Type: image/png',
    `Content-Transfer-Encoding:${encoding}`,
    'Content-ID: <1@a.test>',
    '',
    '',
  ];
  return Buffer.concat([Buffer.from(head.join('\r\n')), image, Buffer.from('\r\n--b--\r\n')]);
}

test('a part with NUL becomes base64, and has the same content', async () => {
  const octets = fc.array(fc.constantFrom(0, 0, 10, 13, 45, 98, 200), { maxLength: 400 });
  await fc.assert(
    fc.asyncProperty(octets, fc.integer({ min: 1, max: 100 }), async (codes, size) => {
      // Not a boundary by chance.
      const image = Buffer.from([0, ...codes, 1]).filter((code) => code !== 45) as Buffer;
      const encoded = await encode(message(Buffer.from(image), ' binary'), size);
      assert.ok(!encoded.includes(0));
      const { structure } = await parseMessage(inPieces(encoded, 50));
      const part = findPart(structure, '2');
      assert.deepEqual([part?.encoding, part?.id], ['base64', '<1@a.test>']);
      const body = inPieces(encoded.subarray(part?.bodyStart, part?.bodyEnd), 50);
      const decoded = Buffer.concat(await Array.fromAsync(decodePart('base64', body)));
      assert.deepEqual(decoded, Buffer.from(image));
    }),
  );
});

test('the field may be folded, and everything else stays', async () => {
  const before = message(Buffer.from('\0'), '\r\n 8bit').toString('latin1');
  const after = (await encode(Buffer.from(before, 'latin1'))).toString('latin1');
  const field = 'Content-Transfer-Encoding: base64\r\nContent-Type: image';
  const wanted = before
    .replace('Content-Type: image', field)
    .replace('Content-Transfer-Encoding:\r\n 8bit\r\n', '')
    .replace('\0', 'AA==');
  assert.equal(after, wanted);
});

test('a message without NUL in its parts stays as it is', async () => {
  for (const source of [
    message(Buffer.from('\xff\n\n', 'latin1'), ' binary'),
    message(Buffer.from('AA\0=='), ' base64'),
    Buffer.from('Subject: a\0b\r\n\r\nx'),
  ]) {
    assert.deepEqual(await encode(source), source);
  }
});
