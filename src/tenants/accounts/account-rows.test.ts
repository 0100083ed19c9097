import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refusal } from '../../platform/errors/errors.ts';
import { checkLocalPart, mailLocalPart, readAddress } from './account-addresses.ts';

test('local parts are dot-strings, kept in lower case', () => {
  const good = {
    ann: 'ann',
    'Ann.Smith': 'ann.smith',
    "o'neil": "o'neil",
    "!#$%&'*-/=?^_`{|}~": "!#$%&'*-/=?^_`{|}~",
    '1': '1',
    postmaster: 'postmaster',
    srs: 'srs',
    ['a'.repeat(64)]: 'a'.repeat(64),
  };
  for (const [text, localPart] of Object.entries(good)) {
    assert.equal(checkLocalPart(text, 'acme.test'), localPart);
  }
});

const bad = [
  '',
  '.ann',
  'ann.',
  'a..b',
  'a b',
  'ann@acme',
  '"ann"',
  'ann+tag',
  '+',
  'a,b',
  'a\\b',
  'a\0b',
  'a\r\nb',
  'ünn',
  'ann\n',
  'SRS0=x=y=z',
  'srs1',
  'Srs0',
  'a'.repeat(65),
  'a'.repeat(1_000_000),
  `${'a.'.repeat(31)}!\u0000`,
];
for (const text of bad) {
  test(`${JSON.stringify(text.slice(0, 30))} is no local part`, () => {
    assert.throws(
      () => checkLocalPart(text, 'acme.test'),
      (error) =>
        error instanceof Refusal &&
        error.code === 'invalid_request' &&
        error.errors?.[0]?.field === 'local_part',
    );
  });
}

test('an address has at most 254 characters', () => {
  const label = 'd'.repeat(63);
  const domain = `${label}.${label}.${label}.test`;
  assert.equal(checkLocalPart('a'.repeat(57), domain).length, 57);
  assert.throws(() => checkLocalPart('a'.repeat(58), domain), { code: 'invalid_request' });
});

test('mail for name+tag goes to name', () => {
  const recipients = { ann: 'ann', 'Ann+Shop': 'ann', 'ann+a+b': 'ann', '+ann': '', 'ann+': 'ann' };
  for (const [text, localPart] of Object.entries(recipients)) {
    assert.equal(mailLocalPart(text), localPart);
  }
});

test('addresses are read in any case', () => {
  assert.deepEqual(readAddress('Ann@ACME.Test'), { localPart: 'ann', domain: 'acme.test' });
  for (const text of ['ann', 'ann@', '@acme.test', 'a b@acme.test', '', '\0@acme.test']) {
    assert.equal(readAddress(text), undefined);
  }
});
