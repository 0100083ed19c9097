import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { readPartText } from './text.ts';

const flowed = (text: string, delsp?: string) =>
  readPartText(
    {
      type: 'text/plain',
      parameters: { charset: 'utf-8', format: 'flowed', ...(delsp !== undefined && { delsp }) },
    },
    Buffer.from(text),
  );

const html = (source: string | Buffer, charset?: string) =>
  readPartText(
    { type: 'text/html', ...(charset !== undefined && { parameters: { charset } }) },
    Buffer.from(source),
  );

test('format=flowed: paragraphs, quotes, stuffed lines and signatures', () => {
  for (const [text, joined] of [
    ['a \r\nb\r\nc\r\n', 'a b\nc\n'],
    ['a \n\nb', 'a \nb'],
    ['> a \n> b\n', '> a b\n'],
    ['>a \n>b \n>> c\n', '> a b \n>> c\n'],
    ['> > a \n> > b\n', '> > a > b\n'],
    [' >no quote\n', '>no quote\n'],
    ['  two\n', ' two\n'],
    ['>\n> \n', '>\n>\n'],
    ['end \n-- \nAda \nL.\n', 'end \n-- \nAda L.\n'],
    ['> -- \n> x\n', '> -- \n> x\n'],
    ['last ', 'last '],
    ['', ''],
  ] as const) {
    assert.equal(flowed(text), joined, JSON.stringify(text));
  }
  assert.equal(flowed('日本 \n語\n> a \n> b\n-- \nx\n', 'YES'), '日本語\n> ab\n-- \nx\n');
  assert.equal(flowed('a \nb', 'no'), 'a b');
});

test('only text/plain is flowed', () => {
  const parameters = { format: 'flowed' };
  assert.equal(readPartText({ type: 'text/html', parameters }, Buffer.from('a \nb')), 'a \nb');
  assert.equal(readPartText({ type: 'text/plain' }, Buffer.from('a \r\nb')), 'a \nb');
  const fixed = { type: 'text/plain', parameters: { format: 'fixed' } };
  assert.equal(readPartText(fixed, Buffer.from('a \nb')), 'a \nb');
});

/** Writes a paragraph as RFC 3676 section 4.2 asks: lines end in a space, and are stuffed. */
function writeFlowed(words: readonly string[], depth: number): string {
  const marks = '>'.repeat(depth);
  const stuffed = words.map((word) =>
    depth > 0 || /^(?: |>|From )/.test(word) ? ` ${word}` : word,
  );
  return `${stuffed.map((word) => marks + word).join(' \r\n')}\r\n`;
}

test('property: a paragraph comes back as it was, at any depth', () => {
  const word = fc.stringMatching(/^[>a-z.-]{1,12}$/).filter((text) => text !== '--');
  const paragraph = fc.tuple(fc.array(word, { minLength: 1, maxLength: 8 }), fc.nat(3));
  fc.assert(
    fc.property(fc.array(paragraph, { maxLength: 5 }), (paragraphs) => {
      const sent = paragraphs.map(([words, depth]) => writeFlowed(words, depth)).join('');
      const expected = paragraphs.map(([words, depth]) => {
        return `${depth > 0 ? `${'>'.repeat(depth)} ` : ''}${words.join(' ')}\n`;
      });
      assert.equal(flowed(sent), expected.join(''));
    }),
    { numRuns: 1_000 },
  );
});

test('property: any text keeps its characters, except line ends, spaces and quote marks', () => {
  const unit = fc.oneof(fc.constantFrom('>', ' ', '\n', '\r\n', '-', 'x'), anyCharacter);
  const bare = (text: string) => text.replace(/[\s>]+/g, '');
  fc.assert(
    fc.property(fc.string({ unit }), fc.constantFrom('yes', 'no'), (text, delsp) => {
      const wellFormed = text.toWellFormed().replace(/^\ufeff/, '');
      assert.equal(bare(flowed(wellFormed, delsp)), bare(wellFormed));
    }),
    { numRuns: 1_000 },
  );
});

test('HTML without a charset is read by the one that it names', () => {
  const koi8 = Buffer.from([0xd0, 0xd2, 0xc9]);
  for (const meta of [
    '<meta charset=koi8-r>',
    '<META CHARSET = "KOI8-R" />',
    "<meta name=x><meta content='text/html; charset=koi8-r' http-equiv=content-type>",
    '<!-- <meta charset=utf-8> --><meta charset=koi8-r>',
  ]) {
    assert.equal(html(Buffer.concat([Buffer.from(meta), koi8])), `${meta}при`);
  }
  // Neither is a name that says nothing.
  for (const charset of ['us-ascii', 'x-unknown', '']) {
    const source = Buffer.concat([Buffer.from('<meta charset=koi8-r>'), koi8]);
    assert.match(html(source, charset), /при$/, charset);
  }
  const late = Buffer.concat([Buffer.from(`${' '.repeat(1_024)}<meta charset=koi8-r>`), koi8]);
  assert.match(html(late), /ÐÒÉ$/);
  const jis = '<meta charset=iso-2022-jp>\x1b$B%F%9%H\x1b(B';
  assert.equal(html(jis), '<meta charset=iso-2022-jp>テスト');
});

test('what a parameter says, and what the bytes are, count more', () => {
  const source = '<meta charset=koi8-r>é';
  assert.equal(html(source, 'utf-8'), source);
  assert.equal(html(source), source);
  // Bytes that are ASCII cannot be these, and UTF-7 would hide markup from who looks at the source.
  for (const charset of ['utf-16', 'utf-32', 'utf-7', 'UTF7']) {
    const text = `<meta charset=${charset}>+ADw-b+AD4-`;
    assert.equal(html(text), text);
  }
  const plain = Buffer.from('<meta charset=koi8-r>\xd0', 'latin1');
  assert.match(readPartText({ type: 'text/plain' }, plain), /Ð$/);
});

test('property: any bytes of HTML give text', () => {
  const piece = fc.constantFrom(
    '<meta ',
    'charset',
    '=',
    '"',
    "'",
    '>',
    '<!--',
    '-->',
    'koi8-r',
    'x',
    '\xff',
    ' ',
  );
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      assert.equal(typeof html(Buffer.from(pieces.join(''), 'latin1')), 'string');
    }),
    { numRuns: 1_000 },
  );
});
