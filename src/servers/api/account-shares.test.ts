import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AccountShares } from './account-shares.ts';

test('an account and a user get their shares, and leave places for the others', () => {
  const shares = new AccountShares({ account: 2, user: 3, all: 4 });
  const of = (accountId: number, userId: string) => ({ accountId, userId });
  const taken = [1, 1, 1, 2, 2].map((id) => shares.take(of(id, 'one')));
  assert.deepEqual(taken, [true, true, false, true, false]);
  assert.equal(shares.take(of(3, 'other')), true);
  assert.equal(shares.take(of(4, 'third')), false);
  shares.give(of(1, 'one'));
  assert.equal(shares.take(of(2, 'one')), true);
  for (const account of [of(1, 'one'), of(2, 'one'), of(2, 'one'), of(3, 'other')]) {
    shares.give(account);
  }
  assert.deepEqual(
    [1, 1, 2].map((id) => shares.take(of(id, 'one'))),
    [true, true, true],
  );
});
