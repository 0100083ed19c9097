import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SteadyBeats } from './steady.ts';

const SECOND = 1_000;
const START = Date.UTC(2026, 0, 1);

/** Heartbeats on clocks that the test moves. */
function bench() {
  const at = { monotonic: 0, database: START };
  const beats = new SteadyBeats(() => at.monotonic);
  const pass = (seconds: { monotonic: number; database: number }) => {
    at.monotonic += seconds.monotonic * SECOND;
    at.database += seconds.database * SECOND;
  };
  const beat = (count: number) => {
    for (let one = 0; one < count; one++) {
      pass({ monotonic: 5, database: 5 });
      beats.note(at.database);
    }
  };
  return { beats, pass, beat };
}

for (const [what, gap] of [
  ['the database was away', { monotonic: 45, database: 45 }],
  ['the machine and its monotonic clock stood still', { monotonic: 0, database: 45 }],
  ["the database's clock was set forward", { monotonic: 5, database: 86_400 }],
] as const) {
  test(`heartbeats are not steady for 15 s after ${what}`, () => {
    const { beats, pass, beat } = bench();
    assert.equal(beats.isSteady, false);
    beat(1);
    assert.equal(beats.isSteady, false, 'a node that has just started');
    beat(3);
    assert.equal(beats.isSteady, true);
    pass(gap);
    beat(1);
    assert.equal(beats.isSteady, false);
    beat(2);
    assert.equal(beats.isSteady, false);
    beat(1);
    assert.equal(beats.isSteady, true);
  });
}

test('heartbeats are not steady while none is written', () => {
  const { beats, pass, beat } = bench();
  beat(4);
  pass({ monotonic: 12, database: 12 });
  assert.equal(beats.isSteady, true);
  pass({ monotonic: 1, database: 1 });
  assert.equal(beats.isSteady, false);
});
