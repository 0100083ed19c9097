import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClientShares } from './client-shares.ts';

test('a client takes up to its share, and again what it gave back', () => {
  const shares = new ClientShares(100);
  assert.ok(shares.take('a', 2, 3) && shares.take('a', 1, 3));
  assert.equal(shares.take('a', 1, 3), false);
  // Another one may be allowed more.
  assert.ok(shares.take('b', 4, 5));
  shares.give('a', 1);
  assert.equal(shares.taken, 6);
  assert.ok(shares.take('a', 1, 3));
});

test('there is an end to it for all together, and what is refused takes nothing', () => {
  const shares = new ClientShares(3);
  assert.ok(shares.take('a', 2, 9));
  assert.equal(shares.take('b', 2, 9), false);
  assert.ok(shares.take('b', 1, 9));
  shares.give('a', 2);
  shares.give('b', 1);
  assert.equal(shares.taken, 0);
});
