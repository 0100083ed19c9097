import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TokenCache } from './token-cache.ts';

test('of ten thousand entries the one not used for longest goes first', () => {
  const cache = new TokenCache<number>();
  for (let n = 0; n < 10_000; n++) cache.set(`token ${n}`, n);
  assert.equal(cache.get('token 0'), 0);
  cache.set('one more', -1);
  assert.equal(cache.get('token 1'), undefined);
  assert.equal(cache.get('token 0'), 0);
  assert.equal(cache.get('token 2'), 2);
  assert.equal(cache.get('one more'), -1);
  cache.delete('token 0');
  assert.equal(cache.get('token 0'), undefined);
  cache.set('token 2', 22);
  assert.equal(cache.get('token 2'), 22);
});
