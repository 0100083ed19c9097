/** Reads what a client asks for, within bounds: node:sqlite cannot interrupt a query. */
import { type ErrorCode, Refusal } from '../errors/errors.ts';
import {
  PREFIX_MIN,
  parseQueryText,
  type QueryTerm,
  type SearchField,
  searchFields,
} from './terms.ts';

const CHARACTERS_MAX = 1_000;
const TERMS_MAX = 64;
const PREFIXES_MAX = 4;

/** Words to be found, by where; `text` is anywhere. */
export type QueryTexts = { readonly [Field in SearchField | 'text']?: string | undefined };

/**
 * @returns terms of which a message must have all; none where no field was given
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
    if (all.length > TERMS_MAX) {
      throw refuse(
        'too_many_words',
        field,
        `must have at most ${TERMS_MAX} words, all fields together`,
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
