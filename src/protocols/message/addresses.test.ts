import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { isIP } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { MAX_MAILBOXES } from './address-lists.ts';
import { HeaderReader, parseAddress, readAddressList, readEnvelope, toDnsName } from './message.ts';

test('a control character within a comment makes a list inexact', () => {
  assert.equal(readAddressList('a@good.test (comment)').isExact, true);
  for (const control of ['\x00', '\x01', '\x0b', '\r', '\x1b', '\x7f']) {
    const list = readAddressList(`a@evil.test (${control} <ceo@bank.test>)`);
    assert.equal(list.isExact, false, JSON.stringify(control));
    assert.equal(list.mailboxes[0]?.address, 'a@evil.test');
  }
});

test('a list is read only as far as it is kept', () => {
  const one = readAddressList('a@b.test, '.repeat(MAX_MAILBOXES - 1));
  assert.equal(one.isExact, true);
  const many = readAddressList('a@b.test, '.repeat(5 * MAX_MAILBOXES));
  assert.equal(many.mailboxes.length, MAX_MAILBOXES);
  assert.equal(many.isExact, false);
  assert.equal(readAddressList(`a@b.test (${'x'.repeat(200_000)})`).isExact, false);
});

test('what a list has no room for is not read, empty mailboxes and tokens included', () => {
  for (const text of ['<', '\u200b,', 'a ', '(', '@', 'g:', '.']) {
    const raw = Buffer.from(text.repeat(100_000)).toString('latin1');
    const allowance = { mailboxes: MAX_MAILBOXES };
    const read = readAddressList(raw, allowance);
    assert.equal(read.isExact, false, text);
    const size = JSON.stringify(read.mailboxes).length;
    assert.ok(size < 100_000, `${text}: ${size}`);
    if ('<,:'.includes(text.slice(-1))) assert.ok(allowance.mailboxes <= 0, `${text} is counted`);
    if (allowance.mailboxes > 0) continue;
    assert.deepEqual(readAddressList('a@b.test', allowance).mailboxes, []);
  }
});

test('all fields of a name have as many mailboxes as one', () => {
  const list = `To: ${'<'.repeat(1_000)}\r\n`;
  const many = 'a@b.test,'.repeat(100);
  const reader = new HeaderReader();
  reader.write(Buffer.from(`${`To: ${many}\r\n`.repeat(20)}${list.repeat(100)}\r\n`));
  const { fields } = reader.header;
  assert.equal(readEnvelope(fields).to?.length, MAX_MAILBOXES);
});

test('addresses: dot-strings, quoted strings by their meaning, domains in ASCII', () => {
  const addresses: [string, string, string][] = [
    ['ann@example.org', 'ann', 'example.org'],
    ['Ann.Smith+tag@EXAMPLE.org', 'Ann.Smith+tag', 'example.org'],
    ["!#$%&'*+-/=?^_`{|}~@example.org", "!#$%&'*+-/=?^_`{|}~", 'example.org'],
    ['"john smith"@example.org', 'john smith', 'example.org'],
    ['"a@b\\"c\\\\"@example.org', 'a@b"c\\', 'example.org'],
    ['"ann"@example.org', 'ann', 'example.org'],
    ['ann@bücher.example', 'ann', 'xn--bcher-kva.example'],
    ['用户@例え.example', '用户', 'xn--r8jz45g.example'],
    ['ann@localhost', 'ann', 'localhost'],
    ['ann@123.example', 'ann', '123.example'],
    [`${'a'.repeat(64)}@example.org`, 'a'.repeat(64), 'example.org'],
  ];
  for (const [text, local, domain] of addresses) {
    assert.deepEqual(parseAddress(text), { local, domain }, text);
  }
});

test('addresses: text that is not an address of a mailbox at a domain', () => {
  const texts = [
    ...[
      '',
      '@',
      'ann',
      'ann@',
      '@example.org',
      '""@example.org',
      '"@example.org',
      '"a"b@example.org',
    ],
    ...['.ann@example.org', 'ann.@example.org', 'a..b@example.org', 'a b@example.org', 'a"b@c.org'],
    ...['a@b@example.org', 'a,b@example.org', '<ann@example.org>', 'Ann <ann@example.org>'],
    ...[
      'ann(x)@example.org',
      '@relay.example:ann@example.org',
      ' ann@example.org',
      'ann@example.org ',
    ],
    ...[
      'ann@[192.0.2.1]',
      'ann@[IPv6:2001:db8::1]',
      'ann@192.0.2.1',
      'ann@127.1',
      'ann@0x7f.0.0.1',
    ],
    ...['ann@example.org.', 'ann@.example.org', 'ann@a..b', 'ann@-a.example', 'ann@a-.example'],
    ...['ann@ex_ample.org', 'ann@ex%61mple.org', 'ann@example.org:25', 'ann@example.org/x'],
    ...[
      `ann@${'a'.repeat(64)}.org`,
      `${'a'.repeat(65)}@example.org`,
      `${'é'.repeat(33)}@example.org`,
    ],
    ...['a\0b@example.org', 'a\nb@example.org', '"a\rb"@example.org', '"a\tb"@example.org'],
    ...['a\x7fb@example.org', 'a\x85b@example.org', '\ud800@example.org', 'ann@exam\0ple.org'],
    ...[`ann@${'a.'.repeat(124)}org`, `"${'\\a'.repeat(64)}"@${'a.'.repeat(70)}org`],
  ];
  for (const text of texts) assert.equal(parseAddress(text), undefined, JSON.stringify(text));
});

test('addresses: any text gives undefined or an address that can be written and read again', () => {
  const pieces = fc.constantFrom(...'ab.@"\\ é-+[]:1', 'example.org', '\0', '例');
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: pieces })), (text) => {
      const address = parseAddress(text);
      if (!address) return;
      const { local, domain } = address;
      assert.match(domain, /^[a-z\d.-]{1,253}$/);
      assert.ok(local.length > 0 && Buffer.byteLength(local) <= 64);
      const quoted = `"${local.replace(/["\\]/g, '\\$&')}"@${domain}`;
      assert.deepEqual(parseAddress(quoted), address);
    }),
    { numRuns: 3_000 },
  );
});

test('names are lower case, IDNA-encoded and without the root', () => {
  const names: [text: string, name: string | undefined][] = [
    ['mail.example', 'mail.example'],
    ['MAIL.example...', 'mail.example'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['BÜCHER.example', 'xn--bcher-kva.example'],
    ['ｂank．example', 'bank.example'],
    ['key1._domainkey.my_bank.example', 'key1._domainkey.my_bank.example'],
    ['xn--bank-.example', 'xn--bank-.example'],
    ['a..b', 'a..b'],
    ['', undefined],
    ['...', undefined],
    ['192.0.2.1', undefined],
    ['[192.0.2.1]', undefined],
    ['a b', undefined],
    ['1.\u3002', undefined],
    ['a/b', undefined],
    ['"a".b', undefined],
    ['a\0b', undefined],
    ['.'.repeat(2_000_000), undefined],
  ];
  for (const [text, name] of names) assert.equal(toDnsName(text), name, text.slice(0, 100));
});

test('any text gives undefined or a name that does not change when it is read again', () => {
  const pieces = fc.constantFrom(...'aB1-._@[]ü。．｡', 'xn--', '\u200e', '例');
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: pieces })), (text) => {
      const name = toDnsName(text);
      if (name === undefined) return;
      assert.match(name, /^[a-z\d._-]+$/);
      assert.equal(isIP(name), 0);
      assert.equal(toDnsName(name), name);
    }),
    { numRuns: 3_000 },
  );
});
