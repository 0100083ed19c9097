import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refusal } from '../../platform/errors/errors.ts';
import { answerPage, isKey, readPage } from './lists.ts';

const rows = Array.from({ length: 7 }, (_, at) => ({ id: 100 - at }));
/** The answer of a list of ids, newest first. */
function list(query: { limit?: number; cursor?: string }) {
  const page = readPage(query, isKey('integer'));
  const [after] = page.after ?? [];
  const found = rows.filter(({ id }) => after === undefined || id < after);
  const shown = found.slice(0, page.limit + 1);
  const ids = shown.map(({ id }) => id);
  return answerPage(shown, page, ({ id }) => [id], ids);
}

test('every page has a cursor except the last', () => {
  const first = list({ limit: 3 });
  assert.deepEqual([first.items, first.limit], [[100, 99, 98], 3]);
  const second = list({ limit: 3, cursor: first.cursor ?? '' });
  assert.deepEqual(second.items, [97, 96, 95]);
  const last = list({ limit: 3, cursor: second.cursor ?? '' });
  assert.deepEqual(last, { items: [94], limit: 3 });
  assert.equal(list({ limit: 7 }).cursor, undefined, 'a full page may be the last');
  assert.equal(list({}).limit, 50);
});

test('an invalid cursor is refused by its name', () => {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const hostile = ['', 'x', '\0', '[1]', encode(null), encode({}), encode([]), encode(['1'])];
  hostile.push(encode([1.5]), encode([1e300]), encode([1, 2]), encode([[1]]), 'a'.repeat(2_000));
  for (const cursor of hostile) {
    assert.throws(
      () => readPage({ cursor }, isKey('integer')),
      (error) => error instanceof Refusal && error.errors?.[0]?.field === 'cursor',
      cursor,
    );
  }
  const isTextKey = isKey('text', 'integer');
  assert.throws(() => readPage({ cursor: encode(['a\0', 1]) }, isTextKey));
  assert.deepEqual(readPage({ cursor: encode(['é', 1]) }, isTextKey).after, ['é', 1]);
});
