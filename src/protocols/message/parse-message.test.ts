import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  checkParsed,
  contentOf,
  leavesOf,
  lines,
  outline,
  parse,
} from '../../../test/support/message/sample-messages.ts';
import { findPart, MessageParser, type ParsedMessage } from './message.ts';

const attachment = Buffer.from('%PDF-1.7 not really');

const invoice = lines(
  'Return-Path: <ann@example.org>',
  'Received: from mx.example.org by mail.example.com',
  '\twith ESMTPS; Fri, 21 Nov 2025 10:00:02 +0100',
  'From: "Doe, Ann" <ann@example.org>',
  'To: Bob <bob@example.com>,',
  ' carol@example.com',
  'Subject: =?utf-8?Q?Invoice_=E2=82=AC?=',
  ' =?utf-8?B?MTI=?= for you',
  'Date: Fri, 21 Nov 2025 10:00:00 +0100 (CET)',
  'Message-ID: <1@example.org>',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary="outer"',
  '',
  'This is a multipart message.',
  '--outer',
  'Content-Type: multipart/alternative; boundary=inner',
  '',
  '--inner',
  'Content-Type: text/plain; charset=utf-8',
  'Content-Transfer-Encoding: quoted-printable',
  '',
  'It is =E2=82=AC12.',
  'Regards',
  '--inner',
  'Content-Type: text/html',
  '',
  '<p>It is 12.</p>',
  '--inner--',
  '',
  '--outer',
  'Content-Type: application/pdf; name="invoice.pdf"',
  'Content-Disposition: attachment; filename="invoice.pdf"',
  'Content-Transfer-Encoding: base64',
  'Content-ID: <pdf@example.org>',
  '',
  attachment.toString('base64'),
  '--outer--',
);

test('a message with text, HTML and an attachment', () => {
  const parsed = parse(invoice);
  checkParsed(invoice, parsed);
  assert.deepEqual(parsed.envelope, {
    date: '2025-11-21T09:00:00.000Z',
    subject: 'Invoice €12 for you',
    from: [{ name: 'Doe, Ann', address: 'ann@example.org' }],
    to: [
      { name: 'Bob', address: 'bob@example.com' },
      { name: '', address: 'carol@example.com' },
    ],
    messageId: '<1@example.org>',
  });
  assert.equal(invoice.toString('latin1', parsed.headerEnd, parsed.headerEnd + 7), 'This is');
  assert.deepEqual(outline(parsed.structure), [
    `- multipart/mixed 7bit ${invoice.length - parsed.headerEnd}`,
    '  1 multipart/alternative 7bit 191',
    '    1.1 text/plain quoted-printable 21',
    '    1.2 text/html 7bit 16',
    '  2 application/pdf base64 19',
  ]);
});

test('each part has its place and its type', () => {
  const { structure } = parse(invoice);
  const pdf = findPart(structure, '2');
  assert.ok(pdf);
  assert.deepEqual(contentOf(invoice, pdf), attachment);
  const { headerStart, bodyStart, bodyEnd, ...rest } = pdf;
  assert.deepEqual(rest, {
    part: '2',
    type: 'application/pdf',
    parameters: { name: 'invoice.pdf' },
    encoding: 'base64',
    size: 28,
    decodedSize: 19,
    id: '<pdf@example.org>',
    disposition: 'attachment',
    dispositionParameters: { filename: 'invoice.pdf' },
  });
  assert.ok(invoice.toString('latin1', headerStart, bodyStart).startsWith('Content-Type: app'));
  assert.equal(bodyEnd - bodyStart, 28);
  assert.equal(findPart(structure, '1.1')?.lines, 2);
  const alternative = findPart(structure, '1');
  assert.ok(alternative);
  const body = contentOf(invoice, alternative).toString();
  assert.ok(body.startsWith('--inner\r\n') && body.endsWith('--inner--\r\n'), body);
});

test('the parser is used once', () => {
  const parser = new MessageParser();
  parser.write(invoice);
  parser.end();
  assert.throws(() => parser.end());
  assert.throws(() => parser.write(invoice));
});

