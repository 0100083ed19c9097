import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOON = Date.UTC(2026, 4, 3, 12);

onEachEngine('the overview', (engine) => {
  let api: RunningApi;
  /** What the next looks at the clock show; after them it stands. */
  let coming: number[] = [];
  let now = NOON - 1;
  before(async () => {
    const look = () => {
      now = coming.shift() ?? now;
      return now;
    };
    api = await startApi(engine, {}, { now: look });
    const row = { span: 5 * MINUTE, at: NOON - HOUR, name: 'received', value: 7 };
    await api.database.write((tx) => tx.insertInto('traffic').values(row).execute());
  });

  test('counts what came in once, in the span or before it, also where five minutes end meanwhile', async () => {
    for (let looks = 0; looks < 6; looks++) {
      coming = [...Array.from({ length: looks }, () => NOON - 1), NOON];
      const { status, body } = await api.call('GET', '/v2/operator/overview?hours=1');
      assert.equal(status, 200, JSON.stringify(body));
      const within = body.series.reduce(
        (sum: number, { received }: { received: number }) => sum + received,
        0,
      );
      assert.equal(within + body.before.received, 7);
    }
  });
});
