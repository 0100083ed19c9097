import assert from 'node:assert/strict';
import { test } from 'node:test';
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
