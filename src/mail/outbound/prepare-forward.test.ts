import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { mutatedMessages, readCorpus } from '../../../test/support/message/sample-messages.ts';
import { makeKey, verify } from '../../../test/support/outbound/dkim.ts';
import { collect, sourceOf } from '../../../test/support/outbound/far-end.ts';
import { MessageParser, readHeader } from '../../protocols/message/message.ts';
import { findLoop, prepareForward, type SenderVerdict } from './outbound.ts';

const key = makeKey('acme.test');
const NOW = Date.UTC(2026, 5, 15);

const passed: SenderVerdict = { policy: 'none', aligned: true, dkimAligned: true };
const broken: SenderVerdict = { policy: 'reject', aligned: false, dkimAligned: false };

async function forward(source: string | Buffer, verdict: SenderVerdict = passed) {
  const bytes = Buffer.from(source);
  const prepared = await prepareForward({
    open: sourceOf(bytes, 1_000),
    address: 'info@acme.test',
    domain: 'acme.test',
    dkimKey: key,
    verdict,
    now: NOW,
  });
  const sent = await collect(prepared.open());
  assert.equal(sent.length, prepared.size);
  return { ...prepared, sent, text: sent.toString('latin1') };
}

const envelopeOf = (source: Buffer) => {
  const parser = new MessageParser();
  parser.write(source);
  return parser.end().envelope;
};

const MESSAGE =
  'Return-Path: <ann@example.com>\r\nReceived: from a\r\n by b; Mon\r\nFrom: Ann <ann@example.com>\r\n' +
  'To: info@acme.test\r\nSubject: hi\r\nDate: Mon, 15 Jun 2026 10:00:00 +0000\r\n\r\n.\r\nBody \t text\r\n\r\n';

suite('a forwarded message', () => {
  test('has our mark and signature in front, no Return-Path, and the same body', async () => {
    const { text, sent, fromRewritten, eightBit } = await forward(MESSAGE);
    assert.match(
      text,
      /^DKIM-Signature: v=1; a=rsa-sha256;[\s\S]+\r\nDelivered-To: info@acme\.test\r\nReceived: /,
    );
    assert.ok(text.endsWith(MESSAGE.slice(MESSAGE.indexOf('From:'))));
    assert.doesNotMatch(text, /return-path/i);
    assert.deepEqual([fromRewritten, eightBit], [false, false]);
    assert.deepEqual(await verify(sent, key), ['pass acme.test']);
  });

  test('keeps the signature of its author valid', async () => {
    const author = makeKey('example.com');
    const first = await prepareForward({
      open: sourceOf(MESSAGE),
      address: 'ann@example.com',
      domain: 'example.com',
      dkimKey: author,
      verdict: passed,
      now: NOW,
    });
    const { sent } = await forward(await collect(first.open()));
    assert.deepEqual(await verify(sent, key, author), ['pass acme.test', 'pass example.com']);
  });

  test('is recognized when it comes back', async () => {
    const { sent } = await forward(MESSAGE);
    const header = await readHeader(sourceOf(sent)());
    const loop = 'this message was forwarded from here before';
    assert.equal(findLoop(header, 'info@acme.test'), loop);
    assert.equal(findLoop(header, 'sales@acme.test'), undefined);
  });

  test('has CRLF line ends throughout', async () => {
    const { text, sent } = await forward('From: ann@example.com\nSubject: a\rb\n\nx\ny\rz\r\n\n.');
    assert.match(
      text,
      /\r\nFrom: ann@example\.com\r\nSubject: a b\r\n\r\nx\r\ny\r\nz\r\n\r\n\.\r\n$/,
    );
    assert.deepEqual(await verify(sent, key), ['pass acme.test']);
  });

  test('without a key is not signed', async () => {
    const { open, size } = await prepareForward({
      open: sourceOf(MESSAGE),
      address: 'info@acme.test',
      domain: 'acme.test',
      verdict: passed,
      now: NOW,
    });
    const sent = await collect(open());
    assert.equal(sent.length, size);
    assert.match(sent.toString(), /^Delivered-To:/);
  });

  for (const [what, header] of [
    ['no From', 'Subject: hi\r\n'],
    ['two From fields', 'From: a@example.com\r\nFrom: b@example.com\r\n'],
  ]) {
    test(`with ${what} is not signed`, async () => {
      const { sent } = await forward(`${header}\r\nhi\r\n`);
      assert.deepEqual(await verify(sent, key), ['none undefined']);
    });
  }

  test('names each field that readers show once more than it has it', async () => {
    const { text, sent } = await forward(
      'Subject: one\r\nSubject: two\r\nFrom: a@example.com\r\nReceived: x\r\nMessage-ID: <1@x>\r\n\r\nhi\r\n',
    );
    const names = /h=([\s\S]*?);/.exec(text)?.[1]?.split(/:\s*/);
    const subjects = ['subject', 'subject', 'subject'];
    assert.deepEqual(names, ['from', 'from', ...subjects, 'message-id']);
    assert.deepEqual(await verify(sent, key), ['pass acme.test']);
    for (const field of ['From: x@y.test', 'Subject: three']) {
      const added = Buffer.concat([Buffer.from(`${field}\r\n`), sent]);
      assert.deepEqual(await verify(added, key), ['fail acme.test'], field);
    }
  });

  test('that is only a body stays a body', async () => {
    const { text } = await forward('no header here\r\n');
    assert.equal(text, 'Delivered-To: info@acme.test\r\n\r\nno header here\r\n');
  });

  test('says which SMTP extensions it needs', async () => {
    const body = await forward(Buffer.from('From: a@example.com\r\n\r\n\xe4\r\n', 'latin1'));
    assert.deepEqual([body.eightBit, body.utf8Header], [true, false]);
    const header = await forward('From: a@example.com\r\nSubject: ä\r\n\r\nhi\r\n');
    assert.deepEqual([header.eightBit, header.utf8Header], [true, true]);
    const old = Buffer.from('From: a@example.com\r\nSubject: \xe4\r\n\r\nhi\r\n', 'latin1');
    const { eightBit, utf8Header } = await forward(old);
    assert.deepEqual([eightBit, utf8Header], [true, false], 'a header in Latin-1');
    assert.deepEqual(await verify(header.sent, key), ['pass acme.test']);
  });

  test('of the corpus is signed correctly, whatever is wrong with it', async () => {
    for (const [name, source] of readCorpus()) {
      // Rewritten, so that each has one From.
      const { text, sent } = await forward(source, broken);
      assert.doesNotMatch(text, /\r(?!\n)|(?<!\r)\n/, name);
      const [ours] = await verify(sent, key);
      assert.equal(ours, 'pass acme.test', name);
    }
  });

  test('of any bytes has lines that end in CRLF, and the size that it says', async () => {
    await fc.assert(
      fc.asyncProperty(mutatedMessages, fc.boolean(), async (source, rewrite) => {
        const { text } = await forward(source, rewrite ? broken : passed);
        assert.doesNotMatch(text, /\r(?!\n)|(?<!\r)\n/);
      }),
      { numRuns: 200 },
    );
  });
});

