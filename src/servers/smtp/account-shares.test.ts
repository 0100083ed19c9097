/** What accounts and users hold of the connections after a login. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AccountShares } from './account-shares.ts';

test('few users do not take all connections, however many accounts they have', () => {
  const shares = new AccountShares(40);
  const takeAll = (userId: string, accounts: readonly number[]) => {
    const given = accounts.flatMap((accountId) =>
      Array.from({ length: 20 }, () => shares.take({ accountId, userId })),
    );
    return given.filter((giveBack) => giveBack !== undefined);
  };
  const first = takeAll('first', [1, 2, 3]);
  assert.equal(first.length, 20);
  assert.equal(takeAll('second', [4, 5]).length, 10);
  assert.equal(takeAll('third', [6]).length, 5);
  for (const giveBack of first) giveBack();
  assert.equal(takeAll('fourth', [7]).length, 12);
});
