/**
 * Ways to write a From. What is shown of it, what a webhook gets, and whom DMARC judges must be the same,
 * however it is written.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { check, records } from '../../../../test/support/sender-checks/checking.ts';
import { MessageParser, parseAddress } from '../../../protocols/message/message.ts';
import { buildWebhookBody } from '../../webhooks/webhooks.ts';
import type { Verdicts } from './check-sender.ts';

const zone = {
  records: {
    ...records,
    'TXT _dmarc.xn--bcher-kva.test': ['v=DMARC1; p=reject'],
    'TXT _dmarc.evil.test': ['v=DMARC1; p=reject'],
  },
};

/** Base64 in an encoded word. */
const word = (text: string) => `=?utf-8?b?${Buffer.from(text).toString('base64')}?=`;

/**
 * Values of From that claim `bank.test`, whose policy is p=reject, or that claim no domain although they
 * look like an address. All are sent by `evil.test`, for which the client may send.
 */
const forged: string[] = [
  // Well formed.
  'ceo@bank.test',
  '<ceo@bank.test>',
  'CEO <ceo@bank.test>',
  '"The CEO" <ceo@bank.test>',
  'C. E. O. <ceo@bank.test>',
  '\tceo@bank.test\t',
  ' \r\n ceo@bank.test',
  'CEO\r\n <ceo@bank.test>',
  'CEO@BANK.TEST',
  'ceo@bank.test (the boss)',
  '(the boss) ceo@bank.test',
  '(a (nested) one) <ceo@bank.test>',
  '(a \\) in it) ceo@bank.test',
  'ceo(x)@(y)bank(z).test(w)',
  'ceo @ bank . test',
  'ceo@bank\r\n .test',
  'ceo@\r\n bank.test',
  '"c e o"@bank.test',
  '"ceo@evil.test"@bank.test',
  '"<eve@evil.test>" <ceo@bank.test>',
  `${word('CEO')} <ceo@bank.test>`,
  `${word('eve@evil.test')} <ceo@bank.test>`,
  'Böss <ceo@bank.test>',
  'bänk@bank.test',
  'ceo@mail.bank.test, ceo@bank.test',
  // Groups and several mailboxes.
  'Board: ceo@bank.test;',
  'Board: eve@evil.test, CEO <ceo@bank.test>;',
  'Board: ;, ceo@bank.test',
  'eve@evil.test, ceo@bank.test',
  'ceo@bank.test, eve@evil.test',
  ', , ceo@bank.test,',
  'eve@evil.test; ceo@bank.test',
  'eve@evil.test ceo@bank.test',
  'Board: Inner: ceo@bank.test;;',
  'Board: ceo@bank.test',
  ': ceo@bank.test',
  'ceo@bank.test;',
  // Control characters.
  'ceo@bank.test\x01x',
  'ceo@bank.test\x01',
  'ceo@bank.test\x01.evil.test',
  'ceo@bank\x01.test',
  'ceo@ba\x7fnk.test',
  'ceo\x00@bank.test',
  'ceo@bank.test\x00eve@evil.test',
  'ceo@bank.test\x00',
  'ceo@\x00bank.test',
  '\x00ceo@bank.test',
  '<ceo@bank.test\x1b>',
  '"CEO\x07" <ceo@bank.test>',
  'ceo@bank.test\x0bx',
  'ceo@bank.test\x0c.evil.test',
  'ceo@bank.test\x08\x08\x08\x08',
  'ceo@bank\u0085.test',
  'eve@evil.test\rceo@bank.test',
  'ceo@bank.test\reve@evil.test',
  'ceo@bank.test\r',
  'ceo@ba\r\n nk.test',
  'ceo@bank.te\n\tst',
  'ceo\n @bank.test',
  'ceo@bank.test\r\n \r\n x',
  // Brackets, quotes and comments that are not closed in order.
  '<ceo@bank.test',
  'ceo@bank.test>',
  '<<ceo@bank.test>>',
  '<eve@evil.test <ceo@bank.test>>',
  '<eve@evil.test> <ceo@bank.test>',
  '<ceo@bank.test> <eve@evil.test>',
  '<eve@evil.test>, <ceo@bank.test',
  '<ceo@bank.test> trailing',
  'ceo@bank.test trailing',
  'eve@evil.test <ceo@bank.test> (x',
  '<>ceo@bank.test',
  '<> <ceo@bank.test>',
  'CEO <ceo@bank.test, x>',
  '"ceo@bank.test',
  '"CEO <ceo@bank.test>',
  'CEO" <ceo@bank.test>',
  '"a" "b" <ceo@bank.test',
  '(ceo@bank.test',
  'ceo@bank.test (',
  'ceo@bank.test)',
  'ceo@(bank.test',
  'ceo@"bank.test"',
  'ceo@"bank".test',
  'ceo@\\bank.test',
  'ceo\\@bank.test',
  '"ceo@bank.test" eve@evil.test',
  '[ceo@bank.test]',
  'ceo@[bank.test]',
  'ceo@[bank.test',
  'mailto:ceo@bank.test',
  '<mailto:ceo@bank.test>',
  'ceo@bank.test <eve@evil.test>',
  'eve@evil.test (ceo@bank.test',
  // Several @, none, or another character that only looks like one.
  'ceo@bank.test@evil.test',
  'ceo@evil.test@bank.test',
  'ceo@@bank.test',
  '@bank.test',
  '@bank.test:ceo',
  '<@evil.test:ceo@bank.test>',
  '<@evil.test,@other.test:ceo@bank.test>',
  '<@bank.test:eve@evil.test>',
  'ceo＠bank.test',
  'ceo﹫bank.test',
  '<ceo＠bank.test>',
  'ceo＠bank.test@evil.test',
  word('ceo@bank.test'),
  `${word('CEO <ceo@bank.test>')}`,
  `${word('ceo')}@bank.test`,
  `${word('ceo@bank.test\0')}@evil.test`,
  `${word('ceo@bank.test>')}${word('\0')}@evil.test`,
  `ceo@${word('bank.test')}`,
  `=?utf-8?q?ceo?=@=?utf-8?q?bank=2Etest?=`,
  // The domain.
  'ceo@bank.test.',
  'ceo@bank.test..',
  'ceo@bank..test@bank.test',
  'ceo@.bank.test',
  'ceo@bank。test',
  'ceo@bank．test',
  'ceo@bank｡test',
  'ceo@ｂａｎｋ.test',
  'ceo@b\u00adank.test',
  'ceo@bank\u200b.test',
  'ceo@\ufeffbank.test',
  'ceo@bank.test\u200e',
  '\u202eceo@bank.test',
  'ceo@bank.test\u202e',
  'ceo\u2066@bank.test',
  'ceo@bank.test\u3164',
  'ceo@bank.test\u00a0x',
  'ceo@bank.test\u2028',
  'ceo@bank.test/evil.test',
  'ceo@bank.test#evil.test',
  'ceo@bank.test:25',
  'ceo@bank.test\\evil.test',
  'ceo@bank.test!evil.test',
  'ceo@bank.test%evil.test',
  'ceo@bank.test\u{10ffff}',
  'ceo@bücher.test',
  'ceo@BÜCHER.test',
  'ceo@xn--bcher-kva.test',
  'ceo@bu\u0308cher.test',
  // No domain, although it looks like an address.
  'ceo@',
  '<ceo@>',
  '@',
  'ceo@ (bank)',
  'ceo@(bank',
  'ceo@..',
  'ceo@\x01',
  word('ceo@'),
  'ceo@192.0.2.1 x',
];

