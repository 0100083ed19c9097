import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toAsciiName, withoutRoot } from './host-names.ts';

test('the dots of the root go, those inside stay', () => {
  assert.equal(withoutRoot('mail.example'), 'mail.example');
  assert.equal(withoutRoot('mail.example.'), 'mail.example');
  assert.equal(withoutRoot('.mail..example...'), '.mail..example');
  assert.equal(withoutRoot('...'), '');
  const hostile = `${'.'.repeat(2_000_000)}a`;
  assert.equal(withoutRoot(`${hostile}..`), hostile);
});

test('a name is IDNA-encoded, one that DNS could not hold is left as it is', () => {
  assert.equal(toAsciiName('bücher.example'), 'xn--bcher-kva.example');
  assert.equal(toAsciiName('mail.example'), 'mail.example');
  const ideographs = Array.from({ length: 20_000 }, (_, n) => String.fromCodePoint(0x4e00 + n));
  for (const name of [ideographs.join(''), ideographs.join('.'), `${'ä'.repeat(64)}.example`]) {
    assert.equal(toAsciiName(name), name);
  }
});