/** A message that is made on the fly: a head, then a piece many times over, then a tail. */
function parseRepeated(head: string, piece: string, times: number, tail = ''): ParsedMessage {
  const parser = new MessageParser();
  const perChunk = Math.max(1, Math.min(times, Math.floor(65_536 / piece.length)));
  const chunk = Buffer.from(piece.repeat(perChunk));
  parser.write(Buffer.from(head));
  for (let left = times; left > 0; left -= perChunk) {
    parser.write(left >= perChunk ? chunk : chunk.subarray(0, left * piece.length));
  }
  parser.write(Buffer.from(tail));
  return parser.end();
}

test('100,000 header fields: the first count, the body is found', () => {
  const field = 'X-Filler: nothing to see\r\n';
  const head = 'Subject: kept\r\n';
  const { envelope, headerEnd, size } = parseRepeated(
    head,
    field,
    100_000,
    'From: late@example.org\r\n\r\nbody',
  );
  assert.deepEqual(envelope, { subject: 'kept' });
  assert.equal(headerEnd, size - 'body'.length);
});

test('100,000 To fields: a thousand mailboxes are kept', () => {
  const { envelope } = parseRepeated('', 'To: a@example.org\r\n', 100_000);
  assert.equal(envelope.to?.length, 1_000);
});

test('a 1 MB header line is cut, and the fields around it count', () => {
  const { envelope, structure, headerEnd, size } = parseRepeated(
    'From: ann@example.org\r\nSubject: ',
    'long ',
    200_000,
    '\r\nContent-Type: text/html\r\n\r\nbody',
  );
  assert.equal(envelope.from?.[0]?.address, 'ann@example.org');
  assert.ok(envelope.subject.length > 60_000 && envelope.subject.length <= 65_536);
  assert.equal(headerEnd, size - 'body'.length);
  // After the 256 KB of header that are read, fields do not count.
  assert.equal(structure.type, 'text/plain');
});

test('a 1 MB line of parameters keeps few of them', () => {
  const { structure } = parseRepeated(
    'Content-Type: multipart/mixed; boundary=b',
    '; name*0*=a; x=y(',
    60_000,
    '\r\n\r\n--b\r\n\r\none\r\n--b--',
  );
  assert.deepEqual(outline(structure).slice(1), ['  1 text/plain 7bit 3']);
  assert.ok(JSON.stringify(structure).length < 2_000);
});

test('1,000 nested multiparts: 50 levels are followed', () => {
  const levels = Array.from({ length: 1_000 }, (_, at) =>
    lines(`Content-Type: multipart/mixed; boundary=b${at}`, '', `--b${at}`),
  );
  const source = Buffer.concat([...levels, lines('', 'inmost')]);
  const parsed = parse(source);
  checkParsed(source, parsed);
  const [leaf] = leavesOf(parsed.structure);
  assert.equal(leaf?.part?.split('.').length, 50);
  assert.equal(leaf?.type, 'multipart/mixed');
  assert.equal(leaf?.bodyEnd, source.length);
});

test('1,000 nested messages: 50 levels are followed', () => {
  const source = Buffer.from('Content-Type: message/rfc822\r\n\r\n'.repeat(1_000));
  const parsed = parse(source);
  checkParsed(source, parsed);
  const [leaf] = leavesOf(parsed.structure);
  assert.equal(leaf?.part, Array(51).fill('1').join('.'));
});

test('5,000 parts: 1,000 are separated, the rest belongs to the part around them', () => {
  const source = Buffer.concat([
    lines('Content-Type: multipart/mixed; boundary=b', ''),
    ...Array.from({ length: 5_000 }, (_, at) => lines('--b', '', `part ${at}`)),
    lines('--b--'),
  ]);
  const parsed = parse(source);
  checkParsed(source, parsed);
  const leaves = leavesOf(parsed.structure);
  assert.equal(leaves.length, 999);
  const last = leaves.at(-1);
  assert.ok(last);
  assert.equal(contentOf(source, last).toString(), 'part 998');
});

test('2,000 nested messages side by side: they and their parts are counted together', () => {
  const source = Buffer.concat([
    lines('Content-Type: multipart/digest; boundary=b', ''),
    ...Array.from({ length: 2_000 }, (_, at) => lines('--b', '', `Subject: ${at}`, '', 'text')),
  ]);
  const parsed = parse(source);
  checkParsed(source, parsed);
  assert.equal(outline(parsed.structure).length, 1_000);
});

