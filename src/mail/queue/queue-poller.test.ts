import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { QueuePoller } from './queue-poller.ts';

onEachEngine('the look at the queue', (engine) => {
  test('an outage of the database is one line of the log', async () => {
    const { database } = await openTestDatabase(engine);
    const said: string[] = [];
    const note = (_fields: object, line: string) => void said.push(line);
    const looks: Promise<void>[] = [];
    let next = () => poller.look();
    const poller = new QueuePoller({
      database,
      kind: 'webhook',
      log: { warn: note, error: note },
      clock: {
        now: Date.now,
        monotonic: () => 0,
        after: (_ms, run) => {
          next = run;
          return () => {};
        },
      },
      found: () => true,
      hasRoomFor: () => true,
      onPage: () => {},
      track: (look) => void looks.push(look),
    });
    const look = async (times: number) => {
      for (let time = 0; time < times; time++) {
        next();
        await Promise.all(looks.splice(0));
      }
    };
    const rename = (from: string, to: string) =>
      database.write((tx) => sql.raw(`alter table ${from} rename to ${to}`).execute(tx));
    for (let outage = 1; outage <= 2; outage++) {
      await rename('deliveries', 'gone');
      await look(3);
      assert.deepEqual(said, Array(outage).fill('could not read the queue: retry in 1 s'));
      await rename('gone', 'deliveries');
      await look(1);
    }
    poller.stop();
  });
});
