/** What is shown of a message: the parts that need no page. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  FRAME_RIGHTS,
  FRAME_SCRIPT,
  FRAME_SCRIPT_HASH,
  readFrameMessage,
} from '../reading/frame-script.ts';
import { linkify } from '../reading/linkify.ts';
import { splitQuoted } from '../reading/quoted-text.ts';
import { isTrusted, judgeSender } from '../reading/sender-check.ts';
import { formatAddress, nameOf, safeFileName } from '../reading/stranger-text.ts';
import { readUnsubscribe } from '../reading/unsubscribe.ts';

test('the policies name the hash of the script that runs beside a mail', () => {
  const hash = createHash('sha256').update(FRAME_SCRIPT).digest('base64');
  assert.equal(FRAME_SCRIPT_HASH, `sha256-${hash}`);
  assert.doesNotMatch(FRAME_RIGHTS, /same-origin|forms|top-navigation|modals|downloads/);
});

test('of what a frame tells, heights are clamped and all but plain keys are ignored', () => {
  assert.deepEqual(readFrameMessage({ height: 412.4 }), { height: 412 });
  assert.deepEqual(readFrameMessage({ height: 1e12 }), { height: 30_000 });
  assert.deepEqual(readFrameMessage({ height: -5 }), { height: 24 });
  assert.deepEqual(readFrameMessage({ key: '#' }), { key: '#' });
  assert.deepEqual(readFrameMessage({ mailto: 'mailto:a@b.test' }), { mailto: 'mailto:a@b.test' });
  assert.deepEqual(readFrameMessage({ top: 1e9 }), { top: 30_000 });
  assert.deepEqual(readFrameMessage({ top: -1 }), { top: 0 });
  for (const told of [
    undefined,
    null,
    'height',
    7,
    [],
    {},
    { height: '100' },
    { height: Number.NaN },
    { height: Number.POSITIVE_INFINITY },
    { key: 'Enter then something' },
    { key: 'F5' },
    { key: ['#'] },
    { mailto: 'x'.repeat(3000) },
  ]) {
    assert.equal(readFrameMessage(told), undefined);
  }
});

test('property: the pieces of a text with links are the text, and links lead where they say', () => {
  const piece = fc.constantFrom(
    'https://a.test/b_(c)',
    'http://x@y.test/',
    'help@acme.test',
    '(see ',
    ')',
    '. ',
    '\n',
    'javascript:x',
    'https://',
    '\u202e',
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 20 }), (parts) => {
      const text = parts.join('');
      const pieces = linkify(text);
      assert.equal(pieces.map((one) => one.text).join(''), text);
      for (const { text: shown, href } of pieces) {
        if (href === undefined) continue;
        assert.ok(href === `mailto:${shown}` || new URL(shown).href === href, href);
      }
    }),
  );
});

test('links end where people mean them to', () => {
  const links = linkify(
    'See https://a.test/path?q=1#x, (or http://b.test/c_(d)). help@acme.test; https://bank.test@evil.test/',
  ).flatMap(({ href }) => href ?? []);
  // The last one leads to evil.test: what stands before it looks like an address, and is no link either.
  assert.deepEqual(links.slice(0, 3), [
    'https://a.test/path?q=1#x',
    'http://b.test/c_(d)',
    'mailto:help@acme.test',
  ]);
  assert.ok(links.slice(3).every((href) => !href.startsWith('http')));
});

test('quoted text is folded with the line that says whose it is', () => {
  const quoted = '> one\n> two\n> three\n> four';
  const blocks = splitQuoted(`Yes.\n\nOn Monday, Bob wrote:\n${quoted}\n\nBest`);
  assert.deepEqual(
    blocks.map(({ text, isQuoted }) => [isQuoted, text.trim()]),
    [
      [false, 'Yes.'],
      [true, `On Monday, Bob wrote:\n${quoted}`],
      [false, 'Best'],
    ],
  );
  // What is quoted alone, and the line that an answer speaks of, are read.
  assert.deepEqual(splitQuoted(quoted), [{ text: quoted, isQuoted: false }]);
  assert.ok(splitQuoted('> When?\nAt noon.').every(({ isQuoted }) => !isQuoted));
  const outlook = splitQuoted('Fine.\n\n-----Original Message-----\nFrom: Bob\nSent: now\nHello');
  assert.deepEqual(outlook.at(-1)?.isQuoted, true);
});

test('property: no text is lost by folding', () => {
  const line = fc.oneof(fc.constantFrom('> a', '>> b', '', 'On Monday, Bob wrote:'), fc.string());
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      const text = lines.join('\n');
      assert.equal(
        splitQuoted(text)
          .map((block) => block.text)
          .join('\n'),
        text,
      );
    }),
  );
});

test('names from strangers lead nowhere and do not reverse an address', () => {
  assert.equal(
    safeFileName({ filename: '../../etc/pass\u202ewd', contentType: 'a/b', part: '2' }),
    '....etcpasswd',
  );
  assert.equal(safeFileName({ filename: '..', contentType: 'a/b', part: '2.1' }), 'part-2.1');
  assert.equal(safeFileName({ contentType: 'message/rfc822', part: '2' }), 'message.eml');
  assert.equal(safeFileName({ contentType: 'text/rfc822-headers', part: '3' }), 'header.txt');
  assert.equal(safeFileName({ contentType: 'constructor', part: '4' }), 'part-4');
  assert.equal(
    formatAddress({ name: 'moc.knab@tset \u202e', address: 'eve@sender.test' }),
    'moc.knab@tset <eve@sender.test>',
  );
  assert.equal(nameOf({ name: 'moc.knab\u202e', address: 'eve@sender.test' }), 'moc.knab');
  assert.equal(nameOf({ name: ' ', address: 'a@b.test' }), 'a@b.test');
  assert.equal(nameOf({}), 'somebody');
});

test('a sender is verified by DMARC alone, and trusted with its pictures only then', () => {
  assert.equal(judgeSender(undefined), undefined);
  assert.equal(judgeSender({ spf: 'pass', dkim: 'pass', dmarc: 'pass' })?.tone, 'good');
  assert.equal(judgeSender({ spf: 'pass', dkim: 'pass', dmarc: 'fail' })?.tone, 'bad');
  assert.equal(judgeSender({ spf: 'pass', dkim: 'none', dmarc: 'none' })?.tone, 'plain');
  assert.equal(judgeSender({ spf: 'softfail', dkim: 'none', dmarc: 'none' })?.tone, 'bad');
  assert.ok(isTrusted(undefined));
  assert.ok(!isTrusted({ spf: 'pass', dkim: 'pass', dmarc: 'none' }));
});

test('List-Unsubscribe is read from the header alone, folded or not', () => {
  const source =
    'From: a@b.test\r\nList-Unsubscribe: <mailto:leave@list.test?subject=x>,\r\n <https://list.test/u?i=1>\r\n\r\nList-Unsubscribe: <https://evil.test/>\r\n';
  assert.deepEqual(readUnsubscribe(source), {
    page: 'https://list.test/u?i=1',
    mailto: 'mailto:leave@list.test?subject=x',
  });
  const none = { page: undefined, mailto: undefined };
  for (const source of [
    'List-Unsubscribe: <javascript:alert(1)>, <ftp://a.test>\n\nx',
    'Subject: x\r\n\r\nList-Unsubscribe: <https://a.test>',
    'Subject: x\r\n List-Unsubscribe: <https://a.test>\r\n\r\n',
  ]) {
    assert.deepEqual(readUnsubscribe(source), none);
  }
});
