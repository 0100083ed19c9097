/** How a queue with a million rows is read, tested with few rows by the query plans. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openQueueBench } from '../../../test/support/queue/open-queue.ts';
import { type GroupKey, listGroups, listOpen } from './groups.ts';
import { inOrder } from './undelivered.ts';

const RECEIVERS = ['a.test', 'b.test', 'c.test'];
const STATES = ['failed', 'held', 'queued'] as const;

onEachEngine('what was not delivered', (engine) => {
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

  test('every page of a state is one step in an index, wherever it begins', async () => {
    const { database } = await openFilled();
    for (const domainId of [undefined, 1]) {
      for (const order of ['asc', 'desc'] as const) {
        const request = { state: 'held', domainId, after: { at: 1, id: 9 }, limit: 10 } as const;
        const plan = await database.write(async (tx) => {
          const query = inOrder(tx, request, order).select(['id', 'created_at']);
          if (engine === 'sqlite')
            return JSON.stringify(await query.explain(undefined, sql`query plan`));
          // With the few rows of a test, reading or sorting all of them would be as good.
          await sql`set local enable_seqscan = off`.execute(tx);
          await sql`set local enable_bitmapscan = off`.execute(tx);
          await sql`set local enable_sort = off`.execute(tx);
          return JSON.stringify(await query.explain());
        });
        const index = domainId ? /\bdeliveries_by_status\b/ : /\bdeliveries_undelivered\b/;
        assert.match(plan, index, plan);
        assert.doesNotMatch(plan, /TEMP B-TREE|\bSort\b|Seq Scan|SCAN /, plan);
      }
    }
  });

  test('in pages of any size groups and deliveries are the same', async () => {
    const { database } = await openFilled();
    const groups = await listGroups(database, {}, { after: undefined, limit: 100 });
    assert.equal(groups.next, undefined);
    assert.deepEqual(
      groups.groups.map(({ destination, domainId, counts }) => [destination, domainId, counts]),
      RECEIVERS.flatMap((destination) =>
        [1, 2].map((domainId) => [destination, domainId, { queued: 3, held: 3, failed: 3 }]),
      ),
    );
    const open = await listOpen(database, {}, { before: undefined, limit: 100 });
    const ids = open.items.map(({ id }) => id);
    assert.equal(ids.length, 54);
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => b - a),
    );
    for (const limit of [1, 4]) {
      const read: unknown[] = [];
      for (let after: GroupKey | undefined, isFirst = true; isFirst || after; isFirst = false) {
        const page = await listGroups(database, {}, { after, limit });
        read.push(...page.groups);
        after = page.next;
      }
      assert.deepEqual(read, groups.groups);
      const seen: number[] = [];
      for (let before: number | undefined, isFirst = true; isFirst || before; isFirst = false) {
        const page = await listOpen(database, {}, { before, limit });
        seen.push(...page.items.map(({ id }) => id));
        before = page.next;
      }
      assert.deepEqual(seen, ids);
    }
  });

  test('the last error of a group is that of its oldest delivery: of what waits, else of what is held, else of what failed', async () => {
    const { database } = await openFilled();
    const write = (set: string, where: string) =>
      database.write((tx) => sql.raw(`update deliveries set ${set} where ${where}`).execute(tx));
    await write(`last_error = '{"text":"' || status || ' ' || id || '"}'`, 'true');
    const texts = async () => {
      const { groups } = await listGroups(database, {}, { after: undefined, limit: 100 });
      return groups.map(({ lastError }) => lastError?.text);
    };
    const oldest = async (state: string) => {
      const { rows } = await sql<{ id: number }>`select min(id) as id from deliveries
        where status = ${state} group by destination, domain_id order by destination, domain_id`.execute(
        database.read,
      );
      return rows.map(({ id }) => `${state} ${id}`);
    };
    for (const state of ['queued', 'held', 'failed']) {
      assert.deepEqual(await texts(), await oldest(state));
      await write('last_error = null', `status = '${state}'`);
    }
    assert.deepEqual(
      await texts(),
      Array.from({ length: 6 }, () => undefined),
    );
  });

  test('groups and deliveries of a state are found after many others', async () => {
    const { database } = await openFilled();
    await database.write((tx) =>
      sql`update deliveries set status = 'queued' where destination <> 'c.test'`.execute(tx),
    );
    const page = { after: undefined, limit: 2 };
    const { groups, next } = await listGroups(database, { state: 'held' }, page);
    assert.deepEqual(
      groups.map(({ destination, domainId }) => [destination, domainId]),
      [
        ['c.test', 1],
        ['c.test', 2],
      ],
    );
    assert.equal(next, undefined);
    const of = await listGroups(database, { domainIds: [2] }, page);
    assert.deepEqual(
      of.groups.map(({ destination, domainId }) => [destination, domainId]),
      [
        ['a.test', 2],
        ['b.test', 2],
      ],
    );
    const { items } = await listOpen(
      database,
      { states: ['held'] },
      { before: undefined, limit: 9 },
    );
    assert.deepEqual(
      items.map(({ destination, status }) => `${destination} ${status}`),
      Array.from({ length: 6 }, () => 'c.test held'),
    );
  });
});
