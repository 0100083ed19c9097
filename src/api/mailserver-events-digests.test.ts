import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { RecentDigests } from './mailserver-events-digests.ts';

suite('recent digests', () => {
  test('are there from when they are added until they are too old', () => {
    const recent = new RecentDigests();
    assert.equal(recent.has(0, 0, 0), false);
    recent.add(0, 0, 100);
    assert.equal(recent.has(0, 0, 99), true);
    assert.equal(recent.has(0, 0, 100), false);
    assert.equal(recent.has(0, 1, 0), false);
    recent.add(0, 0, 200);
    assert.equal(recent.has(0, 0, 199), true);
    assert.equal(recent.size, 1);
    recent.remove(0, 0);
    assert.equal(recent.has(0, 0, 1), false);
  });

  test('a hundred thousand of them, a thousand a second', () => {
    const recent = new RecentDigests();
    const lowOf = (n: number) => Math.imul(n, 0x9e3779b1) >>> 0;
    for (let n = 0; n < 100_000; n++) recent.add(n, lowOf(n), 10 + Math.floor(n / 1_000));
    assert.equal(recent.size, 100_000);
    for (let n = 0; n < 100_000; n++) {
      assert.equal(recent.has(n, lowOf(n), 9), true);
      assert.equal(recent.has(n + 1, lowOf(n), 9), false);
      assert.equal(recent.has(n, lowOf(n), 59), n >= 50_000);
    }
    recent.forget(10 + 49);
    // The last table holds those of later seconds too, and stays.
    assert.ok(recent.size < 100_000 && recent.size >= 50_000);
    for (let n = 50_000; n < 100_000; n++) assert.equal(recent.has(n, lowOf(n), 59), true);
    recent.forget(1_000);
    assert.equal(recent.size, 0);
  });

  test('do what a map does', () => {
    // Few different digests, many of which want the same slot.
    const half = fc.constantFrom(0, 1, 8_192, 0xffff_ffff);
    const step = fc.record({
      high: half,
      low: half,
      action: fc.constantFrom('add', 'remove', 'forget', 'pass'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const recent = new RecentDigests();
        const model = new Map<string, number>();
        let time = 10;
        for (const { high, low, action } of steps) {
          const key = `${high} ${low}`;
          if (action === 'add') {
            recent.add(high, low, time);
            model.set(key, time);
          } else if (action === 'remove') {
            recent.remove(high, low);
            model.delete(key);
          } else if (action === 'forget') {
            recent.forget(time - 3);
          } else {
            time++;
          }
          assert.equal(recent.has(high, low, time - 3), (model.get(key) ?? 0) > time - 3);
        }
      }),
    );
  });
});
