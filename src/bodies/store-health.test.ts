import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreHealth } from './store-health.ts';

test('for a store that does not answer, the result comes soon', {
  timeout: 20_000,
}, async () => {
  let answer = Promise.withResolvers<void>();
  const health = new StoreHealth({ look: () => answer.promise });
  assert.equal(await health.answers(), false);
  answer.resolve();
  assert.equal(await health.answers(), true);
  // Its last answer holds for a while.
  answer = Promise.withResolvers();
  assert.equal(await health.answers(), true);
  health.close();
});