suite('a change on the way', () => {
  const changes: [what: string, change: (text: string) => string, verdict: RegExp][] = [
    ['adds a From', (text) => `From: Boss <boss@acme.test>\r\n${text}`, /fail/],
    ['adds a From below', (text) => text.replace('\r\nTo:', '\r\nFrom: x@y\r\nTo:'), /fail/],
    ['changes the subject', (text) => text.replace('Subject: hi', 'Subject: ho'), /fail/],
    ['changes the body', (text) => text.replace('Body', 'Bogy'), /fail|neutral/],
    ['appends to the body', (text) => `${text}more\r\n`, /fail|neutral/],
    ['adds a Received', (text) => `Received: from x\r\n by y; Mon\r\n${text}`, /pass/],
    ['folds a field anew', (text) => text.replace('Subject: hi', 'subject:\r\n\t hi '), /pass/],
    ['adds white space in the body', (text) => text.replace('Body \t', 'Body   \t'), /pass/],
    ['drops empty lines at the end', (text) => text.replace(/(?:\r\n)+$/, '\r\n'), /pass/],
  ];
  for (const [what, change, verdict] of changes) {
    test(`${what}: ${verdict.source}`, async () => {
      const { text } = await forward(MESSAGE);
      const [result = ''] = await verify(Buffer.from(change(text)), key);
      assert.match(result, verdict);
    });
  }
});

