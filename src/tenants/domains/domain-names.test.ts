import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Refusal } from '../../platform/errors/errors.ts';
import { checkClaimedName, normalizeDomainName } from './domain-names.ts';

const OURS = 'mail.postroom.example';

test('names are written in lower case, IDNA-encoded, without the dot of the root', () => {
  const spellings = {
    'acme.test': 'acme.test',
    'Acme.TEST': 'acme.test',
    'acme.test.': 'acme.test',
    'münchen.de': 'xn--mnchen-3ya.de',
    'XN--MNCHEN-3YA.de': 'xn--mnchen-3ya.de',
    'faß.de': 'xn--fa-hia.de',
    'acme。test': 'acme.test',
    'a.b.c.acme.co.uk': 'a.b.c.acme.co.uk',
    '1and1.test': '1and1.test',
    'r3---x.acme.test': 'r3---x.acme.test',
  };
  for (const [text, name] of Object.entries(spellings)) {
    assert.equal(normalizeDomainName(text), name, text);
    assert.equal(checkClaimedName(text, OURS), name, text);
  }
});

const label63 = 'a'.repeat(63);
const name253 = `${label63}.${label63}.${label63}.${'a'.repeat(56)}.test`;

test('a name has at most 253 characters and a label 63', () => {
  assert.equal(name253.length, 253);
  assert.equal(checkClaimedName(name253, OURS), name253);
  assert.equal(checkClaimedName(`${name253}.`, OURS), name253);
  assert.equal(normalizeDomainName(`a${name253}`), undefined);
  assert.equal(normalizeDomainName(`a${label63}.test`), undefined);
});

const noHostNames = [
  '',
  '.',
  '..',
  'acme.test..',
  '.acme.test',
  'acme..test',
  ' acme.test',
  'acme.test ',
  'acme.test\n',
  'ac\tme.test',
  'ac\0me.test',
  'a_b.test',
  '_dmarc.acme.test',
  '-acme.test',
  'acme-.test',
  'acme.test:25',
  'acme.test/x',
  'acme.test?x',
  'acme.test#x',
  'ann@acme.test',
  'http://acme.test',
  'ac%6De.test',
  '*.acme.test',
  '\u00ad.test',
  '\ud800.test',
  'xn--a.test',
  'xn--acme-.test',
  '127.0.0.1',
  '127.1',
  '2130706433',
  '0x7f.1',
  '::1',
  '[::1]',
  '[127.0.0.1]',
  '１２７.0.0.1',
  'a'.repeat(1_000_000),
  `${'a.'.repeat(500_000)}test`,
  'ü'.repeat(300),
];

for (const text of noHostNames) {
  test(`${JSON.stringify(text.slice(0, 40))} is no host name`, () => {
    assert.equal(normalizeDomainName(text), undefined);
    assert.throws(
      () => checkClaimedName(text, OURS),
      (error) =>
        error instanceof Refusal &&
        error.code === 'invalid_request' &&
        error.errors?.[0]?.field === 'domain',
    );
  });
}

const suffixes = ['com', 'co.uk', 'test', 'localhost', 'x.ck', 'github.io', 's3.amazonaws.com'];
for (const name of [...suffixes, OURS, OURS.toUpperCase(), `${OURS}.`]) {
  test(`${name} cannot be claimed`, () => {
    assert.throws(() => checkClaimedName(name, OURS), { code: 'invalid_request' });
  });
}

test('names below a suffix, below our own name and above it can be claimed', () => {
  const names = ['acme.github.io', 'www.ck', `eu.${OURS}`, 'postroom.example', 'acme.localhost'];
  for (const name of names) assert.equal(checkClaimedName(name, OURS), name);
});

test('a normalized name does not change when it is normalized again', () => {
  const texts = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.string({ unit: fc.constantFrom('a', 'ü', '.', '-', 'x', 'n', '%', '1', '\u3002', '@') }),
    fc.domain(),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const name = normalizeDomainName(text);
      if (name === undefined) return;
      assert.match(name, /^[a-z\d-]+(\.[a-z\d-]+)*$/);
      assert.ok(name.length <= 253);
      assert.equal(normalizeDomainName(name), name);
    }),
    { numRuns: 2000 },
  );
});

test('who claims a public suffix is told what to claim', () => {
  const said = /one can register, or below one: under co\.uk, others hold their names/;
  assert.throws(() => checkClaimedName('co.uk', OURS), said);
});
