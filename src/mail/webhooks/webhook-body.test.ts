import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { lines, parse, readCorpus } from '../../../test/support/message/sample-messages.ts';
import { cutToJson, fitToJson, jsonSize } from './webhook-body.ts';
import { buildWebhookBody, type WebhookMessage } from './webhooks.ts';

interface Body {
  readonly type: string;
  readonly timestamp: string;
  readonly data: Record<string, unknown> & {
    readonly text: string | null;
    readonly html: string | null;
    readonly attachments: readonly Record<string, unknown>[];
  };
}

const MEGABYTE = 1_000_000;

/** As long as a real link. */
const urlOf = (part: string) => `http://mail.test/attachments/${'1'.repeat(80)}/${part}`;

/** Builds the body for a source, parses it, and records how much of the source was read. */
async function build(source: Buffer, more: Partial<WebhookMessage> = {}) {
  let read = 0;
  const json = await buildWebhookBody(
    {
      domain: 'acme.test',
      envelope: { from: 'bob@example.test', to: ['ann@acme.test'] },
      parsed: parse(source),
      auth: { spf: 'pass', dkim: 'none', dmarc: null },
      rawUrl: 'http://mail.test/webhooks/raw/1?expires=2&signature=3',
      partUrl: urlOf,
      mailbox: null,
      mailId: 'm',
      receivedAt: Date.UTC(2026, 0, 2, 3, 4, 5),
      ...more,
    },
    async function* ({ start, end }) {
      for (let at = start; at < end; at += 1_000) {
        const chunk = Buffer.from(source.subarray(at, Math.min(at + 1_000, end)));
        read += chunk.length;
        yield chunk;
        // The chunk is overwritten afterwards, which shows whether it was kept.
        chunk.fill(0x21);
      }
    },
  );
  assert.ok(Buffer.byteLength(json) < MEGABYTE, `${Buffer.byteLength(json)} bytes`);
  assert.ok(json.isWellFormed());
  const body: Body = JSON.parse(json);
  return { body, json, read };
}

test('a message in full', async () => {
  const source = lines(
    'From: Bob <bob@example.test>',
    'To: ann@acme.test, "Team, The" <team@acme.test>',
    'Cc: =?utf-8?q?J=C3=BCrgen?= <j@example.test>',
    'Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=',
    'Date: Fri, 02 Jan 2026 04:00:00 +0100',
    'Message-ID: <1@example.test>',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary=m',
    '',
    '--m',
    'Content-Type: multipart/alternative; boundary=a',
    '',
    '--a',
    'Content-Type: text/plain; charset=iso-8859-1',
    'Content-Transfer-Encoding: quoted-printable',
    '',
    'Gr=FC=DFe',
    'zweite Zeile',
    '--a',
    'Content-Type: multipart/related; boundary=r',
    '',
    '--r',
    'Content-Type: text/html; charset=utf-8',
    'Content-Transfer-Encoding: base64',
    '',
    Buffer.from('<b>Grüße</b>').toString('base64'),
    '--r',
    'Content-Type: image/png; name=logo.png',
    'Content-Transfer-Encoding: base64',
    'Content-Disposition: inline',
    '',
    'AAAAAAAA',
    '--r--',
    '--a--',
    '--m',
    'Content-Type: text/plain; name="notes.txt"',
    'Content-Disposition: attachment; filename="notes.txt"',
    '',
    'attached',
    '--m',
    'Content-Type: text/plain',
    '',
    'The footer of a list',
    '--m--',
  );
  const { body } = await build(source);
  assert.deepEqual(body, {
    type: 'message.received',
    timestamp: '2026-01-02T03:04:05.000Z',
    data: {
      domain: 'acme.test',
      envelope: { from: 'bob@example.test', to: ['ann@acme.test'] },
      subject: 'Grüße',
      from: [{ name: 'Bob', address: 'bob@example.test' }],
      to: [
        { name: '', address: 'ann@acme.test' },
        { name: 'Team, The', address: 'team@acme.test' },
      ],
      cc: [{ name: 'Jürgen', address: 'j@example.test' }],
      date: '2026-01-02T03:00:00.000Z',
      message_id: '<1@example.test>',
      text: 'Grüße\nzweite Zeile\nThe footer of a list',
      html: '<b>Grüße</b>',
      attachments: [
        {
          filename: 'logo.png',
          content_type: 'image/png',
          size: 6,
          part: '1.2.2',
          url: urlOf('1.2.2'),
        },
        { filename: 'notes.txt', content_type: 'text/plain', size: 8, part: '2', url: urlOf('2') },
      ],
      auth: { spf: 'pass', dkim: 'none', dmarc: null },
      raw_url: 'http://mail.test/webhooks/raw/1?expires=2&signature=3',
      mail_id: 'm',
      mailbox: null,
    },
  });
});

