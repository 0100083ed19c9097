import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import fc from 'fast-check';
import { createDecoder, decodePart, TransferMeter } from './transfer-encoding.ts';

function decode(encoding: string, body: Buffer, cuts: readonly number[] = [body.length]): Buffer {
  const decoder = createDecoder(encoding);
  const pieces: Buffer[] = [];
  for (let at = 0, turn = 0; at < body.length; turn++) {
    const length = Math.max(1, cuts[turn % cuts.length] ?? 1);
    pieces.push(Buffer.from(decoder.write(body.subarray(at, at + length))));
    at += length;
  }
  return Buffer.concat([...pieces, decoder.end()]);
}

function measure(encoding: string, body: Buffer, cuts: readonly number[]): number {
  const meter = new TransferMeter(encoding);
  for (let at = 0, turn = 0; at < body.length; turn++) {
    const end = Math.min(body.length, at + Math.max(1, cuts[turn % cuts.length] ?? 1));
    meter.write(body.subarray(at, end));
    at = end;
  }
  return meter.end();
}

function text(encoding: string, body: string): string {
  return decode(encoding, Buffer.from(body, 'latin1')).toString();
}

/** The rule for base64 in one line each: drop what is not alphabet, decode each run up to `=`. */
function referenceBase64(body: Buffer): Buffer {
  const runs = body
    .toString('latin1')
    .replace(/[^\w+/=]|_/g, '')
    .split('=');
  return Buffer.concat(
    runs.map((run) => Buffer.from(run.slice(0, run.length - +(run.length % 4 === 1)), 'base64')),
  );
}

/** Quoted-printable line by line, for lines whose white space is not overlong. */
function referenceQuotedPrintable(body: Buffer): Buffer {
  const decoded = body
    .toString('latin1')
    .split(/(?<=\n)/)
    .map((line) => {
      const [, content = '', lineEnd = ''] = /^(.*?)[ \t]*(\r?\n|$)$/s.exec(line) ?? [];
      const isSoft = content.endsWith('=');
      const kept = isSoft ? content.slice(0, -1) : content + lineEnd;
      return kept.replace(/=([\da-f]{2})/gi, (_, hex) =>
        String.fromCharCode(Number.parseInt(hex, 16)),
      );
    });
  return Buffer.from(decoded.join(''), 'latin1');
}

const cuts = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 });

const base64Bodies = fc
  .oneof(
    fc.string({ unit: fc.constantFrom(...'ABYZaz019+/ABYZaz019+/=-_ \t\r\n\0\xff*') }),
    fc
      .tuple(fc.uint8Array({ maxLength: 300 }), fc.constantFrom('', '\n', '\r\n', ' '))
      .map(([bytes, lineEnd]) =>
        Buffer.from(bytes).toString('base64').replace(/.{9}/g, `$&${lineEnd}`),
      ),
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
  )
  .map((body) => Buffer.from(body, 'latin1'));

const quotedPrintableBodies = fc
  .oneof(
    fc.string({
      unit: fc.constantFrom(
        'a',
        'F',
        '4',
        '=',
        ' ',
        '\t',
        '\r',
        '\n',
        '\r\n',
        '=\r\n',
        '=3D',
        '\xff',
        '\0',
      ),
    }),
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
  )
  .map((body) => Buffer.from(body, 'latin1'));

test('base64: decoder, meter and reference agree on any input and any chunks', () => {
  fc.assert(
    fc.property(base64Bodies, cuts, (body, lengths) => {
      const expected = referenceBase64(body);
      assert.deepEqual(decode('base64', body), expected);
      assert.deepEqual(decode('base64', body, lengths), expected);
      assert.equal(measure('base64', body, lengths), expected.length);
    }),
    { numRuns: 3_000 },
  );
});

test('base64: long bodies, intact and broken', () => {
  const content = Buffer.from(Array.from({ length: 100_000 }, (_, at) => (at * 7919) % 251));
  const body = Buffer.from(content.toString('base64').replace(/.{76}/g, '$&\r\n'));
  assert.deepEqual(decode('base64', body), content);
  assert.deepEqual(decode('base64', body, [4_099, 17, 65_536]), content);
  assert.equal(measure('base64', body, [4_099, 17]), content.length);
  const noisy = Buffer.from(body);
  for (let at = 76; at < noisy.length; at += 78) noisy[at] = 0x2d;
  assert.deepEqual(decode('base64', noisy, [5_001]), content);
});

