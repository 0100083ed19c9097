import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import libmime from 'libmime';
import { readAddressList } from './address-lists.ts';
import { type Authors, findAuthors, MAX_AUTHOR_DOMAINS, parseDate } from './envelope.ts';
import { MessageParser } from './parse-message.ts';
import { decodeWords } from './text.ts';

function envelope(...header: string[]) {
  const parser = new MessageParser();
  parser.write(Buffer.from(header.map((line) => `${line}\r\n`).join('')));
  return parser.end().envelope;
}

test('dates: RFC 5322, its obsolete forms, and other forms that senders write', () => {
  const dates: [string, string][] = [
    ['Fri, 21 Nov 1997 09:55:06 -0600', '1997-11-21T15:55:06.000Z'],
    ['21 Nov 97 09:55:06 GMT', '1997-11-21T09:55:06.000Z'],
    ['Fri, 21 Nov 97 09:55 EST', '1997-11-21T14:55:00.000Z'],
    ['Thu, 13 Feb 1969 23:32 -0330 (Newfoundland (Time))', '1969-02-14T03:02:00.000Z'],
    ['Fri , 21 Nov 1997 09 : 55 : 06 PDT', '1997-11-21T16:55:06.000Z'],
    ['1 Jan 103 00:00:00 Z', '2003-01-01T00:00:00.000Z'],
    ['1 Jan 49 00:00:00 +0000', '2049-01-01T00:00:00.000Z'],
    ['1 January 2020 00:00:00 A', '2020-01-01T00:00:00.000Z'],
    ['Sat, 31 Dec 2016 23:59:60 +0000', '2016-12-31T23:59:59.000Z'],
    ['29 Feb 2024 12:00:00 +1400', '2024-02-28T22:00:00.000Z'],
    ['Fri Nov 21 09:55:06 1997', '1997-11-21T09:55:06.000Z'],
    ['Fri Nov  7 09:55:06 PST 1997', '1997-11-07T17:55:06.000Z'],
    ['1997-11-21T09:55:06.123-06:00', '1997-11-21T15:55:06.000Z'],
  ];
  for (const [text, expected] of dates) assert.equal(parseDate(text), expected, text);
  assert.equal(parseDate('1 Jan 24 00:30 +1400', 'ignored'), '2024-01-01T00:30:00.000Z');
});

test('dates: text that names no instant gives undefined', () => {
  const texts = [
    '',
    'yesterday',
    '31 Feb 2024 00:00:00 Z',
    '0 Jan 2024 00:00 Z',
    '1 Foo 2024 00:00',
  ];
  const more = ['1 Jan 2024', '1 Jan 2024 24:00 Z', '1 Jan 2024 00:60 Z', '1 Jan 12345 00:00 Z'];
  const late = ['1 Jan 2024 00:00:61 Z', '1997-13-21T09:55:06Z', '1 Jan 0000 00:00:00 +0100'];
  for (const text of [...texts, ...more, ...late]) assert.equal(parseDate(text), undefined, text);
});

test('dates: every instant is read back from its form in mail', () => {
  const anyDate = fc.date({ min: new Date(0), max: new Date('2100-01-01'), noInvalidDate: true });
  fc.assert(
    fc.property(anyDate, (date) => {
      date.setUTCMilliseconds(0);
      assert.equal(parseDate(date.toUTCString()), date.toISOString());
    }),
  );
  fc.assert(fc.property(fc.string(), (text) => void parseDate(text)));
});

