import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AccountShares } from './account-shares.ts';

/** Whether a slot was given, not the reason why there is none. */
function isGiven(taken: (() => void) | string): taken is () => void {
  return typeof taken !== 'string';
}

test('an account and a user get their shares, and leave slots for the others', () => {
  const shares = new AccountShares({ account: 2, user: 3, all: 4 });
  const take = (accountId: number, userId: string) => shares.take({ accountId, userId });
  const taken = [1, 1, 1, 2, 2].map((id) => take(id, 'one'));
  const refused = taken.map((slot) => isGiven(slot) || slot);
  assert.deepEqual(refused, [true, true, 'of_account', true, 'of_user']);
  const others = take(3, 'other');
  assert.ok(isGiven(others));
  assert.equal(take(4, 'third'), 'of_user');
  const [first] = taken;
  assert.ok(first && isGiven(first));
  first();
  const second = take(2, 'one');
  assert.equal(shares.taken, 4);
  for (const giveBack of [...taken.slice(1), others, second]) {
    if (isGiven(giveBack)) giveBack();
  }
  assert.equal(shares.taken, 0);
  assert.ok([1, 1, 2].every((id) => isGiven(take(id, 'one'))));
});

test('few users do not take all, however many accounts they have', () => {
  const shares = new AccountShares({ account: 20, user: 20, all: 40, leavesAsMany: true });
  const takeAll = (userId: string, accounts: readonly number[]) => {
    const given = accounts.flatMap((accountId) =>
      Array.from({ length: 20 }, () => shares.take({ accountId, userId })),
    );
    return given.filter(isGiven);
  };
  const first = takeAll('first', [1, 2, 3]);
  assert.equal(first.length, 20);
  assert.equal(takeAll('second', [4, 5]).length, 10);
  assert.equal(takeAll('third', [6]).length, 5);
  for (const giveBack of first) giveBack();
  assert.equal(takeAll('fourth', [7]).length, 12);
});
