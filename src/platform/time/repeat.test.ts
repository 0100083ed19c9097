import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Outage, Repeat } from './time.ts';

describe('work that is repeated', () => {
  test('never runs twice at a time, and once more where it was asked for during a run', async () => {
    const log: string[] = [];
    const turns = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
    const repeat = new Repeat({
      everyMs: 60_000,
      task: async () => {
        const turn = log.length / 2;
        log.push('begins');
        await turns[turn]?.promise;
        log.push('ends');
      },
    });
    const first = repeat.run();
    await new Promise((resolve) => setImmediate(resolve));
    const second = repeat.run();
    const third = repeat.run();
    turns[0]?.resolve();
    await first;
    turns[1]?.resolve();
    await Promise.all([second, third]);
    assert.deepEqual(log, ['begins', 'ends', 'begins', 'ends']);
    await repeat.stop();
    await repeat.run();
    assert.equal(log.length, 4, 'nothing runs after the stop');
  });

  test('an outage is told once when it begins and once when it is over, and each run is followed by another', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const told: string[] = [];
    let fails = false;
    let runs = 0;
    const repeat = new Repeat({
      everyMs: 1_000,
      task: async () => {
        runs++;
        if (fails) throw new Error('away');
      },
      outage: new Outage(
        (error) => told.push(String(error)),
        () => told.push('over'),
      ),
    });
    const over = new AbortController();
    const ended = repeat.until(over.signal);
    const next = async () => {
      await new Promise((resolve) => setImmediate(resolve));
      t.mock.timers.tick(1_000);
    };
    await next();
    fails = true;
    await next();
    await next();
    fails = false;
    await next();
    await next();
    assert.deepEqual(told, ['Error: away', 'over']);
    over.abort();
    await ended;
    const last = runs;
    assert.ok(last >= 5);
    await next();
    assert.equal(runs, last);
  });
});

test('an outage with patience is told once nothing worked for so long, and is over with the first success', (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const told: unknown[] = [];
  const outage = new Outage(
    (failure) => told.push(failure),
    (seconds, failures) => told.push(seconds, failures),
    60_000,
  );
  for (; now < 600_000; now += 40_000) {
    outage.failed('one of several is down');
    now += 10_000;
    outage.worked();
  }
  assert.deepEqual(told, []);
  outage.failed('first');
  now += 59_999;
  outage.failed('second');
  assert.equal(outage.isOn, false);
  now += 1;
  outage.failed('third');
  outage.failed('fourth');
  assert.equal(outage.isOn, true);
  outage.worked();
  outage.worked();
  assert.equal(outage.isOn, false);
  assert.deepEqual(told, ['third', 60, 4]);
});
