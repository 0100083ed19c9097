import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { toDnsName } from './host-name.ts';

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

test('any text gives nothing or a name that stays as it is', () => {
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