test('a line of more than 1,000 octets is no delimiter', () => {
  const message = (padding: number) =>
    Buffer.from(
      `Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\none\r\n--b${' '.repeat(padding)}\r\n\r\ntwo`,
    );
  for (const [padding, parts] of [
    [995, 2],
    [996, 1],
    [70_000, 1],
  ] as const) {
    const source = message(padding);
    const parsed = parse(source);
    checkParsed(source, parsed);
    assert.equal(parsed.structure.childNodes?.length, parts, `${padding} spaces`);
    for (const cut of [1, 500, 999]) assert.deepEqual(parse(source, [cut]), parsed);
  }
});

test('a header line of more than 1,000 octets in front of a delimiter ends at its own end', () => {
  const source = lines(
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    `X-Long: ${'x'.repeat(1_100)}`,
    '--b--',
  );
  const whole = parse(source);
  checkParsed(source, whole);
  const [part] = leavesOf(whole.structure);
  assert.equal(part?.bodyEnd, source.length - '\r\n--b--\r\n'.length);
  for (let at = 1; at < source.length; at++) {
    assert.deepEqual(parse(source, [at, source.length]), whole, `cut at ${at}`);
  }
});

test('a subject that is cut stays in its charset', () => {
  for (const letter of ['é', '€', '\u{1f4ce}']) {
    for (const filler of ['', 'x'.repeat(230_000)]) {
      const head = `X: ${filler}\r\nSubject: .`;
      const { envelope } = parseRepeated(head, letter, 50_000, '\r\n\r\n');
      const letters = [...envelope.subject].slice(1);
      assert.ok(letters.length > 5_000 && letters.every((each) => each === letter), letter);
    }
  }
});

test('the stored form of a message with 1,000 long file names stays small', () => {
  const name = '\u{1f4ce}"\\'.repeat(500).replace(/["\\]/g, '\\$&');
  const parsed = parseRepeated(
    'Content-Type: multipart/mixed; boundary=b\r\n',
    `\r\n--b\r\nContent-Type: a/${'b'.repeat(127)}; name="${name}"\r\nContent-ID: <${'i'.repeat(2_000)}>\r\n`,
    2_000,
  );
  assert.ok(JSON.stringify(parsed.structure).length < 1_000_000);
});

test('input that takes quadratic time in a careless parser ends in time', () => {
  const multipart = 'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n';
  const encoded = `${multipart}Content-Transfer-Encoding: quoted-printable\r\n\r\n`;
  for (const piece of ['--\n', '\n--b ', '\r', '\n', '-', '\r\n-', ' ', '=', '= ', '\0', '--b\r']) {
    parseRepeated(encoded, piece, 4_000_000 / piece.length);
    parseRepeated(multipart, piece, 4_000_000 / piece.length);
  }
  for (const name of [
    'From',
    'Subject',
    'Content-Type',
    'Date',
    'Content-Disposition',
    'Content-ID',
  ]) {
    const value = name.startsWith('Content') ? 'a/b; x=' : '';
    for (const piece of [
      '(',
      '=?a?Q?=?= ',
      ',',
      '<',
      '"',
      '\\',
      '@',
      ':;',
      'a ',
      '; a*1=',
      '\n ',
      '%',
      '[',
    ]) {
      parseRepeated(`${name}: ${value}`, piece, 1_000_000 / piece.length);
    }
  }
});

test('reading 64 MB keeps none of it', () => {
  const head = lines(
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    'Content-Transfer-Encoding: base64',
    '',
  );
  const parser = new MessageParser();
  parser.write(head);
  const line = `${'QUJD'.repeat(19)}\r\n`;
  const chunk = Buffer.from(line.repeat(800));
  const times = Math.ceil((64 * 1024 * 1024) / chunk.length);
  // Memory that only waits for the garbage collector does not count.
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  collect();
  const before = process.memoryUsage();
  for (let written = 0; written < times; written++) parser.write(chunk);
  collect();
  const after = process.memoryUsage();
  const grown = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  assert.ok(grown < 16 * 1024 * 1024, `${grown} bytes more in use`);
  parser.write(Buffer.from('\r\n--b--\r\n'));
  const { structure } = parser.end();
  assert.equal(structure.childNodes?.[0]?.decodedSize, times * 800 * 57);
});