test('encoded words: neighbours are joined, other text is kept', () => {
  const texts: [string, string][] = [
    ['=?utf-8?Q?Caf=C3=A9_au_lait?=', 'Café au lait'],
    ['=?UTF-8?b?Q2Fmw6k=?= and =?utf-8?q?more?=', 'Café and more'],
    ['=?utf-8?Q?=E2=82?= \t =?utf-8?B?rA==?=', '€'],
    ['=?iso-8859-1*en?Q?=E9?= =?utf-8?Q?=C3=A9?=', 'éé'],
    ['=?iso-2022-jp?B?GyRCJUYlOSVIGyhC?=', 'テスト'],
    ['=?gb2312?B?1tDOxA==?=', '中文'],
    ['=?utf-8?Q?spaces in it?=', 'spaces in it'],
    ['=?utf-8?Q?=4=G1=?=', '=4=G1='],
    ['=?utf-8?X?x?= =?utf-8?Q?open', '=?utf-8?X?x?= =?utf-8?Q?open'],
    ['=?utf-7?Q?+ADw-script+AD4-?=', '<script>'],
    ['=?utf-32be?B?AAAgrA==?=', '€'],
    ['=??Q?x?= =? ?Q?x?=', '=??Q?x?= =? ?Q?x?='],
    ['=?__proto__?Q?=C3=A9?=', 'é'],
  ];
  for (const [text, expected] of texts) assert.equal(decodeWords(text), expected, text);
});

test('encoded words: the output of another implementation is decoded', () => {
  const text = fc.string({ unit: 'grapheme' }).filter((value) => value.isWellFormed());
  const encoding = fc.constantFrom('Q', 'B');
  fc.assert(
    fc.property(text, encoding, fc.integer({ min: 20, max: 75 }), (value, letter, length) => {
      const encoded = libmime.encodeWord(value, letter, length);
      assert.equal(decodeWords(encoded), value, encoded);
    }),
    { numRuns: 1_000 },
  );
});

test('encoded words: any text is accepted', () => {
  const pieces = fc.constantFrom('=?', '?=', '?', 'utf-8', 'Q', 'B', '=', 'C3', '_', ' ', 'é', 'x');
  fc.assert(fc.property(fc.string({ unit: pieces }), (text) => void decodeWords(text)));
});

test('subject: folded, encoded, without control characters, always there', () => {
  assert.equal(
    envelope('Subject: a', '\tfolded', ' line').subject,
    'a\tfolded line'.replace('\t', ' '),
  );
  assert.equal(envelope('Subject: =?utf-8?Q?a=0D=0ABcc:_x=00y?=').subject, 'a Bcc: x y');
  assert.equal(envelope('subject:no space').subject, 'no space');
  assert.equal(envelope('Subject:').subject, '');
  assert.deepEqual(envelope('X-Other: x'), { subject: '' });
});

test('address fields: lists, groups, several fields, and nothing', () => {
  const { from, to, cc, bcc, replyTo, sender } = envelope(
    'From: Ann <ann@example.org>, =?utf-8?Q?B=C3=B6b?= <bob@example.org>',
    'To: Team: a@example.com, "B, C" <b@example.com>;, d@example.com',
    'To: e@example.com',
    'Cc: undisclosed-recipients:;',
    'Reply-To: "Ann at work" <ann@[192.0.2.1]>',
    'Sender: "john smith"@example.com (John)',
  );
  assert.deepEqual(
    from?.map(({ name }) => name),
    ['Ann', 'Böb'],
  );
  assert.deepEqual(
    to?.map(({ address }) => address),
    ['a@example.com', 'b@example.com', 'd@example.com', 'e@example.com'],
  );
  assert.equal(cc, undefined);
  assert.equal(bcc, undefined);
  assert.deepEqual(replyTo, [{ name: 'Ann at work', address: 'ann@[192.0.2.1]' }]);
  assert.deepEqual(sender, [{ name: 'John', address: '"john smith"@example.com' }]);
});

test('address fields: a comment or a group around it changes nothing in a list', () => {
  const pieces = fc.constantFrom(
    ...['a@b.example', '<a@b.example>', 'Ann B. <a@b.example>', '"B, Ann" <a@b.example>', ', '],
    ...['a', 'Ann', '@', '.', ' ', '\t', '<', '>', 'é', '"a@b.example"', '=?utf-8?Q?=C3=B6?='],
  );
  fc.assert(
    fc.property(fc.string({ unit: pieces, maxLength: 12 }), (list) => {
      const { mailboxes, isExact } = readAddressList(list);
      assert.deepEqual(readAddressList(`(${'()'.repeat(3)})${list}`).isExact, isExact);
      const group = readAddressList(`Group:${list}${isExact ? ';' : ''}`);
      assert.deepEqual(group.mailboxes, mailboxes);
      assert.equal(group.isExact, isExact);
    }),
    { numRuns: 3_000 },
  );
});

