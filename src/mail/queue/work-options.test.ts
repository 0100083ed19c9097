import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { errorFromJson, errorToJson } from './delivery.ts';
import { nextDelayMs } from './work-options.ts';

const noJitter = () => 0;
const DAY_MS = 24 * 3_600_000;

test('each failed attempt is followed by the next delay, the last by none', () => {
  const delays = [5, 300];
  assert.equal(nextDelayMs(delays, 1, undefined, noJitter), 5_000);
  assert.equal(nextDelayMs(delays, 2, undefined, noJitter), 300_000);
  assert.equal(nextDelayMs(delays, 3, undefined, noJitter), undefined);
  assert.equal(nextDelayMs([], 1, undefined, noJitter), undefined);
});

test('jitter never makes a delay shorter, nor more than a tenth longer', () => {
  assert.equal(
    nextDelayMs([100], 1, undefined, () => 1),
    110_000,
  );
  fc.assert(
    fc.property(fc.nat(100_000), fc.double({ min: 0, max: 1, noNaN: true }), (delay, random) => {
      const ms = nextDelayMs([delay], 1, undefined, () => random) ?? -1;
      assert.ok(ms >= delay * 1000 && ms <= delay * 1100 + 1);
    }),
  );
});

test('the Retry-After of the receiver is a lower bound, up to a day, and adds no attempt', () => {
  assert.equal(nextDelayMs([5], 1, 60, noJitter), 60_000);
  assert.equal(nextDelayMs([5], 1, 2, noJitter), 5_000);
  assert.equal(nextDelayMs([5], 1, -7, noJitter), 5_000);
  assert.equal(nextDelayMs([5], 1, 1e12, noJitter), DAY_MS);
  assert.equal(nextDelayMs([5], 1, Number.POSITIVE_INFINITY, noJitter), DAY_MS);
  assert.equal(nextDelayMs([5], 2, 60, noJitter), undefined);
});

test('an error keeps 500 bytes of its text, whole characters only', () => {
  const kept = (text: string) => errorFromJson(errorToJson({ status: 500, text })).text;
  assert.equal(kept('short'), 'short');
  assert.equal(kept('a'.repeat(600)), 'a'.repeat(500));
  assert.equal(kept('é'.repeat(300)), 'é'.repeat(250));
  assert.equal(kept(`a${'€'.repeat(200)}`), `a${'€'.repeat(166)}`);
  assert.equal(kept(`a${'😀'.repeat(300)}`), `a${'😀'.repeat(124)}`);
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 700 }), (text) => {
      assert.ok(Buffer.byteLength(kept(text)) <= 500);
      assert.ok(text.startsWith(kept(text)) || !text.isWellFormed());
    }),
  );
});
