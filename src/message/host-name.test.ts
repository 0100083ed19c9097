import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import { domainToASCII } from 'node:url';
import fc from 'fast-check';
import { isPlainName, toBrowserName } from './host-name.ts';

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
