import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import { domainToASCII } from 'node:url';
import fc from 'fast-check';
import { isPlainName, toAsciiName, toBrowserName, withoutRoot } from './host-names.ts';

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

test('a plain name is what IDNA leaves as it is, and no address', () => {
  for (const name of ['mail.example', 'a-b.c1.example', 'localhost', '1.example']) {
    assert.ok(isPlainName(name), name);
  }
  const others = ['', '.', 'a..b', 'a.', 'Mail.example', 'a_b.test', 'xn--a.test', 'a--b.test'];
  const numbers = ['192.0.2.1', '1', 'a.1', 'a.0x1', 'a.1b'];
  const hyphens = ['-a.test', 'a-.test', 'a.b-'];
  for (const name of [...others, ...numbers, ...hyphens, `${'a.'.repeat(130)}test`]) {
    assert.ok(!isPlainName(name), name);
  }
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z\d.xn-]{1,20}$/), (name) => {
      assert.equal(toBrowserName(name), domainToASCII(name));
      assert.ok(!isPlainName(name) || (domainToASCII(name) === name && isIP(name) === 0));
    }),
    { numRuns: 2_000 },
  );
});
