import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type CheckedClaim, nextCheckAt } from './due-claims.ts';
import type { Verdict } from './judge-records.ts';
import { type RecordState, settleRecord } from './write-verdicts.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

suite('schedule', () => {
  /** The offsets of all checks until `end`, where each takes no time. */
  function checks(end: number, random: number): number[] {
    const offsets = [0];
    for (let now = 0; ; ) {
      now = nextCheckAt({ status: 'pending', pendingSince: 0 }, now, true, random);
      if (now > end) return offsets;
      offsets.push(now);
    }
  }

  test('a pending claim: soon and often at first, then every half hour, then every six hours', () => {
    const offsets = checks(96 * HOUR, 0);
    assert.deepEqual(offsets.slice(0, 8), [
      0,
      30 * SECOND,
      MINUTE,
      2 * MINUTE,
      5 * MINUTE,
      10 * MINUTE,
      40 * MINUTE,
      70 * MINUTE,
    ]);
    const gaps = offsets.slice(1).map((offset, n) => offset - (offsets[n] ?? 0));
    const early = offsets.filter((offset) => offset >= 10 * MINUTE && offset < 72 * HOUR).length;
    assert.equal(early, 144);
    assert.deepEqual(new Set(gaps.slice(6, -4)), new Set([30 * MINUTE]));
    assert.deepEqual(new Set(gaps.slice(-3)), new Set([6 * HOUR]));
  });

  test('a late check skips those that were due before it', () => {
    const claim = { status: 'pending', pendingSince: 1_000_000 } as const;
    assert.equal(nextCheckAt(claim, 1_000_000 + 45 * SECOND, true, 0), 1_000_000 + MINUTE);
    assert.equal(nextCheckAt(claim, 1_000_000 + MINUTE, true, 0), 1_000_000 + 2 * MINUTE);
    const late = 1_000_000 + 3 * HOUR;
    assert.equal(nextCheckAt(claim, late, true, 0), late + 30 * MINUTE);
  });

  test('an active claim: daily, and hourly while DNS does not answer', () => {
    const claim = { status: 'active', pendingSince: 0 } as const;
    assert.equal(nextCheckAt(claim, 5 * DAY, true, 0), 6 * DAY);
    assert.equal(nextCheckAt(claim, 5 * DAY, false, 0), 5 * DAY + HOUR);
  });

  test('a failure of DNS does not make checks of a pending claim more frequent', () => {
    for (const now of [0, 20 * SECOND, HOUR, 100 * HOUR]) {
      const claim = { status: 'pending', pendingSince: 0 } as const;
      assert.equal(nextCheckAt(claim, now, false, 0), nextCheckAt(claim, now, true, 0));
    }
  });

  test('long intervals are spread by a twentieth, never beyond', () => {
    const active = { status: 'active', pendingSince: 0 } as const;
    assert.equal(nextCheckAt(active, 0, true, 1), 0.95 * DAY);
    assert.equal(nextCheckAt(active, 0, true, 0.5), 0.975 * DAY);
    const pending = { status: 'pending', pendingSince: 0 } as const;
    assert.equal(nextCheckAt(pending, HOUR, true, 1), HOUR + 0.95 * 30 * MINUTE);
    assert.equal(nextCheckAt(pending, 10 * SECOND, true, 1), 30 * SECOND);
  });
});

suite('a record after a check', () => {
  const match: Verdict = { outcome: 'match', observed: 'x', detail: 'x' };
  const mismatch: Verdict = { outcome: 'mismatch', observed: 'x', detail: 'x' };
  const absent: Verdict = { outcome: 'absent', observed: 'x', detail: 'x' };
  const unknown: Verdict = { outcome: 'unknown', detail: 'x' };
  const fresh: RecordState = { status: 'pending', misses: 0, failingSince: undefined };

  function run(
    claim: CheckedClaim,
    verdicts: readonly (readonly [now: number, Verdict])[],
    start = fresh,
  ): RecordState {
    return verdicts.reduce(
      (state, [now, verdict]) => settleRecord(state, verdict, claim, now),
      start,
    );
  }
  const pending = { status: 'pending', pendingSince: 0 } as const;
  const active = { status: 'active', pendingSince: 0 } as const;
  const verified: RecordState = { status: 'verified', misses: 0, failingSince: undefined };

  test('of a pending claim: verified at once', () => {
    assert.deepEqual(run(pending, [[0, match]]), verified);
    assert.deepEqual(
      run(pending, [
        [0, absent],
        [HOUR, mismatch],
        [2 * HOUR, match],
      ]),
      verified,
    );
  });

  test('of a pending claim: pending for 72 hours, whatever is missed, then failed', () => {
    for (const miss of [mismatch, absent]) {
      const early = run(pending, [
        [0, miss],
        [HOUR, miss],
        [72 * HOUR, miss],
      ]);
      assert.deepEqual(early, { status: 'pending', misses: 3, failingSince: 0 });
      assert.equal(run(pending, [[72 * HOUR + 1, miss]]).status, 'failed');
      assert.deepEqual(
        run(pending, [
          [72 * HOUR + 1, miss],
          [80 * HOUR, match],
        ]),
        verified,
      );
    }
  });

  test('of a pending claim: a record that was verified and is missing is pending again', () => {
    assert.equal(
      run(pending, [
        [0, match],
        [HOUR, absent],
      ]).status,
      'pending',
    );
    assert.equal(
      run(pending, [
        [0, match],
        [73 * HOUR, absent],
      ]).status,
      'failed',
    );
  });

  test('of an active claim: failed by the third miss in a row', () => {
    const misses = (...verdicts: Verdict[]) =>
      run(
        active,
        verdicts.map((verdict, n) => [n * DAY, verdict] as const),
        verified,
      );
    assert.deepEqual(misses(absent, mismatch), { status: 'verified', misses: 2, failingSince: 0 });
    assert.deepEqual(misses(absent, mismatch, absent), {
      status: 'failed',
      misses: 3,
      failingSince: 0,
    });
    assert.equal(misses(absent, absent, match, absent, absent).status, 'verified');
    assert.equal(misses(absent, absent, match, absent, absent).failingSince, 3 * DAY);
    assert.equal(misses(absent, absent, absent, absent).failingSince, 0);
    assert.deepEqual(misses(absent, absent, absent, match), verified);
  });

  test('of a claim that became pending again: failed until it matches', () => {
    const fallen = { status: 'pending', pendingSince: 100 * DAY } as const;
    const failed: RecordState = { status: 'failed', misses: 17, failingSince: 80 * DAY };
    assert.equal(run(fallen, [[100 * DAY + 1, absent]], failed).status, 'failed');
    assert.deepEqual(run(fallen, [[100 * DAY + 1, match]], failed), verified);
  });

  test('does not change when DNS did not answer', () => {
    const states: RecordState[] = [
      fresh,
      verified,
      { status: 'verified', misses: 2, failingSince: 5 },
      { status: 'failed', misses: 9, failingSince: 5 },
    ];
    for (const claim of [pending, active]) {
      for (const state of states) {
        assert.deepEqual(run(claim, [[1_000 * DAY, unknown]], state), state);
      }
    }
    const misses = run(
      active,
      [
        [0, absent],
        [1, absent],
        [2, unknown],
        [3, absent],
      ],
      verified,
    );
    assert.equal(misses.status, 'failed', 'it breaks no row of misses either');
  });
});