test('base64: padding in the middle ends a quantum, not the content', () => {
  assert.equal(text('base64', 'SGVsbG8=IHdvcmxk'), 'Hello world');
  assert.equal(text('base64', 'QQ==QQ==Qg'), 'AAB');
  assert.equal(text('base64', '=A=B=C='), '');
});

test('quoted-printable: decoder, meter and reference agree on any input and any chunks', () => {
  fc.assert(
    fc.property(quotedPrintableBodies, cuts, (body, lengths) => {
      const expected = referenceQuotedPrintable(body);
      assert.deepEqual(decode('quoted-printable', body), expected);
      assert.deepEqual(decode('quoted-printable', body, lengths), expected);
      assert.equal(measure('quoted-printable', body, lengths), expected.length);
    }),
    { numRuns: 3_000 },
  );
});

test('quoted-printable: soft line breaks, white space at line ends, text that is not an escape', () => {
  assert.equal(text('quoted-printable', 'a=20\r\nb \t\r\nc=\r\nd= \t\ne'), 'a \r\nb\r\ncde');
  assert.equal(text('quoted-printable', '=c3=A9 =E2=82=AC'), 'é €');
  assert.equal(text('quoted-printable', '= = =4 =4G =='), '= = =4 =4G =');
  assert.equal(text('quoted-printable', 'end  '), 'end');
  assert.equal(text('quoted-printable', 'end='), 'end');
});

test('quoted-printable: an endless run of white space is content, for all chunks', () => {
  for (const start of ['x', 'x=']) {
    const body = Buffer.from(`${start}${' '.repeat(10_500)}\r\ny`);
    const whole = decode('quoted-printable', body);
    // A thousand are held back at a time; those that were passed on are content, the rest is dropped.
    assert.equal(whole.toString(), `${start}${' '.repeat(10_001 - start.length)}\r\ny`);
    assert.deepEqual(decode('quoted-printable', body, [1]), whole);
    assert.deepEqual(decode('quoted-printable', body, [999, 2]), whole);
    assert.equal(measure('quoted-printable', body, [777]), whole.length);
  }
});

test('unknown encodings change nothing', () => {
  assert.equal(text('x-uuencode', 'begin 644 a\r\n'), 'begin 644 a\r\n');
});

async function* stream(body: Buffer, length: number, taken: { chunks: number } = { chunks: 0 }) {
  for (let at = 0; at < body.length; at += length) {
    taken.chunks++;
    yield body.subarray(at, at + length);
  }
}

test('decodePart gives any range of the content', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 200 }),
      fc.constantFrom('base64', '8bit'),
      fc.nat({ max: 220 }),
      fc.nat({ max: 220 }),
      fc.integer({ min: 1, max: 50 }),
      async (bytes, encoding, start, end, length) => {
        const content = Buffer.from(bytes);
        const body = encoding === 'base64' ? Buffer.from(content.toString('base64')) : content;
        const whole = await Array.fromAsync(decodePart(encoding, stream(body, length)));
        assert.deepEqual(Buffer.concat(whole), content);
        const source = stream(body, length);
        const pieces = await Array.fromAsync(decodePart(encoding, source, { start, end }));
        assert.deepEqual(Buffer.concat(pieces), content.subarray(start, Math.max(start, end)));
        assert.ok(pieces.every((piece) => piece.length > 0));
      },
    ),
    { numRuns: 300 },
  );
});

test('decodePart closes the source as soon as the range is complete', async () => {
  const body = Buffer.from(Buffer.alloc(3_000, 'abc').toString('base64'));
  const taken = { chunks: 0 };
  const range = { start: 10, end: 20 };
  const pieces = await Array.fromAsync(decodePart('base64', stream(body, 100, taken), range));
  assert.equal(Buffer.concat(pieces).toString(), 'bcabcabcab');
  assert.equal(taken.chunks, 1);
});
