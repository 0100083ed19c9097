import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { lines, parse } from '../../../test/support/message/sample-messages.ts';
import {
  decodeText,
  findPart,
  type MessagePart,
  parsePartNumber,
  partFilename,
  toBodyStructure,
} from './message.ts';

test('part numbers are positive decimal numbers joined by dots', () => {
  for (const text of ['1', '1.2', '10.1.999', '1.1.1.1.1.1'])
    assert.equal(parsePartNumber(text), text);
  const wrong = [
    '',
    '0',
    '-1',
    '+1',
    '1.',
    '.1',
    '1..2',
    '01',
    '1.01',
    '1.0',
    ' 1',
    '1 ',
    '1\n',
    '١',
  ];
  const sections = ['TEXT', '1.MIME', '1.HEADER', '1,2', '1e3', '0x1', 'undefined', '__proto__'];
  const long = [`${2n ** 63n}`, Array(10_000).fill('1').join('.'), '9'.repeat(1_000_000)];
  for (const text of [...wrong, ...sections, ...long])
    assert.equal(parsePartNumber(text), undefined);
});

const forwarded = lines(
  'Content-Type: multipart/mixed; boundary=b',
  '',
  '--b',
  'Content-Type: multipart/alternative; boundary=c',
  '',
  '--c',
  '',
  'text',
  '--c--',
  '--b',
  'Content-Type: message/rfc822',
  'Content-Disposition: inline',
  'Content-ID: <2@example.org>',
  '',
  'Subject: inner',
  '',
  'inner text',
  '--b--',
);

test('parts are found by their numbers, multiparts too', () => {
  const { structure } = parse(forwarded);
  assert.equal(findPart(structure, '1')?.type, 'multipart/alternative');
  assert.equal(findPart(structure, '1.1')?.type, 'text/plain');
  assert.equal(findPart(structure, '2')?.type, 'message/rfc822');
  assert.equal(findPart(structure, '2.1')?.type, 'text/plain');
  for (const number of ['3', '1.2', '1.1.1', '2.2', '2.1.1']) {
    assert.equal(findPart(structure, number), undefined, number);
  }
});

test('the body structure has no offsets and no absent fields', () => {
  assert.deepEqual(toBodyStructure(parse(forwarded).structure), {
    type: 'multipart/mixed',
    parameters: { boundary: 'b' },
    encoding: '7bit',
    size: forwarded.length - 'Content-Type: multipart/mixed; boundary=b\r\n\r\n'.length,
    childNodes: [
      {
        part: '1',
        type: 'multipart/alternative',
        parameters: { boundary: 'c' },
        encoding: '7bit',
        size: 18,
        childNodes: [
          {
            part: '1.1',
            type: 'text/plain',
            parameters: { charset: 'us-ascii' },
            encoding: '7bit',
            size: 4,
          },
        ],
      },
      {
        part: '2',
        type: 'message/rfc822',
        encoding: '7bit',
        size: 28,
        id: '<2@example.org>',
        disposition: 'inline',
        childNodes: [
          {
            part: '2.1',
            type: 'text/plain',
            parameters: { charset: 'us-ascii' },
            encoding: '7bit',
            size: 10,
          },
        ],
      },
    ],
  });
});

const bare: MessagePart = {
  part: '1',
  type: 'application/pdf',
  encoding: '7bit',
  size: 0,
  decodedSize: 0,
  headerStart: 0,
  bodyStart: 0,
  bodyEnd: 0,
};

function named(filename: string): string | undefined {
  return partFilename({ ...bare, dispositionParameters: { filename } });
}

test('file names: of the disposition, else of the type', () => {
  assert.equal(partFilename(bare), undefined);
  assert.equal(partFilename({ ...bare, parameters: { name: 'a.pdf' } }), 'a.pdf');
  const both = { parameters: { name: 'a.pdf' }, dispositionParameters: { filename: 'b.pdf' } };
  assert.equal(partFilename({ ...bare, ...both }), 'b.pdf');
});

test('file names: no path and no deceiving characters', () => {
  assert.equal(named('/etc/passwd'), 'etcpasswd');
  assert.equal(named('..\\..\\a.txt'), '....a.txt');
  assert.equal(named('a\0b\r\n.txt\x85'), 'ab.txt');
  assert.equal(named('\u202Efdp.exe'), 'fdp.exe');
  for (const nothing of ['', '.', '..', '/', ' . ', '\0', '../../..'])
    assert.equal(named(nothing), undefined);
});

test('file names: long ones keep their ending', () => {
  const long = named(`${'x'.repeat(500)}.pdf`);
  assert.equal(long, `${'x'.repeat(196)}.pdf`);
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 250 }), (text) => {
      const name = named(text);
      if (name === undefined) return;
      assert.ok(name.length <= 200 && name.isWellFormed());
      assert.doesNotMatch(name, /[/\\\0-\x1f\x7f-\x9f]/);
    }),
  );
});

test('code pages of Windows have other names in mail than in the Encoding Standard', () => {
  const hello = { cp932: '93fa967b8cea', CP936: 'c4e3bac3', 'windows-936': 'c4e3bac3' };
  const texts = Object.entries(hello).map(([name, hex]) =>
    decodeText(Buffer.from(hex, 'hex'), name),
  );
  assert.deepEqual(texts, ['日本語', '你好', '你好']);
  assert.equal(decodeText(Buffer.from('bec8b3e7', 'hex'), 'ms949'), '안녕');
  assert.equal(decodeText(Buffer.from('a741a66e', 'hex'), 'cp950'), '你好');
  assert.equal(decodeText(Buffer.from([0xe9]), 'cp1252'), 'é');
  assert.equal(decodeText(Buffer.from([0xe9]), 'windows-1252'), 'é');
});

test('text: WHATWG labels, and a guess where the charset says nothing', () => {
  const euro = Buffer.from('€');
  assert.equal(decodeText(euro, 'utf-8'), '€');
  assert.equal(decodeText(euro, ' UTF8 '), '€');
  for (const charset of [
    undefined,
    'us-ascii',
    'ASCII',
    'no such charset',
    'utf-7',
    '',
    'x'.repeat(1e5),
  ]) {
    assert.equal(decodeText(euro, charset), '€', String(charset).slice(0, 20));
    assert.equal(decodeText(Buffer.from([0x80, 0xe9]), charset), '€é');
  }
  assert.equal(decodeText(Buffer.from([0x80]), 'iso-8859-1'), '€');
  assert.equal(decodeText(Buffer.from([0xff]), 'utf-8'), '\ufffd');
  assert.equal(
    decodeText(Buffer.from('1b244225462539254828421b2842', 'hex'), 'iso-2022-jp').slice(0, 3),
    'テスト',
  );
  assert.equal(decodeText(Buffer.from([0xef, 0xbb, 0xbf, 0x41]), 'utf-8'), 'A');
});