test('address fields: any text gives at most a thousand mailboxes, all of text', () => {
  const pieces = fc.constantFrom(
    ...'<>()[]"\\,;:@. ab\t',
    'a@b.example',
    '=?utf-8?Q?=00?=',
    'é',
    '\0',
  );
  fc.assert(
    fc.property(fc.string({ unit: pieces }), (text) => {
      for (const { name, address } of readAddressList(text).mailboxes) {
        assert.ok(name !== '' || address !== '');
        assert.doesNotMatch(name + address, /[\0-\x1f\x7f]/);
      }
    }),
    { numRuns: 2_000 },
  );
  assert.equal(readAddressList('a@b,'.repeat(5_000)).mailboxes.length, 1_000);
});

function authorsOf(...fields: (string | Buffer)[]): Omit<Authors, 'hasAddress'> {
  const { hasAddress: _, ...authors } = foundIn(...fields);
  return authors;
}

function foundIn(...fields: (string | Buffer)[]): Authors {
  return findAuthors(fields.map((field) => Buffer.from(field).toString('latin1')));
}

const cases: [from: string, domains: string[]][] = [
  ['ann@bank.test', ['bank.test']],
  [' Ann <ann@bank.test>', ['bank.test']],
  ['ann@BANK.test.', ['bank.test']],
  ['"Smith, Ann" <ann@bank.test>', ['bank.test']],
  ['\r\n Ann O.\r\n\tSmith\r\n <ann@bank.test>\r\n', ['bank.test']],
  ['\tann@Bank.test \r\n', ['bank.test']],
  ['"<a@one.test>, b@two.test" <ann@bank.test>', ['bank.test']],
  // In quotes a name is no address; without quotes it breaks the syntax, so both count.
  ['"ceo@bank.test" <eve@evil.test>', ['evil.test']],
  ['=?utf-8?q?ceo=40bank.test?= <eve@evil.test>', ['evil.test']],
  ['ceo@bank.test <eve@evil.test>', ['evil.test', 'bank.test']],
  // Several authors: as a list, as a group, or in a wrong form.
  ['a@one.test, b@two.test', ['one.test', 'two.test']],
  ['a@one.test; b@two.test', ['one.test', 'two.test']],
  ['a@one.test,b@one.test', ['one.test']],
  ['Us: a@one.test, B <b@two.test>;', ['one.test', 'two.test']],
  ['<a@one.test> <b@two.test>', ['one.test', 'two.test']],
  ['<a@one.test <b@two.test>', ['one.test', 'two.test']],
  // Forms without their optional parts, and with comments in all allowed places.
  ['<ann@bank.test', ['bank.test']],
  ['ann(at home (or not))@(the)bank(s)(of) .test', ['bank.test']],
  ['ann@bank\r\n .test', ['bank.test']],
  ['ann@bank.test (unclosed', ['bank.test']],
  ['"unclosed <ann@bank.test>', ['bank.test']],
  ['"a\\"b@c" <ann@bank.test>', ['bank.test']],
  // Nobody writes source routes (RFC 5322 section 4.4) any more.
  ['<@relay.test,@other.test:ann@bank.test>', ['bank.test', 'relay.test', 'other.test']],
  ['"a@b.test"@bank.test', ['bank.test']],
  // Readers disagree which of the two it is.
  ['ann@bank.test@evil.test', ['evil.test', 'bank.test']],
  ['"ann@bank.test@evil.test', ['evil.test', 'bank.test']],
  // Characters that readers drop, replace, or stop at.
  ['ann@bank\0.test', ['bank.test', 'bank']],
  ['ceo@bank.test\x01x', ['bank.test', 'bank.testx']],
  ['ann@ｂank.test', ['bank.test']],
  ['ann@b\u00adank.test', ['bank.test', 'b']],
  ['ann@bank.test\u200e', ['bank.test']],
  ['ann@bank.test/evil', ['bank.test']],
  ['ann@bücher.test', ['xn--bcher-kva.test']],
  ['ann@xn--bcher-kva.test', ['xn--bcher-kva.test']],
  ['ann@my_bank.test', ['my_bank.test']],
  // No domain.
  ['', []],
  ['Ann', []],
  ['undisclosed-recipients:;', []],
  ['<>', []],
  ['ann@[192.0.2.1]', []],
  ['ann@192.0.2.1', []],
];

