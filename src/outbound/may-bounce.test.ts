import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readHeader } from '../message/message.ts';
import { mayBounce } from './outbound.ts';
import { sourceOf } from './testing/far-end.ts';

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
