import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../test/support/any-character.ts';
import { htmlToText, readMessageTexts, readPreview } from './content.ts';
import { MessageParser } from './parse-message.ts';

function open(source: string) {
  const bytes = Buffer.from(source.replaceAll('\n', '\r\n'));
  const parser = new MessageParser();
  parser.write(bytes);
  const { structure } = parser.end();
  async function* read({ start, end }: { start: number; end: number }) {
    yield bytes.subarray(start, end);
  }
  return { structure, read };
}

async function previewOf(source: string): Promise<string> {
  const { structure, read } = open(source);
  return readPreview(structure, read);
}

const alternative = `Content-Type: multipart/alternative; boundary=b

--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

> quoted
Gr=C3=BC=C3=9Fe,
  Ada
--b
Content-Type: text/html; charset=utf-8

<p>Grüße, <b>Ada</b></p>
--b--
`;

test('text and HTML are read with their encodings removed', async () => {
  const { structure, read } = open(alternative);
  assert.deepEqual(await readMessageTexts(structure, 1_000, read), {
    text: '> quoted\nGrüße,\n  Ada',
    html: '<p>Grüße, <b>Ada</b></p>',
  });
  const cut = await readMessageTexts(structure, 5, read);
  assert.equal(cut.textTruncated, true);
  assert.equal(cut.htmlTruncated, true);
});

test('a preview is the first words, without quoted lines', async () => {
  assert.equal(await previewOf(alternative), 'Grüße, Ada');
});

test('a preview of HTML alone has no tags and no style', async () => {
  const style = `<style>${'p{color:red}'.repeat(500)}</style>`;
  const html = `Content-Type: text/html\n\n<head>${style}</head><body>\u200b<p>One</p><p>two</p>`;
  assert.equal(await previewOf(html), 'One two');
});

test('a preview has at most 200 characters, and none is halved', async () => {
  const preview = await previewOf(
    `Content-Type: text/plain; charset=utf-8\n\nx${'🎉'.repeat(300)}`,
  );
  assert.ok(preview.length <= 200);
  assert.equal(preview.isWellFormed(), true);
});

test('a message that is all attachment has an empty preview', async () => {
  assert.equal(await previewOf('Content-Type: application/pdf\n\nx'), '');
});

test('blocks become lines, and white space one space', () => {
  const html = `<!doctype html><html><head><title>No</title><style>p{}</style></head>
    <body><h1>Hello</h1><p>One
    two&nbsp;&amp; <b>th</b>ree<br>four</p><ul><li>a<li>b</ul><table><tr><td>x<td>y</table></body>`;
  assert.equal(htmlToText(html), 'Hello\n\nOne two & three\nfour\n\na\nb\n\nx y');
});

test('content that is not text of the message is left out', () => {
  assert.equal(htmlToText('a<script>if (1<2) alert("x")</script>b<!-- c -->d'), 'abd');
  assert.equal(htmlToText('<head><title>t</title><p>lost<body>kept'), 'kept');
  assert.equal(htmlToText('a <b c="d>e">f</b>'), 'a f');
});

test('property: any text is accepted, and no tag is left', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      '<div>',
      '</div>',
      '<',
      '>',
      '&',
      '&amp;',
      '&#x110000;',
      '&#0;',
      '<!--',
      '-->',
      '<script>',
      '</',
      '"',
      '<a href="',
      '\n',
    ),
    fc.string({ unit: anyCharacter }),
  );
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const text = htmlToText(pieces.join(''));
      assert.ok(!/\n\n\n/.test(text));
    }),
    { numRuns: 500 },
  );
});

test('deep nesting and end tags without a start take no stack and little memory', () => {
  const html = `${'<div>'.repeat(200_000)}x${'</span>'.repeat(200_000)}`;
  assert.equal(htmlToText(html), 'x');
});