suite('author domains', () => {
  for (const [from, domains] of cases) {
    test(JSON.stringify(from), () => {
      assert.deepEqual(authorsOf(from), { domains, isWhole: true });
    });
  }

  for (const from of ['ann@', '@', '<ann@>', 'ann@..', '=?utf-8?q?ann=40?=', 'ann@192.0.2.1 x']) {
    test(`${from} looks like an address and names nobody`, () => {
      assert.deepEqual(authorsOf(from), { domains: [], isWhole: false });
    });
  }

  test('whether there is an address', () => {
    for (const from of [
      'ann@bank.test',
      'ann@[192.0.2.1]',
      'ann@192.0.2.1',
      '"x" <ann@bank.test>',
    ]) {
      assert.equal(foundIn(from).hasAddress, true, from);
      assert.equal(foundIn('', from).hasAddress, true, from);
    }
    for (const from of ['', 'Ann', '<>', 'us:;', '"ann@bank.test" <>', '(ann@bank.test) Ann']) {
      assert.equal(foundIn(from).hasAddress, false, from);
    }
    assert.equal(foundIn().hasAddress, false);
  });

  test('of several fields', () => {
    const fields = ['a@one.test', 'b@two.test', 'c@one.test'];
    assert.deepEqual(authorsOf(...fields).domains, ['one.test', 'two.test']);
    assert.deepEqual(authorsOf(), { domains: [], isWhole: true });
  });

  test('bytes that are not UTF-8 are read one by one', () => {
    const field = Buffer.from('B\xfccher <ann@bank.test>', 'latin1');
    assert.deepEqual(authorsOf(field).domains, ['bank.test']);
  });

  test('of more than are evaluated, not all are returned', () => {
    const list = (count: number) => Array.from({ length: count }, (_, n) => `a@d${n}.test`).join();
    assert.equal(authorsOf(list(MAX_AUTHOR_DOMAINS)).isWhole, true);
    const { domains, isWhole } = authorsOf(list(MAX_AUTHOR_DOMAINS + 1));
    assert.deepEqual([domains.length, isWhole], [MAX_AUTHOR_DOMAINS, false]);
  });

  test('one author in plain words is the same as with an empty comment in front', () => {
    const word = fc.stringMatching(/^[\w!#$%&'*+/=?^`{|}~-]{1,8}$/);
    const dotted = fc.array(word, { minLength: 1, maxLength: 3 }).map((words) => words.join('.'));
    const gap = fc.constantFrom('', ' ', '\t', '\r\n ');
    const quoted = fc.stringMatching(/^"[ !#-[\]-~]*"$/);
    const words = fc.array(fc.oneof(word, gap, fc.constant('.'))).map((parts) => parts.join(''));
    const domain = fc.stringMatching(/^[\w-]{1,8}(?:\.[\w-]{1,8}){0,3}$/);
    const spec = fc.tuple(dotted, domain).map((parts) => parts.join('@'));
    const named = fc
      .tuple(gap, fc.oneof(quoted, words), gap, spec, gap)
      .map(([before, name, between, address, after]) => {
        return `${before}${name}${between}<${address}>${after}`;
      });
    const bare = fc.tuple(gap, spec, gap).map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.oneof(named, bare), (text) => {
        assert.deepEqual(authorsOf(text), authorsOf(`()${text}`));
      }),
      { numRuns: 2_000 },
    );
  });

  test('any text gives names that can be looked up, and never loses an author', () => {
    const noise = fc
      .array(fc.constantFrom('<', '>', '(', ')', '"', '\\', ',', ';', ':', '@', 'a.test', ' ', '['))
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(noise, (text) => {
        for (const domain of authorsOf(text).domains) {
          assert.match(domain, /^[a-z\d._-]+$/);
        }
        const { domains } = authorsOf(`Ann <ann@bank.test>, ${text}`);
        assert.equal(domains[0], 'bank.test');
      }),
      { numRuns: 1_000 },
    );
  });
});
