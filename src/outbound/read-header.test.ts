import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { mutatedMessages } from '../message/sample-messages.ts';
import { fieldValue, isLooping, readHeader } from './read-header.ts';
import { sourceOf } from './testing/far-end.ts';

async function read(source: string, cut?: number) {
  const { fields, bodyStart } = await readHeader(sourceOf(Buffer.from(source, 'latin1'), cut)());
  return { fields: fields.map(({ text }) => text), body: source.slice(bodyStart) };
}

const sources: [what: string, source: string, fields: string[], body: string][] = [
  ['fields and body', 'A: 1\r\nB: 2\r\n\r\nhi\r\n', ['A: 1', 'B: 2'], 'hi\r\n'],
  ['a folded field', 'A: 1\r\n\t2\r\n\r\nhi', ['A: 1\r\n\t2'], 'hi'],
  ['bare LF', 'A: 1\n 2\nB: 3\n\nhi\n', ['A: 1\r\n 2', 'B: 3'], 'hi\n'],
  ['a bare CR, which begins no line', 'A: 1\rB: 2\r\r\nC: 3\r\n\r\n', ['A: 1 B: 2 ', 'C: 3'], ''],
  [
    'a line that is no field',
    'A: 1\r\nnonsense\r\nFrom: x\r\n',
    ['A: 1'],
    'nonsense\r\nFrom: x\r\n',
  ],
  ['no header', 'nonsense\r\n\r\nhi', [], 'nonsense\r\n\r\nhi'],
  ['no body', 'A: 1\r\nB: 2', ['A: 1', 'B: 2'], ''],
  ['an empty header', '\r\nA: 1\r\n', [], 'A: 1\r\n'],
  ['nothing', '', [], ''],
  ['a continuation first', ' x\r\nA: 1\r\n', [], ' x\r\nA: 1\r\n'],
  ['a line of a mailbox file', 'From ann Mon\r\nA: 1\r\n\r\nhi', ['A: 1'], 'hi'],
  ['one in the middle', 'A: 1\r\nFrom ann\r\n', ['A: 1'], 'From ann\r\n'],
  ['obsolete syntax', 'A : 1\r\n\r\n', ['A : 1'], ''],
  ['octets above 127', 'A: \xff\r\n\r\n', ['A: \xff'], ''],
];

suite('header sections', () => {
  for (const [what, source, fields, body] of sources) {
    test(what, async () => {
      assert.deepEqual(await read(source), { fields, body });
      assert.deepEqual(await read(source, 1), { fields, body });
    });
  }

  test('names are in lower case, values unfolded', async () => {
    const { fields } = await readHeader(sourceOf('Message-Id : <a@b>\r\n  c \r\n\r\n')());
    assert.equal(fields[0]?.name, 'message-id');
    assert.equal(fields[0] && fieldValue(fields[0]), '<a@b>  c');
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

  for (const line of ['x'.repeat(70), 'A: b\r\n', ' \r\n']) {
    test(`a section without end is refused: ${JSON.stringify(line.slice(0, 6))}`, async () => {
      const source = async function* () {
        yield Buffer.from('A: 1\r\n');
        for (;;) yield Buffer.from(line.repeat(1_000));
      };
      await assert.rejects(readHeader(source()), { code: 'message_too_large' });
    });
  }

  test('no source makes it throw, and the body starts where it says', async () => {
    await fc.assert(
      fc.asyncProperty(mutatedMessages, async (source) => {
        const header = await readHeader(sourceOf(source, 100)());
        assert.ok(header.bodyStart <= source.length);
        for (const { name, text } of header.fields) {
          assert.match(name, /^[!-9;-~]+$/);
          assert.doesNotMatch(text, /\r(?!\n)|(?<!\r)\n|\r\n(?![ \t])/);
        }
      }),
      { numRuns: 200 },
    );
  });
});

suite('loops', () => {
  const received = 'Received: from a\r\n by b; Mon\r\n';
  const looping: [what: string, header: string, address: string, loops: boolean][] = [
    ['no mark', 'From: a@b.test\r\n', 'info@acme.test', false],
    ['the mark', 'Delivered-To: info@acme.test\r\n', 'info@acme.test', true],
    ['the mark in other case', 'delivered-to: INFO@acme.TEST\r\n', 'Info@ACME.test', true],
    ['the mark in brackets', 'Delivered-To: <info@acme.test>\r\n', 'info@acme.test', true],
    ['the mark of another', 'Delivered-To: sales@acme.test\r\n', 'info@acme.test', false],
    [
      'the mark among others',
      'Delivered-To: a@b\r\nDelivered-To: info@acme.test\r\n',
      'info@acme.test',
      true,
    ],
    [
      'the mark in a domain of U-labels',
      'Delivered-To: a@xn--bcher-kva.test\r\n',
      'a@bücher.test',
      true,
    ],
    [
      'the mark outside ASCII',
      Buffer.from('Delivered-To: юзер@acme.test\r\n').toString('latin1'),
      'юзер@acme.test',
      true,
    ],
    [
      'the mark in the body',
      'A: 1\r\n\r\nDelivered-To: info@acme.test\r\n',
      'info@acme.test',
      false,
    ],
    ['100 hops', received.repeat(100), 'info@acme.test', false],
    ['101 hops', received.repeat(101), 'info@acme.test', true],
  ];
  for (const [what, header, address, loops] of looping) {
    test(`${what}: ${loops ? 'a loop' : 'no loop'}`, async () => {
      const source = Buffer.from(`${header}\r\n`, 'latin1');
      assert.equal(isLooping(await readHeader(sourceOf(source)()), address), loops);
    });
  }
});
