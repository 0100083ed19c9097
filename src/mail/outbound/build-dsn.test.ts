import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { mutatedMessages } from '../../../test/support/message/sample-messages.ts';
import { makeKey, verify } from '../../../test/support/outbound/dkim.ts';
import {
  collect,
  senderTo,
  sourceOf,
  startFarEnd,
} from '../../../test/support/outbound/far-end.ts';
import { MessageParser, type MessagePart, readHeader } from '../../protocols/message/message.ts';
import { buildDsn, type DsnOptions, mayBounce } from './outbound.ts';

const key = makeKey('acme.test');
const ORIGINAL =
  'Return-Path: <ann@example.com>\r\nFrom: Ann <ann@example.com>\r\nTo: info@acme.test\r\n' +
  'Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\nMessage-ID: <1@example.com>\r\n\r\nSecret body\r\n';

async function build(changes: Partial<DsnOptions> = {}, original: string | Buffer = ORIGINAL) {
  const dsn = await buildDsn({
    hostname: 'mail.postroom.test',
    domain: 'acme.test',
    dkimKey: key,
    sender: 'ann@example.com',
    recipients: [
      {
        recipient: 'info@acme.test',
        forwardedTo: 'Private@far.test',
        error: { status: 550, enhancedStatus: '5.1.1', text: '<private@far.test> unknown' },
        lastAttempt: Date.UTC(2026, 5, 15, 11),
      },
    ],
    header: await readHeader(sourceOf(Buffer.from(original))()),
    arrived: Date.UTC(2026, 5, 10, 9, 5),
    id: 'e7f7a0d2-6b0e-4c1e-8f0d-2d1f6a1b2c3d',
    now: Date.UTC(2026, 5, 15, 12),
    ...changes,
  });
  const source = await collect(dsn.open());
  assert.equal(source.length, dsn.size);
  const parser = new MessageParser();
  parser.write(source);
  const parsed = parser.end();
  const contentOf = (part: MessagePart | undefined) =>
    source.subarray(part?.bodyStart ?? 0, part?.bodyEnd ?? 0).toString();
  const parts = parsed.structure.childNodes ?? [];
  return { dsn, source, parsed, parts, contents: parts.map(contentOf) };
}

