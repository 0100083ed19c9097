import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MessageParser } from '../../protocols/message/message.ts';
import { readReport } from './reports.ts';

const REPORT = [
  'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
  '',
  '--b\r\nContent-Type: text/plain\r\n\r\nSorry.',
  '--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.far.test\r\n',
  'Final-Recipient: rfc822; gone@far.test\r\nAction: failed\r\nStatus: 5.1.1\r\n',
  '--b\r\nContent-Type: message/rfc822\r\n\r\nMessage-ID: <1@acme.test>\r\nSubject: a\r\n\r\nHello.',
  '--b--\r\n',
].join('\r\n');

async function isReport(source: string): Promise<boolean> {
  const bytes = Buffer.from(source, 'latin1');
  const parser = new MessageParser();
  parser.write(bytes);
  const open = async function* ({ start, end }: { start: number; end: number }) {
    yield bytes.subarray(start, end);
  };
  return (await readReport(parser.end(), open)) !== undefined;
}

test('a report names a message and the result for a recipient', async () => {
  assert.equal(await isReport(REPORT), true);
  for (const [what, otherwise] of [
    ['multipart/report', 'multipart/mixed'],
    ['message/delivery-status', 'text/plain'],
    ['message/rfc822', 'text/html'],
    ['Message-ID: <1@acme.test>', 'Message-ID: none'],
    ['Action: failed', 'Action: delivered'],
    ['Action: failed', 'Action:'],
  ] as const) {
    assert.equal(await isReport(REPORT.replace(what, otherwise)), false, otherwise);
  }
  const utf8 = REPORT.replace('message/delivery-status', 'message/global-delivery-status');
  assert.equal(await isReport(utf8.replace('message/rfc822', 'message/global')), true);
});

test('a report whose text for people is named a status, as InterMail names it', async () => {
  const named = REPORT.replace('text/plain', 'message/delivery-status;');
  assert.equal(await isReport(named), true);
});

test('a report with many recipients is read up to its limit', async () => {
  const group = 'Final-Recipient: rfc822; x@far.test\r\nAction: delivered\r\n\r\n'.repeat(100);
  const [before = '', after = ''] = REPORT.split('Final-Recipient:');
  assert.equal(await isReport(`${before}${group}Final-Recipient:${after}`), false);
});

test('property: no message makes the reader throw', async () => {
  const piece = fc.constantFrom(...REPORT.split(/(\r\n|: |; |[<>])/), '\0', '\r', '\xff', '--b');
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { maxLength: 60 }),
      fc.nat(REPORT.length),
      async (some, at) => {
        await isReport(some.join(''));
        await isReport(REPORT.slice(0, at) + some.join('') + REPORT.slice(at));
      },
    ),
    { numRuns: 200 },
  );
});
