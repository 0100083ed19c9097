import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import {
  hasAttachments,
  htmlToText,
  listNestedMessages,
  previewOf as previewOfPart,
  readMessageTexts,
  readPreview,
} from './content.ts';
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

test('what cannot be seen before the first words is not all of a preview', async () => {
  const hidden = '\u200b'.repeat(500);
  const source = `Content-Type: text/plain; charset=utf-8\n\n${hidden}Hello`;
  assert.equal(await previewOf(source), 'Hello');
});

test('a message that is all attachment has an empty preview', async () => {
  assert.equal(await previewOf('Content-Type: application/pdf\n\nx'), '');
});

const related = (...parts: string[]) =>
  `Content-Type: multipart/related; boundary=r\n\n${parts.map((part) => `--r\n${part}\n`).join('')}--r--\n`;
const page = 'Content-Type: text/html\n\n<img src="cid:logo">';
const logo = 'Content-Type: image/png\nContent-ID: <logo>\n\npng';
const mixed = (...parts: string[]) => related(...parts).replace('related', 'mixed');

test('attachments: pictures that the HTML shows do not count, everything else does', () => {
  const inline = `Content-Disposition: inline; filename=logo.png\n${logo}`;
  const pdf = 'Content-Type: application/pdf\n\npdf';
  for (const none of [
    related(page, logo),
    related(page, inline, logo),
    related(
      `Content-Type: multipart/alternative; boundary=a\n\n--a\n\nx\n--a\n${page}\n--a--\n`,
      logo,
    ),
    page,
  ]) {
    assert.equal(hasAttachments(open(none).structure), false, none);
  }
  for (const some of [
    related(page, logo, pdf),
    related(page, `Content-Disposition: attachment\n${logo}`),
    related(page, logo.replace('Content-ID: <logo>\n', '')),
    related(page, logo.replace('image/png', 'application/pdf')),
    related('Content-Type: text/plain\n\nx', logo),
    mixed(page, inline),
    logo,
  ]) {
    assert.equal(hasAttachments(open(some).structure), true, some);
  }
});

test('messages within a message are found, also in each other', () => {
  const forward = 'Content-Type: message/rfc822\n\nSubject: inner\n\ntext';
  const [nested, ...more] = listNestedMessages(open(mixed('\nhello', forward)).structure);
  assert.deepEqual([nested?.part, more.length], ['2.1', 0]);
  assert.equal(listNestedMessages(open(forward).structure).length, 1);
  assert.equal(listNestedMessages(open(page).structure).length, 0);
});

test('a preview of one part is read like that of a message', () => {
  const parameters = { format: 'flowed', delsp: 'yes', charset: 'utf-8' };
  const part = { part: '1', type: 'text/plain', encoding: '8bit', size: 9, parameters };
  assert.equal(previewOfPart(part, Buffer.from('日本 \n語')), '日本語');
  const koi8 = Buffer.from('<meta charset=koi8-r><p>\xd0\xd2\xc9', 'latin1');
  const { parameters: _, ...document } = { ...part, type: 'text/html' };
  assert.equal(previewOfPart(document, koi8), 'при');
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
