import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchesEtag, parseRange } from './mail-attachment.ts';

test('ranges of content of ten octets', () => {
  for (const [field, expected] of [
    [undefined, undefined],
    ['bytes=0-4', { start: 0, end: 5 }],
    ['bytes=5-', { start: 5, end: 10 }],
    ['bytes=-3', { start: 7, end: 10 }],
    ['bytes=-30', { start: 0, end: 10 }],
    ['bytes=8-99', { start: 8, end: 10 }],
    ['BYTES=9-9', { start: 9, end: 10 }],
    ['bytes=10-', 'unsatisfiable'],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=5-4', undefined],
    ['bytes=0-1,3-4', undefined],
    ['lines=0-1', undefined],
    ['bytes=-', undefined],
    ['bytes=a-b', undefined],
    [`bytes=0-${'9'.repeat(30)}`, { start: 0, end: 10 }],
    [`bytes=${'9'.repeat(30)}-`, 'unsatisfiable'],
    [`bytes=${'9'.repeat(400)}-`, undefined],
  ] as const) {
    assert.deepEqual(parseRange(field, 10), expected, String(field));
  }
  assert.equal(parseRange('bytes=0-', 0), 'unsatisfiable');
});

test('entity tags are compared weakly', () => {
  assert.equal(matchesEtag('"a", W/"b"', '"b"'), true);
  assert.equal(matchesEtag('*', '"b"'), true);
  assert.equal(matchesEtag('"c"', '"b"'), false);
  assert.equal(matchesEtag(undefined, '"b"'), false);
});
