/**
 * The form of the operator's lists: `{items, limit, cursor?}`. A cursor is the key of the last item of the page
 * before, so that every page costs the same however far down it is; for clients it is opaque.
 */
import { Type } from 'typebox';
import { invalidField } from '../../platform/errors/errors.ts';
import { Integer, Text } from '../api/api.ts';

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 200;
const CURSOR_MAX = 2048;

/** Fields of a query that asks for a page. */
export const listFields = {
  limit: Type.Optional(
    Integer('The most items of a page; 50 when left out.', 50, { minimum: 1, maximum: LIMIT_MAX }),
  ),
  cursor: Type.Optional(
    Type.String({
      maxLength: CURSOR_MAX,
      description: 'The cursor of the page before, unchanged.',
    }),
  ),
};

/** A text that a list is filtered by. */
export const filterText = (description: string, example: string, maxLength = 320) =>
  Type.Optional(Text(description, example, { minLength: 1, maxLength }));

/** The fields of an answer besides its items. */
export const listEcho = {
  limit: Integer('The limit that was used.', 50),
  cursor: Type.Optional(Type.String({ description: 'For the next page; absent on the last one.' })),
};

/** The sort key of a list: the values of one item that decide its place. */
export type ListKey = readonly (string | number)[];

/** The page that a query asks for. */
export interface ListPage<Key extends ListKey> {
  readonly limit: number;
  /** Only items after this one, in the order of the list; undefined on the first page. */
  readonly after: Key | undefined;
}

interface PageQuery {
  readonly limit?: number;
  readonly cursor?: string;
}

/** Reads which page a query asks for; see {@link readCursor}. */
export function readPage<Key extends ListKey>(
  { limit = LIMIT_DEFAULT, cursor }: PageQuery,
  fits: (values: ListKey) => values is Key,
): ListPage<Key> {
  return { limit, after: cursor === undefined ? undefined : readCursor(cursor, fits) };
}

/** What a value of a key is. */
const kinds = {
  text: (value: unknown) => typeof value === 'string',
  flag: (value: unknown) => value === 0 || value === 1,
  integer: Number.isSafeInteger,
  number: Number.isFinite,
};

/** Whether the values of a cursor are of these kinds, those of a list's key. */
export function isKey<const Kinds extends readonly (keyof typeof kinds)[]>(...wanted: Kinds) {
  type Key = { readonly [At in keyof Kinds]: Kinds[At] extends 'text' ? string : number };
  return (values: ListKey): values is Key =>
    values.length === wanted.length && wanted.every((kind, at) => kinds[kind](values[at]));
}

/**
 * Makes an answer of the rows.
 *
 * @param rows one more than the limit, if there are more: that one is not shown
 * @param items those of the rows
 */
export function answerPage<Row, Item>(
  rows: readonly Row[],
  { limit }: ListPage<ListKey>,
  keyOf: (row: Row) => ListKey,
  items: readonly Item[],
) {
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  return answerUntil(items.slice(0, limit), limit, last && keyOf(last));
}

/** @param next the key of the last item; undefined on the last page */
export function answerUntil<Item>(items: Item[], limit: number, next: ListKey | undefined) {
  return { items, limit, ...(next && { cursor: nextCursor(next) }) };
}

/** The cursor of a page whose last item has that key. */
export function nextCursor(key: ListKey): string {
  return Buffer.from(JSON.stringify(key)).toString('base64url');
}

/**
 * Reads the key that a cursor names.
 *
 * @param fits whether the values are a key of this list: a cursor comes from outside
 * @param field of the request that has it
 * @throws Refusal invalid_request for the field
 */
export function readCursor<Key extends ListKey>(
  text: string,
  fits: (values: ListKey) => values is Key,
  field = 'cursor',
): Key {
  const values = valuesOf(text);
  if (!values || !fits(values)) {
    throw invalidField(field, `must be the ${field} of an earlier answer`);
  }
  return values;
}

function valuesOf(text: string): ListKey | undefined {
  try {
    const values: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    const isSimple =
      Array.isArray(values) && values.every((one) => ['string', 'number'].includes(typeof one));
    // PostgreSQL cannot store this text, so no list returned it.
    return isSimple && !JSON.stringify(values).includes('\\u0000') ? values : undefined;
  } catch {
    return undefined;
  }
}
