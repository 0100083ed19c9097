/**
 * The terms of a text, the same for indexed texts and for queries, on both engines.
 *
 * A text is folded first (case, accents, compatibility forms), then cut into words. Scripts that are written without
 * spaces have no words: their runs become overlapping pieces of two and three characters. Pieces of two find any two
 * characters; pieces of three make longer queries exact without positions in the index (with pieces of two alone, 18
 * to 70 % of the hits are false).
 */
import { type ErrorCode, Refusal } from '../../platform/errors/errors.ts';

/** The field of a term. A term of the body has no mark. */
export type SearchField = 'body' | 'subject' | 'from' | 'to';

/** Separates account and term. No term has a `_`, so no user can type a mark. */
const MARKS: Readonly<Record<SearchField, string>> = {
  body: '_',
  subject: '_s_',
  from: '_f_',
  to: '_t_',
};

const searchFields: readonly SearchField[] = ['body', 'subject', 'from', 'to'];

/** Increased when the same message gives other terms than before: then an older index is filled again. */
export const TERMS_VERSION = 2;

/** The most characters of a word that are kept. */
const WORD_MAX = 40;
/** The most characters of one field that are read. */
const TEXT_MAX = 256 * 1024;
/** The most terms of one document, and of their characters: a tsvector holds 1,048,575 octets. */
const TERMS_MAX = 20_000;
const TERMS_OCTETS_MAX = 900_000;

/**
 * Marks that people leave out when they type: accents, Hebrew points, Arabic vowel signs and tatweel. Not Japanese
 * voicing marks or Indic vowel signs, which make other letters.
 */
const OPTIONAL_MARKS =
  /[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0640]/g;
/** Invisible: soft hyphen, zero-width characters, direction marks, variation selectors. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu;
const NOT_ASCII = /[^\0-\x7f]/;
/** Letters that Unicode does not decompose, by their plain spelling. */
const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  ı: 'i',
  ł: 'l',
  ø: 'o',
  æ: 'ae',
  œ: 'oe',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ħ: 'h',
  ς: 'σ',
};
const LETTER = new RegExp(`[${Object.keys(LETTERS).join('')}]`, 'g');

/** Folds case, accents and compatibility forms (Unicode Standard Annex 15, NFKD, then NFC). */
export function foldText(text: string): string {
  if (!NOT_ASCII.test(text)) return text.toLowerCase();
  return text
    .normalize('NFKD')
    .toLowerCase()
    .replace(INVISIBLE, '')
    .replace(OPTIONAL_MARKS, '')
    .replace(LETTER, (letter) => LETTERS[letter] ?? letter)
    .normalize('NFC');
}

const SPACELESS =
  '\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}\u30fc\u3005';
/** A run without spaces, a word, or one pictograph. */
const RUNS = new RegExp(
  `([${SPACELESS}][${SPACELESS}\\p{M}]*)|((?:(?![${SPACELESS}])[\\p{L}\\p{N}\\p{M}])+)|(\\p{Extended_Pictographic})`,
  'gu',
);

/**
 * What lies between white space and ASCII punctuation, which are in no run. To find these takes a fifth of the time, and
 * most are words of ASCII, and come again and again.
 */
const STRETCHES = /[A-Za-z0-9\u0080-\uffff]+/g;

/** One piece of a text as it was written. */
interface Run {
  readonly text: string;
  /** Written without spaces: cut into pieces of two and three characters. */
  readonly spaceless: boolean;
}

function* runsOf(folded: string): Generator<Run> {
  for (const [text, spaceless] of folded.matchAll(RUNS)) {
    yield { text, spaceless: spaceless !== undefined };
  }
}

/** Cuts at a character, never within a surrogate pair. */
function cutWord(word: string): string {
  if (word.length <= WORD_MAX) return word;
  return [...word.slice(0, WORD_MAX * 2)].slice(0, WORD_MAX).join('');
}

/** Pieces of `length` characters, each shifted by one. */
function piecesOf(characters: readonly string[], length: number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at + length <= characters.length; at += 1) {
    pieces.push(characters.slice(at, at + length).join(''));
  }
  return pieces;
}

/** The terms of an indexed text, without account and field. */
export function termsOf(text: string): Set<string> {
  const terms = new Set<string>();
  for (const stretch of new Set(foldText(text.slice(0, TEXT_MAX)).match(STRETCHES))) {
    if (!NOT_ASCII.test(stretch)) terms.add(cutWord(stretch));
    else for (const run of runsOf(stretch)) addRun(terms, run);
    if (terms.size >= TERMS_MAX) break;
  }
  return terms;
}

function addRun(terms: Set<string>, { text, spaceless }: Run): void {
  if (terms.size >= TERMS_MAX) return;
  if (!spaceless) {
    terms.add(cutWord(text));
    return;
  }
  // A longer run, which no real text has, would delay searches for seconds.
  const characters = [...text].slice(0, TERMS_MAX);
  for (const piece of piecesOf(characters, 3)) terms.add(piece);
  for (const piece of piecesOf(characters, 2)) terms.add(piece);
  // Every other character begins a piece, so a query of one character is a prefix.
  terms.add(characters.at(-1) ?? text);
}

