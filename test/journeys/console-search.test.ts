import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mailWithin } from '../../console/screens/links.ts';
import { qualifiers, toQuery } from '../../console/screens/message-search.ts';
import { parseSearch } from '../../console/ui/search.ts';

const known = [
  { name: 'is', hint: '', example: 'bounced', values: ['bounced', 'waiting'] },
  { name: 'to', hint: '', example: 'ada@acme.test' },
];
const read = (text: string) => parseSearch(text, known);

test('a text is terms and words', () => {
  assert.deepEqual(read('is:Bounced -to:ada@acme.test  hello '), {
    terms: [
      { name: 'is', value: 'bounced', isNot: false },
      { name: 'to', value: 'ada@acme.test', isNot: true },
    ],
    words: ['hello'],
  });
  assert.deepEqual(read('to:"Ada Lovelace" "two words"').terms, [
    { name: 'to', value: 'Ada Lovelace', isNot: false },
  ]);
  assert.deepEqual(read('"two words"').words, ['two words']);
});

test('URLs, Message-IDs and what is half written are no terms', () => {
  for (const text of ['http://127.0.0.1:24010', '<a:b@c>', '2001:db8::1', '-', 'ada@acme.test'])
    assert.deepEqual(read(text), { terms: [], words: [text] });
  assert.deepEqual(read('is: to:"'), { terms: [], words: [] });
  assert.deepEqual(read(''), { terms: [], words: [] });
});

test('a qualifier or value that does not exist is named', () => {
  assert.equal(read('form:x').problem, 'There is no form: here.');
  assert.equal(read('is:lost').problem, 'is: is one of bounced, waiting.');
});

test('a link to the mail of a span finds all of it, also in the hour that comes twice', (t) => {
  const zone = process.env.TZ;
  t.after(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });
  for (const [TZ, changes] of [
    ['America/New_York', Date.UTC(2026, 10, 1, 6)],
    ['America/New_York', Date.UTC(2026, 2, 8, 7)],
    ['Australia/Lord_Howe', Date.UTC(2026, 3, 4, 15)],
    ['Asia/Kathmandu', Date.UTC(2026, 11, 31, 18, 15)],
  ] as const) {
    process.env.TZ = TZ;
    for (let minute = -150; minute < 150; minute++) {
      const after = changes + minute * 60_000 + 1;
      const before = after + 3_599_000;
      const link = mailWithin(after, before, 'dir:in');
      const q = typeof link === 'string' ? '' : String(link.query?.q);
      const { since = '', until = '' } = toQuery(
        { search: parseSearch(q, qualifiers), span: '' },
        before,
      );
      assert.equal(Date.parse(since), after - 1, `${TZ}: ${q}`);
      assert.equal(Date.parse(until), after - 1 + 3_600_000, `${TZ}: ${q}`);
    }
  }
});
