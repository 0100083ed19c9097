import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { type Authors, findAuthors, MAX_AUTHOR_DOMAINS } from './authors.ts';

function authorsOf(...fields: (string | Buffer)[]): Authors {
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
  // A name is no address where it is quoted; without quotes it is no syntax, and both count.
  ['"ceo@bank.test" <eve@evil.test>', ['evil.test']],
  ['=?utf-8?q?ceo=40bank.test?= <eve@evil.test>', ['evil.test']],
  ['ceo@bank.test <eve@evil.test>', ['evil.test', 'bank.test']],
  // Several authors, as a list, a group, or the wrong way.
  ['a@one.test, b@two.test', ['one.test', 'two.test']],
  ['a@one.test; b@two.test', ['one.test', 'two.test']],
  ['a@one.test,b@one.test', ['one.test']],
  ['Us: a@one.test, B <b@two.test>;', ['one.test', 'two.test']],
  ['<a@one.test> <b@two.test>', ['one.test', 'two.test']],
  ['<a@one.test <b@two.test>', ['one.test', 'two.test']],
  // What is left out where it may be, and comments where they may stand.
  ['<ann@bank.test', ['bank.test']],
  ['ann(at home (or not))@(the)bank(s)(of) .test', ['bank.test']],
  ['ann@bank\r\n .test', ['bank.test']],
  ['ann@bank.test (unclosed', ['bank.test']],
  ['"unclosed <ann@bank.test>', ['bank.test']],
  ['"a\\"b@c" <ann@bank.test>', ['bank.test']],
  // A source route (RFC 5322 section 4.4) is written by nobody any more.
  ['<@relay.test,@other.test:ann@bank.test>', ['bank.test', 'relay.test', 'other.test']],
  ['"a@b.test"@bank.test', ['bank.test']],
  // Readers differ on which of the two it is.
  ['ann@bank.test@evil.test', ['evil.test', 'bank.test']],
  ['"ann@bank.test@evil.test', ['evil.test', 'bank.test']],
  // Characters that readers drop, turn into others, or stop at.
  ['ann@bank\0.test', ['bank.test', 'bank']],
  ['ceo@bank.test\x01x', ['bank.test', 'bank.testx']],
  ['ann@ｂank.test', ['bank.test']],
  ['ann@b\u00adank.test', ['bank.test', 'b']],
  ['ann@bank.test\u200e', ['bank.test']],
  ['ann@bank.test/evil', ['bank.test']],
  ['ann@bücher.test', ['xn--bcher-kva.test']],
  ['ann@xn--bcher-kva.test', ['xn--bcher-kva.test']],
  ['ann@my_bank.test', ['my_bank.test']],
  // Nobody's domain.
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

  test('of several fields', () => {
    const fields = ['a@one.test', 'b@two.test', 'c@one.test'];
    assert.deepEqual(authorsOf(...fields).domains, ['one.test', 'two.test']);
    assert.deepEqual(authorsOf(), { domains: [], isWhole: true });
  });

  test('bytes that are not UTF-8 are taken one by one', () => {
    const field = Buffer.from('B\xfccher <ann@bank.test>', 'latin1');
    assert.deepEqual(authorsOf(field).domains, ['bank.test']);
  });

  test('more than are evaluated are not all told', () => {
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

  test('any text gives names that can be asked for, and an author is not lost in it', () => {
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