export type DocumentTexts = Readonly<Record<SearchField, string>>;

/** @param accountId makes the terms of two accounts different */
function prefixOf(accountId: number, field: SearchField): string {
  return `${accountId.toString(36)}${MARKS[field]}`;
}

/**
 * Every term of a message, with its account and field in front. The account comes first, so that a query reads only
 * the lists of that account.
 *
 * @returns distinct terms; header fields come before the body, so that a limit cuts the body
 */
export function documentTerms(accountId: number, texts: DocumentTexts): string[] {
  const terms: string[] = [];
  let octets = 0;
  for (const field of ['subject', 'from', 'to', 'body'] as const) {
    const prefix = prefixOf(accountId, field);
    for (const term of termsOf(texts[field])) {
      const whole = prefix + term;
      octets += Buffer.byteLength(whole) + 1;
      if (terms.length >= TERMS_MAX || octets > TERMS_OCTETS_MAX) return terms;
      terms.push(whole);
    }
  }
  return terms;
}

export interface QueryTerm {
  /** The fields it may be in. */
  readonly fields: readonly SearchField[];
  readonly term: string;
  /** Whether any term that begins with it matches. */
  readonly prefix: boolean;
}

/** The fewest letters of a prefix: one letter would match most of an account. */
const PREFIX_MIN = 2;

/** The terms of a query; a word with a `*` after it is a prefix. */
export interface ParsedQuery {
  readonly terms: readonly QueryTerm[];
  /** Prefixes of fewer than {@link PREFIX_MIN} letters. */
  readonly tooShort: boolean;
}

/** Reads what a user typed for some fields. Every word must be found; there is no other syntax. */
export function parseQueryText(text: string, fields: readonly SearchField[]): ParsedQuery {
  const terms: QueryTerm[] = [];
  let tooShort = false;
  for (const word of text.split(/\s+/u)) {
    const runs = [...runsOf(foldText(word))];
    const last = runs.at(-1);
    for (const run of runs) {
      if (run.spaceless) {
        terms.push(...spacelessTerms(run.text, fields));
        continue;
      }
      const prefix = run === last && word.endsWith('*');
      if (prefix && [...run.text].length < PREFIX_MIN) tooShort = true;
      terms.push({ fields, term: cutWord(run.text), prefix });
    }
  }
  return { terms, tooShort };
}

function spacelessTerms(run: string, fields: readonly SearchField[]): QueryTerm[] {
  const characters = [...run];
  // One character begins each piece that contains it, or is the last.
  if (characters.length === 1) return [{ fields, term: run, prefix: true }];
  const pieces = new Set(piecesOf(characters, Math.min(characters.length, 3)));
  return [...pieces].map((term) => ({ fields, term, prefix: false }));
}

/** A term in the form of the index, for each of its fields. */
export function indexedForms(accountId: number, { fields, term }: QueryTerm): string[] {
  return fields.map((field) => prefixOf(accountId, field) + term);
}

/* Reads a client's query, within limits: node:sqlite cannot interrupt a query. */

const CHARACTERS_MAX = 1_000;
const QUERY_TERMS_MAX = 64;
const PREFIXES_MAX = 4;

/** Search words by field; `text` means any field. */
export type QueryTexts = { readonly [Field in SearchField | 'text']?: string | undefined };

/**
 * @returns terms, all of which a message must have; empty where no field was given
 * @throws Refusal `search_too_long`, `nothing_to_search`, `too_many_words`, `too_many_prefixes`,
 *   `prefix_too_short`, with the field
 */
export function readQuery(texts: QueryTexts): QueryTerm[] {
  const all: QueryTerm[] = [];
  for (const field of ['text', ...searchFields] as const) {
    const text = texts[field];
    if (text === undefined) continue;
    if (text.length > CHARACTERS_MAX) {
      throw refuse('search_too_long', field, `must have at most ${CHARACTERS_MAX} characters`);
    }
    const { terms, tooShort } = parseQueryText(text, field === 'text' ? searchFields : [field]);
    if (tooShort) {
      throw refuse(
        'prefix_too_short',
        field,
        `must have at least ${PREFIX_MIN} letters before a *`,
      );
    }
    if (terms.length === 0)
      throw refuse('nothing_to_search', field, 'must have a letter or a digit');
    all.push(...terms);
    if (all.length > QUERY_TERMS_MAX) {
      throw refuse(
        'too_many_words',
        field,
        `must have at most ${QUERY_TERMS_MAX} words, all fields together`,
      );
    }
    if (all.filter(({ prefix }) => prefix).length > PREFIXES_MAX) {
      throw refuse('too_many_prefixes', field, `must have at most ${PREFIXES_MAX} words with a *`);
    }
  }
  return all;
}

function refuse(code: ErrorCode, field: string, expected: string): Refusal {
  return new Refusal(code, `${field} ${expected}`, { errors: [{ field, message: expected }] });
}
