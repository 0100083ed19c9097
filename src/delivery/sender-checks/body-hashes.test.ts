import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { BodyHashes, bodyHashKey } from './body-hashes.ts';
import { type BodyCanon, Canonicalizer } from './canonicalize-body.ts';
import { cutAt } from './testing/stream.ts';

function canonical(canon: BodyCanon, chunks: readonly Buffer[]): string {
  const parts: Buffer[] = [];
  const canonicalizer = new Canonicalizer(canon, (bytes) => parts.push(Buffer.from(bytes)));
  for (const chunk of chunks) canonicalizer.write(chunk);
  canonicalizer.end();
  return Buffer.concat(parts).toString('latin1');
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

suite('canonical bodies', () => {
  for (const [body, simple, relaxed] of cases) {
    test(JSON.stringify(body), () => {
      const bytes = Buffer.from(body, 'latin1');
      const bytewise = Array.from(bytes, (byte) => Buffer.from([byte]));
      for (const chunks of [[bytes], bytewise]) {
        assert.equal(canonical('simple', chunks), simple);
        assert.equal(canonical('relaxed', chunks), relaxed);
      }
    });
  }

  const piece = fc.oneof(
    fc.constantFrom('\r\n', '\n', '\r', ' ', '\t', 'a', 'bc', '\0', '\xff', '\r\n\r\n'),
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.constantFrom('x'.repeat(3_000), '\r\n'.repeat(40), ' '.repeat(50), 'y z\r\n'.repeat(500)),
  );
  const body = fc.array(piece).map((parts) => Buffer.from(parts.join(''), 'latin1'));
  const canon = fc.constantFrom<BodyCanon>('simple', 'relaxed');

  test('are those of mailauth, whatever the chunks and the length that is signed', async () => {
    await fc.assert(
      fc.asyncProperty(
        body,
        canon,
        fc.option(fc.nat(200), { nil: undefined }),
        fc.array(fc.nat()),
        async (bytes, bodyCanon, length, cuts) => {
          const limit = length === undefined ? '' : `l=${length}; `;
          const header = `From: a@b.test\r\nDKIM-Signature: v=1; a=rsa-sha256; c=relaxed/${bodyCanon}; d=b.test; s=s; ${limit}h=from; bh=AA==; b=AA==\r\n\r\n`;
          const { results } = await dkimVerify(Buffer.concat([Buffer.from(header), bytes]), {});
          const wanted = { canon: bodyCanon, length };
          const hashes = new BodyHashes([wanted, { canon: bodyCanon, length: undefined }]);
          for (const chunk of cutAt(bytes, cuts)) hashes.write(chunk);
          const ours = hashes.end().get(bodyHashKey(wanted));
          assert.equal(ours?.hash, results[0]?.bodyHash);
          assert.equal(ours?.bodyHashedBytes, results[0]?.canonBodyLength);
          assert.equal(ours?.canonicalizedLength, results[0]?.canonBodyLengthTotal);
        },
      ),
      { numRuns: 300 },
    );
  });
});

test('one pass makes all the hashes that are wanted', () => {
  const sha256 = (text: string) => createHash('sha256').update(text).digest('base64');
  const lengths = [undefined, 0, 3, 5, 7, 100];
  const hashes = new BodyHashes(
    (['simple', 'relaxed'] as const).flatMap((canon) =>
      lengths.map((length) => ({ canon, length })),
    ),
  );
  for (const chunk of ['a  b', '\r', '\nc\n']) hashes.write(Buffer.from(chunk));
  const made = hashes.end();
  for (const [canon, text] of [
    ['simple', 'a  b\r\nc\r\n'],
    ['relaxed', 'a b\r\nc\r\n'],
  ] as const) {
    for (const length of lengths) {
      const { hash, bodyHashedBytes, canonicalizedLength } =
        made.get(bodyHashKey({ canon, length })) ?? assert.fail();
      assert.equal(hash, sha256(text.slice(0, length)));
      assert.equal(bodyHashedBytes, Math.min(text.length, length ?? text.length));
      assert.equal(canonicalizedLength, text.length);
    }
  }
});

test('lines without an end and ends without lines take no memory and linear time', () => {
  const hashes = new BodyHashes([
    { canon: 'simple', length: undefined },
    { canon: 'relaxed', length: undefined },
  ]);
  const chunks = ['x', ' ', '\n', '\r', ' x', '\r\n'].map((text) =>
    Buffer.from(text.repeat(64 * 1024)),
  );
  const held = () => process.memoryUsage().arrayBuffers;
  const before = held();
  for (const chunk of chunks) for (let n = 0; n < 64; n++) hashes.write(chunk);
  assert.ok(held() - before < 4 * 1024 * 1024);
  assert.equal(hashes.end().size, 2);
});
