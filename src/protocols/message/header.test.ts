import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { cuts, mutatedMessages } from '../../../test/support/message/sample-messages.ts';
import { fieldValue, type Header, MAX_FIELDS, MAX_HEADER, rawValue, readHeader } from './header.ts';

async function* chunked(source: Buffer, lengths: readonly number[]): AsyncGenerator<Buffer> {
  for (let at = 0, index = 0; at < source.length; index++) {
    const length = Math.max(lengths[index % lengths.length] ?? 1, 1);
    yield source.subarray(at, at + length);
    at += length;
  }
}

function read(source: string | Buffer, lengths = [1_000_000]): Promise<Header> {
  return readHeader(chunked(Buffer.from(source), lengths));
}

const sources: [what: string, source: string, fields: string[], body: string][] = [
  ['fields and body', 'A: 1\r\nB: 2\r\n\r\nhi\r\n', ['A: 1', 'B: 2'], 'hi\r\n'],
  ['a folded field', 'A: 1\r\n\t2\r\n\r\nhi', ['A: 1\r\n\t2'], 'hi'],
  ['bare LF', 'A: 1\n 2\nB: 3\n\nhi\n', ['A: 1\n 2', 'B: 3'], 'hi\n'],
  ['a bare CR, which begins no line', 'A: 1\rB: 2\r\r\nC: 3\r\n\r\n', ['A: 1\rB: 2\r', 'C: 3'], ''],
  ['a line that is no field', 'A: 1\r\nno\r\nB: x\r\n\r\nhi', ['A: 1\r\nno', 'B: x'], 'hi'],
  ['no header', 'nonsense\r\n\r\nhi', [], 'nonsense\r\n\r\nhi'],
  ['no header, one line', 'nonsense', [], 'nonsense'],
  ['no body', 'A: 1\r\nB: 2', ['A: 1', 'B: 2'], ''],
  ['an empty header', '\r\nA: 1\r\n', [], 'A: 1\r\n'],
  ['nothing', '', [], ''],
  ['a continuation first', ' x\r\nA: 1\r\n', [], ' x\r\nA: 1\r\n'],
  ['a line of a mailbox file', 'From ann Mon\r\nA: 1\r\n\r\nhi', ['From ann Mon', 'A: 1'], 'hi'],
  ['obsolete syntax', 'A : 1\r\nB\r\n : 2\r\n\r\n', ['A : 1', 'B\r\n : 2'], ''],
  ['octets above 127', 'A: é\r\n\r\n', ['A: Ã©'], ''],
  ['a line of white space', 'A: 1\r\n \r\nB: 2\r\n\r\n', ['A: 1\r\n ', 'B: 2'], ''],
];

suite('header sections', () => {
  for (const [what, source, fields, body] of sources) {
    test(what, async () => {
      for (const lengths of [[1_000], [1]]) {
        const header = await read(source, lengths);
        assert.deepEqual(
          header.fields.map(({ text }) => text),
          fields,
        );
        assert.equal(Buffer.from(source).toString('utf8', header.size), body);
        assert.equal(header.isWhole, true);
      }
    });
  }

  test('names are in lower case, values are unfolded and do not include other lines', async () => {
    const { fields } = await read('Message-Id : <a@b>\r\n  c \r\nnonsense\r\nB\r\n : 2\r\n\r\n');
    assert.deepEqual(
      fields.map((field) => [field.name, fieldValue(field)]),
      [
        ['message-id', '<a@b>  c'],
        ['b', '2'],
      ],
    );
    assert.deepEqual(fields.map(rawValue), [' <a@b>\r\n  c \r\nnonsense', ' 2']);
  });

  test('the body is not read, and the source is closed', async () => {
    let chunks = 0;
    let closed = false;
    const source = async function* () {
      try {
        for (;;) yield Buffer.from(chunks++ === 0 ? 'A: 1\r\n\r\nhi' : 'more');
      } finally {
        closed = true;
      }
    };
    await readHeader(source());
    assert.deepEqual([chunks, closed], [1, true]);
  });

  test('any bytes: fields follow each other without a gap, and chunks make no difference', async () => {
    await fc.assert(
      fc.asyncProperty(mutatedMessages, cuts, async (source, lengths) => {
        const header = await read(source);
        assert.deepEqual(await read(source, lengths), header);
        let end = 0;
        for (const field of header.fields) {
          assert.equal(field.start, end);
          end = field.end;
          const bytes = source.toString('latin1', field.start, field.end);
          assert.equal(bytes.replace(/\r?\n$/, ''), field.text);
        }
        assert.match(source.toString('latin1', end, header.size), /^(?:\r?\n)?$/);
      }),
      { numRuns: 1_000 },
    );
  });
});

suite('a header without end', () => {
  const lines: [line: string, fields: number][] = [
    ['A: b\r\n', MAX_FIELDS],
    ['no field\r\n', 1],
    [' folded\r\n', 1],
    ['x'.repeat(70), 1],
  ];
  for (const [line, fields] of lines) {
    test(`is read up to the limit: ${JSON.stringify(line.slice(0, 10))}`, async () => {
      let chunks = 0;
      const source = async function* () {
        yield Buffer.from('A: 1\r\n');
        for (; ; chunks++) yield Buffer.from(line.repeat(1_000));
      };
      const header = await readHeader(source());
      assert.equal(header.isWhole, false);
      assert.equal(header.fields.length, fields);
      assert.ok(header.size <= MAX_HEADER && chunks <= MAX_HEADER / 6_000);
    });
  }

  test('a header of exactly the limit is whole', async () => {
    for (const header of [
      'A: b\r\n'.repeat(MAX_FIELDS),
      `A: ${'b'.repeat(MAX_HEADER - 'A: \r\n\r\n'.length)}\r\n`,
    ]) {
      assert.equal((await read(`${header}\r\nhi`)).isWhole, true);
      assert.equal((await read(`A: b\r\n${header}\r\nhi`)).isWhole, false);
    }
  });
});