test('missing values of a message are null or empty', async () => {
  const { body } = await build(lines('Content-Type: application/pdf', '', 'x'));
  const { subject, from, to, cc, date, message_id, text, html, attachments } = body.data;
  assert.deepEqual(
    { subject, from, to, cc, date, message_id, text, html },
    { subject: '', from: [], to: [], cc: [], date: null, message_id: null, text: null, html: null },
  );
  assert.deepEqual(attachments, [
    { filename: null, content_type: 'application/pdf', size: 3, part: '1', url: urlOf('1') },
  ]);
});

test('a forwarded message is one attachment, with its own text inside', async () => {
  const { body } = await build(readCorpus().get('message-in-message') ?? Buffer.alloc(0));
  assert.ok(body.data.attachments.some(({ content_type }) => content_type === 'message/rfc822'));
});

suite('less than 1 MB', () => {
  const part = (type: string, content: string) => [
    '--b',
    `Content-Type: ${type}; charset=utf-8`,
    'Content-Transfer-Encoding: 8bit',
    '',
    content,
  ];
  const message = (...parts: string[][]) =>
    lines('Content-Type: multipart/alternative; boundary=b', '', ...parts.flat(), '--b--');

  test('text and html that are too long each have half', async () => {
    const source = message(
      part('text/plain', 'ä"\n'.repeat(500_000)),
      part('text/html', '<p>\u0001😀'.repeat(500_000)),
    );
    const { body, json, read } = await build(source);
    assert.equal(body.data.text_truncated, true);
    assert.equal(body.data.html_truncated, true);
    assert.ok(Buffer.byteLength(json) > MEGABYTE - 1_000, 'no room is wasted');
    assert.ok(Math.abs(jsonSize(body.data.text) - jsonSize(body.data.html)) < 20);
    assert.match(body.data.text ?? '', /^(?:ä"\n)+ä?"?$/u);
    assert.match(body.data.html ?? '', /^(?:<p>\u0001😀)+(?:<|<p|<p>|<p>\u0001)?$/u);
    assert.ok(read < 9 * MEGABYTE);
  });

  test('replacement characters in the middle are text', async () => {
    const text = `${'\ufffd'.repeat(300_000)}${'x'.repeat(200_000)}`;
    const { body } = await build(message(part('text/plain', text)));
    assert.equal(body.data.text_truncated, true);
    assert.equal(body.data.text?.slice(0, 300_001), `${'\ufffd'.repeat(300_000)}x`);
  });

  test('one can use what the other leaves free', async () => {
    const long = 'x'.repeat(900_000);
    const short = await build(message(part('text/plain', 'short'), part('text/html', long)));
    assert.equal(short.body.data.html, long);
    assert.equal(short.body.data.html_truncated, undefined);
    assert.equal(short.body.data.text, 'short');
    const other = await build(
      message(part('text/plain', long), part('text/html', 'y'.repeat(300_000))),
    );
    assert.equal(other.body.data.html_truncated, undefined);
    assert.equal(other.body.data.text_truncated, true);
    assert.ok(Buffer.byteLength(other.json) > MEGABYTE - 1_000);
  });

  test('of a message of 50 MB only the start is read', async () => {
    const source = lines('Content-Type: text/plain', '', 'x\r\n'.repeat(17_000_000));
    const { body, read } = await build(source);
    assert.equal(body.data.text_truncated, true);
    assert.ok(read <= MEGABYTE + 1_000, `${read}`);
  });

  test('of an encoding with very little content only a limited part is read', async () => {
    const source = lines(
      'Content-Type: text/plain',
      'Content-Transfer-Encoding: base64',
      '',
      ' \r\n'.repeat(4_000_000),
      Buffer.from('late').toString('base64'),
    );
    const { body, read } = await build(source);
    assert.equal(body.data.text, '');
    assert.equal(body.data.text_truncated, true);
    assert.ok(read <= 4 * MEGABYTE + 1_000, `${read}`);
  });

  test('a character at the end of the part that is read is left out as a whole', async () => {
    const source = lines('Content-Type: text/plain; charset=utf-8', '', `x${'€'.repeat(500_000)}`);
    const { body } = await build(source);
    assert.match(body.data.text ?? '', /^x€+$/u);
  });

  test('lists and header fields have limits of their own', async () => {
    const many = Array.from({ length: 900 }, (_, n) => `"${'n'.repeat(100)}" <a${n}@example.test>`);
    const attachments = Array.from({ length: 900 }, () => [
      '--b',
      `Content-Type: application/x-${'x'.repeat(300)}; name="${'f'.repeat(190)}"`,
      '',
      'x',
    ]);
    const source = lines(
      'Content-Type: multipart/mixed; boundary=b',
      `Subject: ${'s'.repeat(20_000)}`,
      `From: ${many.join(', ')}`,
      `To: ${many.join(', ')}`,
      `Cc: ${many.join(', ')}`,
      `Message-ID: <${'m'.repeat(20_000)}>`,
      '',
      ...part('text/plain', 'x'.repeat(600_000)),
      ...attachments.flat(),
      '--b--',
    );
    const envelope = {
      from: `${'f'.repeat(9_000)}@example.test`,
      to: Array.from({ length: 3_000 }, (_, n) => `${'l'.repeat(240)}${n}@acme.test`),
    };
    const { body } = await build(source, { envelope });
    assert.equal(body.data.addresses_truncated, true);
    assert.equal(body.data.attachments_truncated, true);
    assert.equal(body.data.text_truncated, true);
    assert.ok(body.data.attachments.length > 200);
    assert.ok((body.data.text?.length ?? 0) > 400_000);
  });
});

suite('hostile messages', () => {
  for (const [name, source] of readCorpus()) {
    test(name, async () => {
      await build(source);
    });
  }

  test('any bytes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(
          'text/plain',
          'text/html; charset=utf-16',
          'text/plain; charset=iso-2022-jp',
        ),
        fc.constantFrom('7bit', 'base64', 'quoted-printable', 'nonsense'),
        fc.uint8Array({ maxLength: 300 }),
        async (type, encoding, bytes) => {
          const head = `Content-Type: ${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`;
          await build(Buffer.concat([Buffer.from(head), bytes]));
        },
      ),
    );
  });
});

suite('fitting into JSON', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', '"', '\n', '\u0001', 'ä', '€', '😀', '\ud800'),
  });

  test('a text is cut only where needed, and no more than needed', () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 2, max: 60 }), (given, most) => {
        const { text: cutText, cut } = cutToJson(given, most);
        const fits = cutText ?? 'null';
        assert.ok(fits.isWellFormed());
        assert.ok(jsonSize(fits) <= most);
        const whole = given.toWellFormed();
        assert.equal(cut, jsonSize(whole) > most);
        assert.ok(whole.startsWith(fits));
        const next = whole.slice(fits.length).match(/^./su)?.[0] ?? '';
        if (cut) assert.ok(jsonSize(fits + next) > most);
      }),
    );
  });

  test('items are included as long as they fit', () => {
    assert.deepEqual(fitToJson(['a', 'b'], 10), { items: ['a', 'b'], cut: false });
    assert.deepEqual(fitToJson(['a', 'b'], 9), { items: ['a'], cut: true });
    assert.deepEqual(fitToJson([], 2), { items: [], cut: false });
  });
});
