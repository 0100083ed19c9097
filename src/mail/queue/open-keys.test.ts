/** How the pages of a queue with a million rows are read, tested with few rows by their query plans. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openQueueBench } from '../../../test/support/queue/open-queue.ts';
import { listGroups, listOpen } from './groups.ts';
import { behindQuery, type OpenKey, pastStateOf, readKeys, restQuery } from './open-keys.ts';

const RECEIVERS = ['a.test', 'b.test', 'c.test'];
const STATES = ['failed', 'held', 'queued'] as const;

onEachEngine('keys of what was not delivered', (engine) => {
  /** Some of each receiver, claim and state. */
  async function openFilled() {
    const bench = await openQueueBench(engine);
    for (const destination of RECEIVERS) await bench.fill(destination, 18);
    await bench.database.write(async (tx) => {
      await sql`update deliveries set domain_id = 1 + id % 2`.execute(tx);
      for (const [index, status] of STATES.entries()) {
        await sql`update deliveries set status = ${status} where id % 3 = ${index}`.execute(tx);
      }
    });
    return bench;
  }

  test('every page is one step in the index, wherever it begins', async () => {
    const { database } = await openFilled();
    const after = { destination: 'b.test', domain_id: 1, kind: 'webhook', status: 'held', id: 9 };
    const destination = 'b.test';
    const receivers = [undefined, { destination }, { destination, domainId: 1 }];
    for (const receiver of receivers) {
      for (const order of ['asc', 'desc'] as const) {
        const request = { receiver, order, limit: 10 };
        for (const place of [behindQuery, restQuery]) {
          const plan = await database.write(async (tx) => {
            const query = place(tx, request, after as OpenKey);
            if (engine === 'sqlite')
              return JSON.stringify(await query.explain(undefined, sql`query plan`));
            // With the few rows of a test, reading or sorting all of them would be as good.
            await sql`set local enable_seqscan = off`.execute(tx);
            await sql`set local enable_bitmapscan = off`.execute(tx);
            await sql`set local enable_sort = off`.execute(tx);
            return JSON.stringify(await query.explain());
          });
          assert.match(plan, /\bdeliveries_by_receiver\b/, plan);
          assert.doesNotMatch(plan, /TEMP B-TREE|\bSort\b|Seq Scan|SCAN /, plan);
          // SQLite seeks by each column of the key.
          const seeks = place === restQuery ? /status=\? AND id[<>]\?/ : /kind,status\)[<>]\(/;
          if (engine === 'sqlite') assert.match(plan, seeks, plan);
        }
      }
    }
  });

  test('in pages of any size they are the same, in both orders', async () => {
    const { database } = await openFilled();
    for (const order of ['asc', 'desc'] as const) {
      for (const receiver of [undefined, { destination: 'b.test', domainId: 2 }]) {
        const all = await readKeys(database.read, { receiver, order, limit: 100 });
        assert.equal(all.length, receiver ? 9 : 54);
        for (const limit of [1, 4, 7]) {
          const read: OpenKey[] = [];
          for (let page: OpenKey[]; ; read.push(...page)) {
            page = await readKeys(database.read, { receiver, after: read.at(-1), order, limit });
            if (page.length === 0) break;
          }
          assert.deepEqual(read, all);
        }
        // After one state come the others, whether it is the first or the last.
        for (const key of all) {
          const behind = all.slice(all.findLastIndex((one) => isLike(one, key)) + 1);
          const after = pastStateOf(key, order);
          const rest = await readKeys(database.read, { receiver, after, order, limit: 100 });
          assert.deepEqual(rest, behind);
        }
      }
    }
  });

  test('groups and deliveries of a state are found after many others', async () => {
    const { database } = await openFilled();
    await database.write((tx) =>
      sql`update deliveries set status = 'queued' where destination <> 'c.test'`.execute(tx),
    );
    const page = { after: undefined, limit: 2 };
    const { groups, next } = await listGroups(database.read, { state: 'held' }, page);
    assert.deepEqual(
      groups.map(({ destination, domainId }) => [destination, domainId]),
      [
        ['c.test', 1],
        ['c.test', 2],
      ],
    );
    assert.equal(next, undefined);
    const of = await listGroups(database.read, { domainIds: [2] }, page);
    assert.deepEqual(
      of.groups.map(({ destination, domainId }) => [destination, domainId]),
      [
        ['a.test', 2],
        ['b.test', 2],
      ],
    );
    const { items } = await listOpen(database, { states: ['held'] }, { ...page, limit: 9 });
    assert.deepEqual(
      items.map(({ destination, status }) => `${destination} ${status}`),
      Array.from({ length: 6 }, () => 'c.test held'),
    );
  });
});

function isLike(one: OpenKey, other: OpenKey): boolean {
  const nameOf = ({ id: _, ...names }: OpenKey) => JSON.stringify(names);
  return nameOf(one) === nameOf(other);
}