/** The same with one character for each byte: not as UTF-8. */
const forgedBytes: string[] = [
  'B\xf6ss <ceo@bank.test>',
  'B\xf6ss ceo@bank.test',
  'ceo@bank.test\xff',
  'ceo@bank.test\xe9.evil.test',
  'ceo@b\xe9nk.test, ceo@bank.test',
  'c\xe9o@bank.test',
  'ceo@bank.test\x9d',
  'ceo@bank.test\xa0x',
  'ceo@\x81bank.test',
  'ceo\xc2@bank.test',
];

/** Values of From that claim only a domain that the client may send for, or none. */
const honest: string[] = [
  'eve@watch.test',
  '"ceo@bank.test" <eve@watch.test>',
  '"CEO <ceo@bank.test>" <eve@watch.test>',
  'eve@watch.test (ceo@bank.test)',
  `${word('ceo@bank.test')} <eve@watch.test>`,
  'ceo%bank.test@watch.test',
  '"ceo@bank.test"@watch.test',
  'bank.test!ceo@watch.test',
  'ceo＠bank.test <eve@watch.test>',
  'ceo@bank.test.watch.test',
  'ceo@xn--bank.test',
  'Eve [Sales] <eve@watch.test>',
  'Eve Smith (Sales <eve@watch.test>',
  'Eve @ Watch <eve@watch.test>',
  '<@other.test:eve@watch.test>',
  'eve@[192.0.2.1]',
  'eve@[IPv6:2001:db8::1]',
  'eve@192.0.2.1',
];

