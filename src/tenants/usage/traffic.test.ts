import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import type { Database } from '../../platform/database/database.ts';
import { pruneTraffic, Traffic } from './usage.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOON = Date.UTC(2026, 4, 3, 12);

onEachEngine('traffic', (engine) => {
  let database: Database;
  let now = NOON;
  before(async () => {
    ({ database } = await openTestDatabase(engine));
  });

  /** A node, and its counters. */
  function openNode() {
    const counted: Record<string, number> = {};
    const log = { warn: () => assert.fail('nothing fails') };
    const totals = async () => ({ ...counted });
    return { counted, traffic: new Traffic({ database, totals, log, now: () => now }) };
  }

  test('of several nodes is added up by five minutes, and by the hour', async () => {
    const [one, other] = [openNode(), openNode()];
    one.counted.received = 3;
    other.counted.received = 4;
    other.counted['refused:account_not_found'] = 1;
    await Promise.all([one.traffic.flush(), one.traffic.flush(), other.traffic.flush()]);
    now += 4 * MINUTE;
    one.counted.received = 5;
    await one.traffic.flush();
    now += MINUTE;
    await one.traffic.flush();
    one.counted.received = 6;
    await one.traffic.flush();
    const fine = await one.traffic.read(1, now);
    assert.equal(fine.length, 12);
    assert.deepEqual(fine.slice(-2), [
      { at: NOON, amounts: { received: 9, 'refused:account_not_found': 1 } },
      { at: NOON + 5 * MINUTE, amounts: { received: 1 } },
    ]);
    assert.deepEqual(fine[0], { at: NOON - 50 * MINUTE, amounts: {} });
    const coarse = await one.traffic.read(49, now);
    assert.equal(coarse.length, 49);
    assert.deepEqual(coarse.at(-1), {
      at: NOON,
      amounts: { received: 10, 'refused:account_not_found': 1 },
    });
  });

  test('of the hours before is summed, as far as it is kept', async () => {
    const { traffic } = openNode();
    const start = now;
    now += HOUR;
    assert.equal((await traffic.readBefore(1, now))?.received, 10);
    now = start + 30 * HOUR;
    assert.equal((await traffic.readBefore(24, now))?.received, 10, 'hours are kept for longer');
    assert.equal((await traffic.readBefore(12, now))?.received, undefined);
    assert.equal(await traffic.readBefore(361, now), undefined);
    now = start;
  });

  test('that could not be stored is stored later', async () => {
    let isDown = true;
    const said: string[] = [];
    const traffic = new Traffic({
      database: {
        ...database,
        write: (work) => (isDown ? Promise.reject(new Error('away')) : database.write(work)),
      },
      totals: async () => ({ sent: 2 }),
      log: { warn: (_: object, text: string) => said.push(text) },
      now: () => now,
    });
    await traffic.flush();
    assert.equal(said.length, 1);
    isDown = false;
    await traffic.stop();
    assert.equal((await openNode().traffic.read(1, now)).at(-1)?.amounts.sent, 2);
  });

  test('of a gauge is its last value', async () => {
    const { traffic } = openNode();
    await traffic.gauge({ stored_bytes: 10, 'queue:held': 2 });
    await traffic.gauge({ stored_bytes: 7, 'queue:held': 0 });
    const { amounts = {} } = (await traffic.read(1, now)).at(-1) ?? {};
    assert.deepEqual([amounts.stored_bytes, amounts['queue:held']], [7, 0]);
  });

  test('is kept for as long as it can be read', async () => {
    const { traffic } = openNode();
    const prune = () => database.write((tx) => pruneTraffic(tx, now));
    assert.equal(await prune(), 0);
    now += 72 * HOUR;
    while ((await prune()) > 0);
    assert.deepEqual(
      (await traffic.read(100, now)).map(({ amounts }) => amounts.received).filter(Boolean),
      [10],
      'the hour is there',
    );
    now += 28 * 24 * HOUR;
    while ((await prune()) > 0);
    const left = await database.read.selectFrom('traffic').selectAll().execute();
    assert.deepEqual(left, []);
  });
});
