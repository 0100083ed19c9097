import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import fc from 'fast-check';
import libmime from 'libmime';
import { parseParameterized, readContent } from './part-content.ts';

function parameters(text: string): Record<string, string> {
  return { ...parseParameterized(Buffer.from(text).toString('latin1')).parameters };
}

test('parameters: tokens, quoted strings, white space, case', () => {
  assert.deepEqual(parseParameterized('Text/Plain ; Charset = "UTF-8" ;format=flowed; '), {
    value: 'Text/Plain',
    parameters: { charset: 'UTF-8', format: 'flowed' },
    boundary: undefined,
  });
  assert.deepEqual(parameters('a; x="q\\"u\\\\o;te" junk; y=my file.txt ; z'), {
    x: 'q"u\\o;te',
    y: 'my file.txt',
  });
  assert.deepEqual(parameters('a; x=1; X=2'), { x: '1' });
  assert.deepEqual(parameters('a; x="never closed; y=1'), { x: 'never closed; y=1' });
  assert.deepEqual(parameters(';;==;=a;x=;'), { x: '' });
});

test('parameters: comments are left out, parentheses in values are not', () => {
  assert.equal(parseParameterized('text/plain(a (b) c)').value, 'text/plain');
  assert.deepEqual(parameters('a (c); (d) x=1 (e) (f); y="(g)"; z=a(1).txt; w=a (2).txt'), {
    x: '1',
    y: '(g)',
    z: 'a(1).txt',
    w: 'a (2).txt',
  });
  assert.deepEqual(parameters('a; x=1 (open; y=2'), { x: '1 (open', y: '2' });
  assert.deepEqual(parameters('a; x=b (open'), { x: 'b' });
  assert.deepEqual(parameters('a; x=b(open'), { x: 'b(open' });
});

test('parameters: continuations and percent-encoding of RFC 2231', () => {
  assert.deepEqual(
    parameters(
      "a; title*0*=us-ascii'en'This%20is%20even%20more%20; title*2=\"isn't it!\"; title*1*=%2A%2A%2Afun%2A%2A%2A%20",
    ),
    { title: "This is even more ***fun*** isn't it!" },
  );
  assert.deepEqual(parameters("a; f*=UTF-8''%e2%82%ac%20rates; f=fallback"), { f: '€ rates' });
  assert.deepEqual(parameters("a; f*0*=utf-8''%e2%82; f*1*=%ac"), { f: '€' });
  assert.deepEqual(parameters('a; f*0=50%25; f*1=" off"'), { f: '50%25 off' });
  assert.deepEqual(parameters("a; f*=no-such''%c3%a9; g*=%zz%"), { f: 'é', g: '%zz%' });
  assert.deepEqual(parameters("a; f*1*=b; f*0*=utf-8''a; f*0*=x; f*99999=y"), { f: 'ab' });
});

test('parameters: encoded words in file names only', () => {
  assert.deepEqual(parameters('a; filename="=?utf-8?Q?=C3=A9?="; x="=?utf-8?Q?=C3=A9?="'), {
    filename: 'é',
    x: '=?utf-8?Q?=C3=A9?=',
  });
  // Decoded once: text that an extended value decodes to is not an encoded word.
  assert.deepEqual(parameters("a; filename*=utf-8''%3D%3Futf-8%3FQ%3F%3D41%3F%3D"), {
    filename: '=?utf-8?Q?=41?=',
  });
});

test('parameters: segments that another implementation wrote are joined', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 200 }), (text) => {
      fc.pre(text.isWellFormed() && !/[\0-\x1f\x7f-\x9f]/.test(text) && text.trim() === text);
      const split = libmime.buildHeaderParam('x', text, 40);
      const written = split.map(({ key, value }) => `${key}=${JSON.stringify(value)}`);
      assert.equal(parameters(`a; ${written.join('; ')}`).x, text, written.join('; '));
    }),
    { numRuns: 500 },
  );
});

test('parameters: any text gives a plain object of short, printable strings', () => {
  const pieces = fc.constantFrom(
    ...';="()\\* a1é\t\'%',
    '*0*=',
    "utf-8''",
    '__proto__',
    'constructor',
    '=?utf-8?B?AAAA?=',
  );
  fc.assert(
    fc.property(fc.string({ unit: pieces, maxLength: 300 }), (text) => {
      const found = parseParameterized(text).parameters;
      assert.equal(Object.getPrototypeOf(found), Object.prototype);
      assert.ok(!Object.hasOwn(found, '__proto__'));
      for (const value of Object.values(found)) assert.doesNotMatch(value, /[\0-\x1f\x7f]/);
    }),
    { numRuns: 2_000 },
  );
  const many = Array.from({ length: 5_000 }, (_, at) => `; p${at}=${'v'.repeat(2_000)}`).join('');
  const kept = Object.entries(parseParameterized(`a${many}`).parameters);
  assert.equal(kept.length, 32);
  assert.ok(kept.every(([, value]) => value.length === 1_000));
});

function content(type: string | undefined, encoding?: string, defaultType = 'text/plain') {
  const fields = new Map<string, string>();
  if (type !== undefined) fields.set('content-type', type);
  if (encoding !== undefined) fields.set('content-transfer-encoding', encoding);
  return readContent((name) => fields.get(name), defaultType);
}

test('content: the defaults of MIME', () => {
  assert.equal(content(undefined).type, 'text/plain');
  assert.deepEqual(content(undefined).parameters, { charset: 'us-ascii' });
  assert.equal(content(undefined).encoding, '7bit');
  assert.equal(content(undefined, undefined, 'message/rfc822').type, 'message/rfc822');
  for (const type of ['', 'text', 'text plain', '/x', 'a/', 'multipart; boundary=b']) {
    assert.equal(content(type, undefined, 'message/rfc822').type, 'text/plain', type);
    assert.equal(content(type).boundary, undefined);
  }
});

test('content: types, encodings and boundaries as senders write them', () => {
  assert.equal(content('TEXT / HTML').type, 'text/html');
  assert.equal(content('a/b', '"Base64" (x)').encoding, 'base64');
  assert.equal(content('a/b', 'Quoted-Printable;').encoding, 'quoted-printable');
  assert.equal(content('a/b', '').encoding, '7bit');
  assert.equal(content('multipart/mixed; boundary="a b "', 'base64').encoding, '7bit');
  assert.equal(content('multipart/mixed; boundary="a b "').boundary, 'a b');
  assert.equal(content(`multipart/mixed; boundary=${'b'.repeat(257)}`).boundary, undefined);
  assert.equal(content('multipart/mixed; boundary=""').boundary, undefined);
  assert.equal(content('text/plain; boundary=b').boundary, undefined);
  assert.equal(content('multipart/mixed; boundary=\xe9').boundary, '\xe9');
});
