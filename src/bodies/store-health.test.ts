import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreHealth } from './store-health.ts';

test('a store that is silent does not answer, and whoever asks is told so soon', {
  timeout: 20_000,
}, async () => {
  let answer = Promise.withResolvers<void>();
  const health = new StoreHealth({ look: () => answer.promise });
  assert.equal(await health.answers(), false);
  answer.resolve();
  assert.equal(await health.answers(), true);
  // What it said last holds for a while.
  answer = Promise.withResolvers();
  assert.equal(await health.answers(), true);
  health.close();
});
