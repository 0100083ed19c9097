/** Events of a hook that wait for an open transaction, which may be open for an hour. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestDatabase } from '../../../test/support/databases.ts';
import type { Change } from '../../mailboxes/changes/changes.ts';
import { OLDEST_CURSOR, saveHook } from '../../tenants/events/events.ts';
import { EventQueuer, type QueueEventsOptions } from './queue-events.ts';

test('they are looked for by one timer, later each time, however many events come meanwhile', async (t) => {
  const { database } = await openTestDatabase('sqlite');
  const userId = 'ada';
  await database.write((tx) =>
    saveHook(tx, {
      ...{ userId, url: 'https://hook.test', types: undefined, secret: 's', keepsSecret: true },
      ...{ cursor: OLDEST_CURSOR, createdAt: 1, previousUntil: 1 },
    }),
  );
  const pauses: number[] = [];
  let go = () => {};
  const { setTimeout: real } = globalThis;
  // The queuer's alone are so long: reads of the database share a turn of 10 ms, and all others wait for seconds.
  t.mock.method(globalThis, 'setTimeout', (call: () => void, ms = 0) => {
    if (ms < 50 || ms >= 1_000) return real(call, ms);
    pauses.push(ms);
    go = call;
    return { unref: () => {} };
  });
  let tell: (change: Change) => void = () => {};
  let read = () => {};
  const reading = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    read = resolve;
    return promise;
  };
  const queuer = new EventQueuer({
    database,
    queue: { count: async () => 0 },
    events: {
      lastId: async () => 1,
      usersSince: async () => ({ users: [], last: 1 }),
      read: async () => {
        setImmediate(() => read());
        return { events: [], cursor: OLDEST_CURSOR, hasMore: false, isHeld: true };
      },
    },
    changes: {
      subscribeAll: (listen: typeof tell) => {
        tell = listen;
        return () => {};
      },
    },
    log: { warn: assert.fail, error: assert.fail },
    now: Date.now,
  } as unknown as QueueEventsOptions);
  const stop = new AbortController();
  let next = reading();
  const running = queuer.run(stop.signal);
  await next;
  for (let event = 0; event < 5; event++) {
    next = reading();
    tell({ kind: 'events', userId });
    await next;
  }
  assert.deepEqual(pauses, [50]);
  for (const ms of [100, 200, 400]) {
    next = reading();
    go();
    await next;
    assert.equal(pauses.at(-1), ms);
  }
  assert.equal(pauses.length, 4);
  stop.abort();
  await running;
});
