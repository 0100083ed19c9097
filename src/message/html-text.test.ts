import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { htmlToText } from './html-text.ts';

test('blocks become lines, and white space one space', () => {
  const html = `<!doctype html><html><head><title>No</title><style>p{}</style></head>
    <body><h1>Hello</h1><p>One
    two&nbsp;&amp; <b>th</b>ree<br>four</p><ul><li>a<li>b</ul><table><tr><td>x<td>y</table></body>`;
  assert.equal(htmlToText(html), 'Hello\n\nOne two & three\nfour\n\na\nb\n\nx y');
});

test('what is no text of the message is left out', () => {
  assert.equal(htmlToText('a<script>if (1<2) alert("x")</script>b<!-- c -->d'), 'abd');
  assert.equal(htmlToText('<head><title>t</title><p>lost<body>kept'), 'kept');
  assert.equal(htmlToText('a <b c="d>e">f</b>'), 'a f');
});

test('property: any text is taken, and no tag is left', () => {
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
    fc.string({ unit: 'binary' }),
  );
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const text = htmlToText(pieces.join(''));
      assert.ok(!/\n\n\n/.test(text));
    }),
    { numRuns: 500 },
  );
});

test('deep nesting and endings of what was never begun take no stack and little memory', () => {
  const html = `${'<div>'.repeat(200_000)}x${'</span>'.repeat(200_000)}`;
  assert.equal(htmlToText(html), 'x');
});
