import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { documentTerms, foldText, parseQueryText, termsOf } from './terms.ts';

/** Whether a query would find an indexed text. */
function finds(text: string, query: string): boolean {
  const indexed = [...termsOf(text)];
  const { terms } = parseQueryText(query, ['body']);
  return (
    terms.length > 0 &&
    terms.every(({ term, prefix }) =>
      prefix ? indexed.some((one) => one.startsWith(term)) : indexed.includes(term),
    )
  );
}

test('words are found without regard to case, accents and compatibility forms', () => {
  const pairs: [string, string][] = [
    ['Crème Brûlée', 'creme'],
    ['STRASSE', 'Straße'],
    ['Straße', 'strasse'],
    ['İstanbul', 'istanbul'],
    ['Iğdır', 'igdir'],
    ['Łódź', 'lodz'],
    ['Ёлка', 'елка'],
    ['Οδυσσέας', 'ΟΔΥΣΣΕΑΣ'],
    ['ﬁnal', 'final'],
    ['ＡＢＣ１２３', 'abc123'],
    ['co\u00adop', 'coop'],
    ['zero\u200bwidth', 'zerowidth'],
    ['العَرَبِيَّة', 'العربية'],
    ['שָׁלוֹם', 'שלום'],
    ['हिन्दी भाषा', 'हिन्दी'],
    ['e\u0301te\u0301', 'été'],
    ['order-4711/B', '4711'],
    ['anna@example.test', 'anna@example.test'],
    ['party 🎉 time', '🎉'],
  ];
  for (const [text, query] of pairs) assert.ok(finds(text, query), `${query} in ${text}`);
});

test('a voicing mark makes another letter', () => {
  assert.ok(!finds('ガラス', 'カラス'));
  assert.ok(finds('ｶﾞﾗｽ', 'ガラス'));
});

test('any part of a run without spaces is found', () => {
  const text = '请检查文件系统。ファイルの標準エラー出力 데이터베이스';
  for (const query of [
    '文',
    '文件',
    '件系',
    '文件系统',
    '统',
    '標準エラー出力',
    'ファイル',
    '베이스',
    '스',
  ]) {
    assert.ok(finds(text, query), query);
  }
  for (const query of ['系文', '统文件', '系文件']) assert.ok(!finds(text, query), query);
});

test('a word beside a run without spaces is a term of its own', () => {
  assert.ok(finds('PostgreSQL数据库', 'postgresql'));
  assert.ok(finds('PostgreSQL数据库', '数据'));
});

test('a star after a word searches for words that begin with it', () => {
  assert.ok(finds('Dateiverwaltung', 'datei*'));
  assert.ok(!finds('Dateiverwaltung', 'datei'));
  assert.equal(parseQueryText('a*', ['body']).tooShort, true);
  assert.equal(parseQueryText('ab*', ['body']).tooShort, false);
});

test('a term has no character of the query syntax', () => {
  const hostile = '"a" OR b) AND NEAR(c) * ^d : e_f \\ \' - \0 {g} col:h';
  for (const { term } of parseQueryText(hostile, ['body']).terms) {
    assert.match(term, /^[\p{L}\p{N}\p{M}\p{Extended_Pictographic}]+$/u);
  }
});

test('terms of two accounts and of two fields differ', () => {
  const texts = { subject: 'word', from: 'word', to: 'word', body: 'word' };
  assert.deepEqual(documentTerms(36, texts), ['10_s_word', '10_f_word', '10_t_word', '10_word']);
  assert.deepEqual(documentTerms(1, texts), ['1_s_word', '1_f_word', '1_t_word', '1_word']);
});

test('of a huge message the body is cut first', () => {
  const body = Array.from({ length: 60_000 }, (_, n) => `w${n}`).join(' ');
  const terms = documentTerms(1, { subject: 'kept', from: '', to: '', body });
  assert.equal(terms[0], '1_s_kept');
  assert.ok(terms.length <= 20_000);
  assert.ok(terms.join(' ').length <= 900_000);
});

test('property: a word finds the text that contains it', () => {
  const word = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(word, fc.array(word, { maxLength: 5 }), (one, others) => {
      if (parseQueryText(one.replaceAll('*', ''), ['body']).terms.length === 0) return;
      assert.ok(finds([...others, one].join(' '), one.replaceAll('*', '')));
    }),
    { numRuns: 500 },
  );
});

test('property: folding a folded text changes nothing', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const once = foldText(text);
      assert.equal(foldText(once), once);
    }),
  );
});

test('an endless run makes no more terms than the limit', () => {
  const characters = Array.from({ length: 100_000 }, (_, at) =>
    String.fromCodePoint(0x4e00 + ((at * 7_919) % 20_000)),
  );
  // Pieces of two, of three, and the last character.
  assert.ok(termsOf(characters.join('')).size <= 40_000);
});
