import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchFreezes } from './watch-freezes.ts';

test('a freeze is known to those who ask before the timer has run, and told once', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  t.mock.method(Date, 'now', () => now);
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

test('a clock that was set is told once, and what follows', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let [now, off] = [0, 0];
  t.mock.method(performance, 'now', () => now);
  t.mock.method(Date, 'now', () => now + off);
  const told: unknown[] = [];
  const warn = (facts: object, text: string) => void told.push({ ...facts, text });
  const freezes = watchFreezes({ warn: warn as never });
  t.after(() => freezes.stop());
  // The last one is what NTP does.
  for (off of [0, 86_400_000, 86_400_000, 0, 0, 900]) {
    now += 1_000;
    t.mock.timers.tick(1_000);
  }
  const texts = told.map((one) => JSON.stringify(one));
  assert.equal(texts.length, 2);
  assert.match(texts[0] ?? '', /"seconds":86400.*went forward: it was set, or the machine slept/);
  assert.match(texts[1] ?? '', /"seconds":86400.*went back: .*queue retry --status queued/);
});
