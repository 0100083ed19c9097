import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchFreezes } from './watch-freezes.ts';

test('a freeze is known to those who ask before the timer has run, and told once', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const told: object[] = [];
  const freezes = watchFreezes({ warn: (facts: object) => void told.push(facts) });
  t.after(() => freezes.stop());
  now += 1_000;
  t.mock.timers.tick(1_000);
  assert.equal(freezes.wereJustNow(), false);
  now += 91_000;
  assert.equal(freezes.wereJustNow(), true);
  t.mock.timers.tick(1_000);
  assert.deepEqual(told, [{ seconds: 90 }]);
  now += 5_000;
  assert.equal(freezes.wereJustNow(), false);
});
