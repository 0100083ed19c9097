/** A server's BODYSTRUCTURE reads as our own parser reads the message itself. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readBodyStructure } from './body-structure.ts';

type Nested = string | null | readonly Nested[];

const plain = ['text', 'plain', ['charset', 'utf-8'], null, null, '7bit', '12', '1', null, null];
const file = ['Application', 'PDF', ['name*', "utf-8''%C3%A4.pdf"], '<id@x>', null, 'BASE64', '40'];
const attached = [...file, null, ['attachment', ['filename', 'a "b".pdf']], null, null];

void suite('a body structure', () => {
  void test('of one part, which is part 1', () => {
    assert.deepEqual(readBodyStructure(plain), {
      part: '1',
      type: 'text/plain',
      parameters: { charset: 'utf-8' },
      encoding: '7bit',
      size: 12,
    });
  });

  void test('of a multipart with a nested message, numbered as IMAP does', () => {
    const inner = [plain, attached, 'mixed', ['boundary', 'x']];
    const message = [
      'message',
      'rfc822',
      null,
      null,
      null,
      '7bit',
      '300',
      ['envelope'],
      inner,
      '9',
    ];
    const structure = readBodyStructure([
      [plain, plain, 'alternative'],
      [...message, null, ['attachment', null]],
      'mixed',
    ]);
    const numbers = (node: typeof structure): unknown => [
      node?.part,
      node?.type,
      ...(node?.childNodes ?? []).map(numbers),
    ];
    assert.deepEqual(numbers(structure), [
      undefined,
      'multipart/mixed',
      ['1', 'multipart/alternative', ['1.1', 'text/plain'], ['1.2', 'text/plain']],
      [
        '2',
        'message/rfc822',
        [undefined, 'multipart/mixed', ['2.1', 'text/plain'], ['2.2', 'application/pdf']],
      ],
    ]);
    const pdf = structure?.childNodes?.[1]?.childNodes?.[0]?.childNodes?.[1];
    assert.deepEqual(pdf, {
      part: '2.2',
      type: 'application/pdf',
      parameters: { name: 'ä.pdf' },
      encoding: 'base64',
      size: 40,
      id: '<id@x>',
      disposition: 'attachment',
      dispositionParameters: { filename: 'a "b".pdf' },
    });
    assert.equal(structure?.childNodes?.[1]?.disposition, 'attachment');
  });

  void test('that is malformed or endless gives undefined or ends', () => {
    assert.equal(readBodyStructure(undefined), undefined);
    assert.equal(readBodyStructure([]), undefined);
    assert.equal(readBodyStructure('text'), undefined);
    let deep: Nested = plain;
    for (let depth = 0; depth < 200; depth++) deep = [deep, 'mixed'];
    assert.equal(readBodyStructure(deep)?.type, 'multipart/mixed');
    const wide = readBodyStructure([...Array.from({ length: 5_000 }, () => plain), 'mixed']);
    assert.ok((wide?.childNodes?.length ?? 0) <= 1_000);
  });
});