suite('a DSN', () => {
  test('is a report of three parts', async () => {
    const { parsed, parts } = await build();
    assert.equal(parsed.structure.type, 'multipart/report');
    assert.equal(parsed.structure.parameters?.['report-type'], 'delivery-status');
    assert.deepEqual(
      parts.map(({ type }) => type),
      ['text/plain', 'message/delivery-status', 'text/rfc822-headers'],
    );
  });

  test('says what failed, for programs', async () => {
    const { contents } = await build();
    assert.equal(
      contents[1],
      'Reporting-MTA: dns; mail.postroom.test\r\n' +
        'Arrival-Date: Wed, 10 Jun 2026 09:05:00 +0000\r\n' +
        '\r\n' +
        'Final-Recipient: rfc822; info@acme.test\r\n' +
        'Action: failed\r\n' +
        'Status: 5.1.1\r\n' +
        'Diagnostic-Code: smtp; 550 5.1.1 <info@acme.test> unknown\r\n' +
        'Last-Attempt-Date: Mon, 15 Jun 2026 11:00:00 +0000\r\n',
    );
  });

  test('says what failed, for people', async () => {
    const { contents } = await build();
    assert.match(contents[0] ?? '', /mail\.postroom\.test/);
    assert.match(contents[0] ?? '', /^<info@acme\.test>\r\n {4}550 5\.1\.1/m);
    assert.match(contents[0] ?? '', /^Subject: Grüße\r$/m);
  });

  test('returns the header, and no body', async () => {
    const { contents, source } = await build();
    assert.equal(contents[2], `${ORIGINAL.slice(0, ORIGINAL.indexOf('\r\n\r\n'))}\r\n`);
    assert.doesNotMatch(source.toString(), /Secret/);
  });

  test('does not reveal where the message was forwarded to', async () => {
    const replied = await build();
    assert.doesNotMatch(replied.source.toString(), /private|far\.test/i);
    const error = { enhancedStatus: '4.4.1', text: 'no connection to mx.far.test' };
    const recipients = [{ recipient: 'info@acme.test', forwardedTo: 'p@far.test', error }];
    const broken = await build({ recipients });
    assert.doesNotMatch(broken.source.toString(), /far\.test/);
    assert.match(broken.contents[1] ?? '', /^Status: 4\.4\.1\r\nDiagnostic-Code: x-postroom; /m);
  });

  test('is from the null sender to the original sender, in the same thread, and signed', async () => {
    const { dsn, source, parsed } = await build();
    assert.deepEqual([dsn.from, dsn.to, dsn.smtpUtf8], ['', 'ann@example.com', false]);
    assert.equal(parsed.envelope.inReplyTo, '<1@example.com>');
    assert.deepEqual(parsed.envelope.from, [
      { name: 'Mail delivery', address: 'postmaster@acme.test' },
    ]);
    assert.equal(parsed.envelope.date, '2026-06-15T12:00:00.000Z');
    assert.deepEqual(await verify(source, key), ['pass acme.test']);
  });

  test('is not bounced', async () => {
    const { source } = await build();
    const header = await readHeader(sourceOf(source)());
    assert.equal(mayBounce({ sender: 'somebody@acme.test', spf: 'pass', header }), false);
    assert.match(source.toString(), /^Auto-Submitted: auto-replied\r$/m);
  });

  test('is in UTF-8 where an address or the header is (RFC 6533)', async () => {
    const error = { status: 550, enhancedStatus: '5.1.1', text: 'Unbekannt: ü' };
    const recipients = [
      { recipient: 'ü\\@acme.test', error },
      { recipient: 'info@acme.test', error },
    ];
    const changes = { sender: 'юзер@example.com', recipients };
    const utf8 = await build(changes, 'Subject: Grüße\r\nTo: ü@acme.test\r\n\r\n');
    assert.equal(utf8.dsn.smtpUtf8, true);
    const typesOf = ({ parts }: typeof utf8) => parts.map(({ type, encoding }) => [type, encoding]);
    assert.deepEqual(typesOf(utf8).slice(1), [
      ['message/global-delivery-status', '8bit'],
      ['message/global-headers', '8bit'],
    ]);
    assert.match(utf8.contents[1] ?? '', /^Final-Recipient: utf-8; ü\\@acme\.test\r$/m);
    assert.match(utf8.contents[1] ?? '', /^Final-Recipient: rfc822; info@acme\.test\r$/m);
    assert.match(utf8.contents[1] ?? '', /^Diagnostic-Code: smtp; 550 5\.1\.1 Unbekannt: ü\r$/m);
    assert.match(utf8.contents[2] ?? '', /^Subject: Grüße\r$/m);

    // A reply in UTF-8 alone needs no reader of UTF-8, and a header in another charset is not UTF-8.
    const latin1 = Buffer.from('Subject: Gr\xfc\xdfe\r\n\r\n', 'latin1');
    const ascii = await build({ recipients: recipients.slice(1) }, latin1);
    assert.deepEqual(typesOf(ascii).slice(1), [
      ['message/delivery-status', '7bit'],
      ['text/rfc822-headers', '8bit'],
    ]);
    assert.match(ascii.contents[1] ?? '', /^Diagnostic-Code: smtp; 550 5\.1\.1 Unbekannt: \?\r$/m);
  });

  test('names the host that refused, except where the mail was forwarded to', async () => {
    const error = { status: 550, enhancedStatus: '5.1.1', text: 'unknown', host: 'mx.far.test' };
    const statusOf = async (one: DsnOptions['recipients'][number]) =>
      (await build({ recipients: [one] })).contents[1] ?? '';
    const recipient = 'info@acme.test';
    assert.match(await statusOf({ recipient, error }), /^Remote-MTA: dns; mx\.far\.test\r$/m);
    const { status: _, ...unanswered } = error;
    for (const other of [
      { recipient, error: unanswered },
      { recipient, error, forwardedTo: 'p@far.test' },
      { recipient, error: { ...error, host: 'mx\r\nX: y' } },
    ]) {
      assert.doesNotMatch(await statusOf(other), /Remote-MTA|X: y/);
    }
  });

  test('stays small, whatever message it answers', async () => {
    const header = `Subject: ${'x'.repeat(3_000)}\r\n${'X-Long: y\r\n z\r\n'.repeat(20_000)}\r\n`;
    const error = { status: 550, enhancedStatus: '5.1.1', text: 'z'.repeat(100_000) };
    const recipients = Array.from({ length: 1_000 }, () => ({ recipient: 'a@acme.test', error }));
    const { source } = await build({ recipients }, header);
    assert.ok(source.length < 200_000, `${source.length} octets`);
    assert.ok(
      source
        .toString()
        .split('\r\n')
        .every((line) => line.length <= 998),
    );
  });

  test('has one meaning, whatever message it answers', async () => {
    await fc.assert(
      fc.asyncProperty(
        mutatedMessages,
        fc.string({ unit: anyCharacter }),
        fc.string({ unit: anyCharacter }),
        async (original, text, recipient) => {
          const error = { status: 550, enhancedStatus: '5.1.1', text };
          const { source, parts } = await build({ recipients: [{ recipient, error }] }, original);
          assert.doesNotMatch(source.toString('latin1'), /\r(?!\n)|(?<!\r)\n/);
          assert.match(
            parts.map(({ type }) => type).join(),
            /^text\/plain,message\/(global-)?delivery-status,(text\/rfc822|message\/global)-headers$/,
          );
        },
      ),
      { numRuns: 200 },
    );
  });

  test('goes out like any other message', async () => {
    const far = await startFarEnd();
    const { dsn, source } = await build({ sender: 'ann@far.test' });
    const outcome = await senderTo(far.port).sendMessage(dsn);
    assert.equal(outcome.result, 'delivered');
    assert.deepEqual([far.received[0]?.from, far.received[0]?.to], ['', ['ann@far.test']]);
    assert.deepEqual(far.received[0]?.source, source);
  });
});