async function inspect(header: string, encoding: 'utf8' | 'latin1') {
  const text = `${header}To: bob@acme.test\r\nSubject: Hi\r\n\r\nHello.\r\n`;
  const message = Buffer.from(text, encoding);
  const { verdicts } = await check({ message, zone });
  const parser = new MessageParser();
  parser.write(message);
  const parsed = parser.end();
  const webhook = {
    domain: 'acme.test',
    envelope: { from: '', to: [] },
    parsed,
    auth: { spf: null, dkim: null, dmarc: null },
    rawUrl: '',
    partUrl: () => '',
    mailbox: null,
    mailId: '',
    receivedAt: 0,
  };
  const body = JSON.parse(await buildWebhookBody(webhook, async function* () {}));
  return { verdicts, shown: parsed.envelope.from ?? [], told: body.data.from };
}

/** Author domains that were judged, as Authentication-Results names them. */
function judgedDomains({ authenticationResults }: Verdicts & { authenticationResults: string }) {
  return Array.from(
    authenticationResults.matchAll(/header\.from=(\S+?);?(?=\s|$)/g),
    ([, name]) => name,
  );
}

async function checkAlike(header: string, encoding: 'utf8' | 'latin1' = 'utf8') {
  const { verdicts, shown, told } = await inspect(header, encoding);
  assert.deepEqual(told, shown);
  const judged = judgedDomains(verdicts);
  for (const { address } of shown) {
    const domain = parseAddress(address)?.domain;
    const isJudged = domain === undefined || judged.includes(domain);
    assert.ok(isJudged || verdicts.action === 'reject', `${address} is shown, judged: ${judged}`);
  }
  return verdicts;
}

suite('a From that is refused in its plain form is refused in every other', () => {
  for (const from of forged) {
    test(JSON.stringify(from), async () => {
      const verdicts = await checkAlike(`From: ${from}\r\n`);
      assert.equal(verdicts.action, 'reject', JSON.stringify(verdicts.dmarc));
    });
  }
  for (const from of forgedBytes) {
    test(JSON.stringify(from), async () => {
      const { action, dmarc } = await checkAlike(`From: ${from}\r\n`, 'latin1');
      assert.equal(action, 'reject', JSON.stringify(dmarc));
    });
  }
  const headers = [
    'From : ceo@bank.test\r\n',
    'From\t: ceo@bank.test\r\n',
    'X: y\r\nFrom\r\n : ceo@bank.test\r\n',
    'fROM:ceo@bank.test\r\n',
    'From:ceo@bank.test\n',
    'X: y\nFrom: ceo@bank.test\n',
    'From: eve@watch.test\r\nFrom: ceo@bank.test\r\n',
    'From: ceo@bank.test\r\nFrom: eve@watch.test\r\n',
    'From:\r\nFrom: ceo@bank.test\r\n',
    'From: ceo@(\r\nFrom: )bank.test\r\n',
    'From: "\r\nFrom: " <ceo@bank.test>\r\n',
    'From \r\nFrom: ceo@bank.test\r\n',
    'From: ceo@bank.test\r\nno field at all\r\n',
    'From: ceo@bank\r\n.test\r\n',
    'From: eve@watch.test\r\nceo@bank.test\r\n',
    'X: y\r\nno field at all\r\nFrom: ceo@bank.test\r\n',
    'From: eve@watch.test\r\nX: y\r\n\tz\r\nFROM: ceo@bank.test\r\n',
    `From: eve@watch.test${' '.repeat(9_000)}\r\n`,
  ];
  for (const header of headers) {
    test(JSON.stringify(header.slice(0, 100)), async () => {
      assert.equal((await checkAlike(header)).action, 'reject');
    });
  }
});

suite('a From that claims no domain of others is accepted', () => {
  for (const from of honest) {
    test(JSON.stringify(from), async () => {
      const verdicts = await checkAlike(`From: ${from}\r\n`);
      assert.equal(verdicts.action, 'accept', JSON.stringify(verdicts.dmarc));
    });
  }
});

test('for any From, the address that is shown is the address that is judged', async () => {
  const piece = fc.constantFrom(
    ...'<>()[]"\\,;:@. \t\r\n\0\x01\x7f＠。'.split(''),
    ...[
      'bank.test',
      'evil.test',
      'ceo',
      '\r\nFrom: ',
      '\r\n ',
      word('ceo@bank.test'),
      '\u200e',
      'ü',
    ],
  );
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: piece, maxLength: 20 }), async (text) => {
      await checkAlike(`From: ${text}\r\n`);
    }),
    { numRuns: 1_000 },
  );
});

test('the corpus has at least a hundred forms', () => {
  assert.ok(new Set(forged).size >= 100);
});