suite('From is rewritten', () => {
  const verdicts: [what: string, from: string, verdict: SenderVerdict, rewritten: boolean][] = [
    ['p=reject, nothing survives', 'ann@example.com', broken, true],
    [
      'p=quarantine, SPF alone',
      'ann@example.com',
      { policy: 'quarantine', aligned: true, dkimAligned: false },
      true,
    ],
    [
      'p=reject, DKIM survives',
      'ann@example.com',
      { ...broken, aligned: true, dkimAligned: true },
      false,
    ],
    ['p=none', 'ann@example.com', { ...broken, policy: 'none' }, false],
    ...['boss@acme.test\u200e', 'boss@acme.test\x01x', 'boss@\x01'].map(
      (from): [string, string, SenderVerdict, boolean] => [
        'our own domain in a form that readers differ on, not proved',
        from,
        { ...broken, policy: 'none' },
        true,
      ],
    ),
    [
      'our own domain, proved',
      'ann@acme.test',
      { policy: 'reject', aligned: true, dkimAligned: false },
      false,
    ],
    ['our own domain, not checked', 'ann@acme.test', { policy: 'none', dkimAligned: false }, false],
    ['our own domain, not proved', 'ann@acme.test', { ...broken, policy: 'none' }, true],
    ['below our own domain, not proved', 'ann@x.acme.test', { ...broken, policy: 'none' }, true],
    [
      'one of two domains is ours, not proved',
      'a@b.test, ann@acme.test',
      { ...broken, policy: 'none' },
      true,
    ],
    [
      'one of two domains is ours, p=reject',
      'a@b.test, ann@acme.test',
      { ...broken, aligned: true },
      true,
    ],
    ['a From that cannot be read, p=reject', '<>', broken, true],
  ];
  for (const [what, from, verdict, rewritten] of verdicts) {
    test(`${what}: ${rewritten ? 'yes' : 'no'}`, async () => {
      const { fromRewritten, sent } = await forward(`From: ${from}\r\n\r\nhi\r\n`, verdict);
      assert.equal(fromRewritten, rewritten);
      assert.deepEqual(await verify(sent, key), ['pass acme.test']);
    });
  }

  test('to the address at our domain, under the name; replies go to the author', async () => {
    const { sent, text } = await forward(MESSAGE, broken);
    const envelope = envelopeOf(sent);
    assert.deepEqual(envelope.from, [{ name: 'Ann via acme.test', address: 'info@acme.test' }]);
    assert.deepEqual(envelope.replyTo, [{ name: 'Ann', address: 'ann@example.com' }]);
    assert.match(text, /^X-Original-From: Ann <ann@example\.com>\r$/m);
    assert.equal(text.match(/^from:/gim)?.length, 1);
  });

  test('an existing Reply-To stays', async () => {
    const { sent, text } = await forward(`Reply-To: list@example.com\r\n${MESSAGE}`, broken);
    assert.deepEqual(envelopeOf(sent).replyTo, [{ name: '', address: 'list@example.com' }]);
    assert.match(text, /^X-Original-From: Ann <ann@example\.com>\r$/m);
  });

  const names: [what: string, from: string, shown: string][] = [
    ['no name', 'ann@example.com', 'ann@example.com via acme.test'],
    ['quotes', '"A \\"B\\" \\\\C" <a@example.com>', 'A "B" \\C via acme.test'],
    ['encoded words', '=?utf-8?Q?J=C3=BCrgen?= <j@example.com>', 'Jürgen via acme.test'],
    ['raw UTF-8', 'Jürgen <j@example.com>', 'Jürgen via acme.test'],
    [
      'a name that hides a field',
      '=?utf-8?Q?x=0D=0ABcc=3A_y?= <j@example.com>',
      'x Bcc: y via acme.test',
    ],
    ['a long name', `"${'Ü'.repeat(300)}" <j@example.com>`, `${'Ü'.repeat(100)} via acme.test`],
    ['folds', 'Ann\r\n Smith\r\n\t<a@example.com>', 'Ann Smith via acme.test'],
    ['nothing', '', 'Unknown sender via acme.test'],
  ];
  for (const [what, from, shown] of names) {
    test(`with ${what}`, async () => {
      const { sent, text } = await forward(`From: ${from}\r\nTo: x@y.test\r\n\r\nhi\r\n`, broken);
      assert.deepEqual(envelopeOf(sent).from, [{ name: shown, address: 'info@acme.test' }]);
      const head = text.slice(0, text.indexOf('\r\n\r\n'));
      assert.doesNotMatch(head, /\r\n[ \t]*\r\n/);
      assert.deepEqual(await verify(sent, key), ['pass acme.test']);
    });
  }

  test('two From fields become one, with both authors to reply to', async () => {
    const { sent } = await forward('From: a@b.test\r\nFrom: c@d.test\r\n\r\nhi\r\n', broken);
    const envelope = envelopeOf(sent);
    assert.equal(envelope.from?.length, 1);
    assert.deepEqual(
      envelope.replyTo?.map(({ address }) => address),
      ['a@b.test', 'c@d.test'],
    );
    assert.deepEqual(await verify(sent, key), ['pass acme.test']);
  });
});

test('bodies of one line, or of only line ends, take no longer than others', async () => {
  const size = 4 * 2 ** 20;
  for (const unit of ['x', '\n', '\r', ' ', '.\n']) {
    const chunk = Buffer.from(unit.repeat(2 ** 17));
    const prepared = await prepareForward({
      open: async function* () {
        yield Buffer.from('From: a@example.com\r\n\r\n');
        for (let sent = 0; sent < size; sent += chunk.length) yield chunk;
      },
      address: 'info@acme.test',
      domain: 'acme.test',
      dkimKey: key,
      verdict: passed,
      now: NOW,
    });
    assert.ok(prepared.size >= size);
  }
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
    ['100 hops, and ours', received.repeat(101), 'info@acme.test', false],
    ['101 hops, and ours', received.repeat(102), 'info@acme.test', true],
  ];
  for (const [what, header, address, loops] of looping) {
    test(`${what}: ${loops ? 'a loop' : 'no loop'}`, async () => {
      const source = Buffer.from(`${header}\r\n`, 'latin1');
      const loop = findLoop(await readHeader(sourceOf(source)()), address);
      assert.equal(loop !== undefined, loops);
      assert.equal(loop?.includes('servers'), loops ? what.includes('hops') : undefined);
    });
  }
});
