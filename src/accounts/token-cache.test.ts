import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TokenCache } from './token-cache.ts';

test('of ten thousand tokens the first that was kept goes first', () => {
  const cache = new TokenCache<number>();
  for (let n = 0; n < 10_000; n++) cache.set(`token ${n}`, n);
  assert.equal(cache.get('token 0'), 0);
  cache.set('one more', -1);
  assert.equal(cache.get('token 0'), undefined);
  assert.equal(cache.get('token 1'), 1);
  assert.equal(cache.get('one more'), -1);
  cache.delete('token 1');
  assert.equal(cache.get('token 1'), undefined);
});

test('a token without measure is not kept', () => {
  const cache = new TokenCache<number>();
  cache.set('t'.repeat(2_048), 1);
  cache.set('t'.repeat(2_049), 1);
  assert.equal(cache.get('t'.repeat(2_048)), 1);
  assert.equal(cache.get('t'.repeat(2_049)), undefined);
});
