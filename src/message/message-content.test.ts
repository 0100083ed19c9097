import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readMessageTexts, readPreview } from './message-content.ts';
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

test('a preview is the first words, without what is quoted', async () => {
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