const cases: [what: string, sender: string, spf: string, header: string, may: boolean][] = [
  ['a person', 'ann@example.com', 'pass', '', true],
  ['a sender without SPF', 'ann@example.com', 'none', '', true],
  ['a softfail', 'ann@example.com', 'softfail', '', true],
  ['SPF says forged', 'ann@example.com', 'fail', '', false],
  ['the null sender', '', 'none', '', false],
  ['no address', 'ann', 'pass', '', false],
  ['an address literal', 'ann@[192.0.2.1]', 'pass', '', false],
  ['MAILER-DAEMON', 'Mailer-Daemon@example.com', 'pass', '', false],
  [
    'an automatic reply',
    'ann@example.com',
    'pass',
    'Auto-Submitted: auto-replied (vacation)',
    false,
  ],
  ['an automatic notice', 'ann@example.com', 'pass', 'auto-submitted: Auto-Notified', false],
  ['generated mail', 'ann@example.com', 'pass', 'Auto-Submitted: auto-generated', true],
  ['mail by hand', 'ann@example.com', 'pass', 'Auto-Submitted: no', true],
  ['a list', 'list-bounces@example.com', 'pass', 'Precedence: bulk', true],
  [
    'a DSN with a sender',
    'ann@example.com',
    'pass',
    'Content-Type: multipart/report;\r\n report-type=delivery-status',
    false,
  ],
  ['a DSN in the body', 'ann@example.com', 'pass', '\r\nContent-Type: multipart/report', true],
];
for (const [what, sender, spf, header, may] of cases) {
  test(`${what}: ${may ? 'yes' : 'no'}`, async () => {
    const read = await readHeader(sourceOf(`From: a@b.test\r\n${header}\r\n\r\n`)());
    assert.equal(mayBounce({ sender, spf, header: read }), may);
  });
}
