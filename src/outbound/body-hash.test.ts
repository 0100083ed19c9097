import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { BodyHash } from './body-hash.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest('base64');

function hashOf(...chunks: string[]): string {
  const hash = new BodyHash();
  for (const chunk of chunks) hash.update(Buffer.from(chunk));
  return hash.digest();
}

/** RFC 6376 section 3.4.4 word by word. */
function canonical(body: string): string {
  const lines = body.replace(/[ \t]+(?=\r\n)/g, '').replace(/[ \t]+/g, ' ');
  const text = lines.replace(/(?:\r\n)*$/, '');
  return text === '' ? '' : `${text}\r\n`;
}

suite('relaxed body hash', () => {
  test('the example of RFC 6376 section 3.4.5', () => {
    assert.equal(hashOf(' C \r\nD \t E\r\n\r\n\r\n'), sha256(' C\r\nD E\r\n'));
  });

  test('an empty body stays empty, and so do empty lines', () => {
    const empty = '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=';
    assert.equal(hashOf(), empty);
    assert.equal(hashOf('\r\n\r\n', ' \t \r\n'), empty);
  });

  test('however it is cut, it is the hash of the canonical body', () => {
    const piece = fc.string({ unit: fc.constantFrom('\r\n', ' ', '\t', 'a', 'b'), maxLength: 8 });
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        // Bodies that are signed end in a line end.
        const chunks = [...pieces, ...(pieces.join('') === '' ? [] : ['\r\n'])];
        assert.equal(hashOf(...chunks), sha256(canonical(chunks.join(''))));
      }),
      { numRuns: 2_000 },
    );
  });

  test('a CRLF that two chunks share counts once', () => {
    assert.equal(hashOf('a \r', '\n', '\r', '\nb\r\n'), sha256('a\r\n\r\nb\r\n'));
  });

  test('thousands of held line ends come out again', () => {
    const many = '\r\n'.repeat(5_000);
    assert.equal(hashOf('a', many, 'b\r\n', many), sha256(`a${many}b\r\n`));
  });
});
