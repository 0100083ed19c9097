import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  insertDomain,
  openQueueBench,
  type QueueBench,
} from '../../../test/support/queue/open-queue.ts';
import { reasonOf } from './delivery.ts';
import { listOpen } from './groups.ts';
import type { QueueFilter } from './queue-filter.ts';
import { listReceivers, summarize } from './receivers.ts';

test('a reason has no addresses, ids and times, so that many deliveries share it', () => {
  const said: readonly (readonly [text: string, reason: string])[] = [
    [
      '4.7.1 <ann@acme.test>: Greylisted, try again in 287 seconds',
      '4.7.1 <…>: Greylisted, try again in … seconds',
    ],
    ['4.2.0 \u202efull\u202c of mail', '4.2.0 full of mail'],
    ['4.2.0 mailbox full\r\n (id 4bXk2n1Zq0z9R)', '4.2.0 mailbox full (id …)'],
    ['connect ECONNREFUSED 127.0.0.1:24010', 'connect ECONNREFUSED 127.0.0.1:24010'],
    ['x'.repeat(600), 'x'.repeat(116)],
    [`${'a@'.repeat(5_000)}b`, reasonOf({ status: 450, text: 'a@'.repeat(250) }).slice(4)],
  ];
  for (const [text, reason] of said) {
    assert.equal(reasonOf({ status: 450, text }), `450 ${reason}`.slice(0, 120));
  }
  assert.equal(reasonOf({ text: 'gone' }), 'gone');
});

onEachEngine('receivers of the queue', (engine) => {
  const FULL = 'https://full.test';

  /** 6 for one receiver (one of them held, two never tried), 1 for an older one, and 2 that failed. */
  async function openFilled(): Promise<QueueBench & { readonly other: number }> {
    const bench = await openQueueBench(engine);
    const other = await insertDomain(bench.database, 'other.test');
    const now = bench.clock.now();
    await bench.fill(FULL, 6, 7);
    await bench.fill('old.test', 1);
    await bench.fill('gone.test', 2);
    await bench.fill('well.test', 1);
    await bench.database.write(async (tx) => {
      const set = (where: ReturnType<typeof sql>, values: object) =>
        tx.updateTable('deliveries').set(values).where(sql<boolean>`${where}`).execute();
      await set(sql`id in (1, 2, 3)`, { reason: '451 busy', next_attempt_at: now + 5_000 });
      await set(sql`id = 4`, { reason: '500 no', status: 'held', domain_id: other });
      await set(sql`id = 1`, { mail_from: 'ann@acme.test' });
      await set(sql`destination = 'old.test'`, { created_at: now - 60_000 });
      const ended = { finished_at: now, updated_at: now + 9 };
      await set(sql`destination = 'gone.test'`, { ...ended, status: 'failed', reason: '410 gone' });
      await set(sql`destination = 'well.test'`, { ...ended, status: 'delivered' });
      await set(sql`id = 10`, { destination: 'old.test' });
    });
    return Object.assign(bench, { other });
  }

  const page = { after: undefined, before: undefined, limit: 10 };

  test('each has a row with what waits, the oldest first, and why', async () => {
    const bench = await openFilled();
    const { receivers, next, total } = await listReceivers(bench.database, {}, page);
    const now = bench.clock.now();
    assert.deepEqual([next, total], [undefined, 2]);
    assert.deepEqual(receivers, [
      {
        destination: 'old.test',
        kinds: ['test'],
        counts: { queued: 1, held: 0, failed: 0 },
        oldestAt: now - 60_000,
        nextAttemptAt: now,
        domainIds: [bench.domainId],
        lastSuccessAt: now,
      },
      {
        destination: FULL,
        kinds: ['test'],
        counts: { queued: 5, held: 1, failed: 0 },
        oldestAt: now,
        nextAttemptAt: now,
        reason: { text: '451 busy', count: 3 },
        domainIds: [bench.domainId, bench.other],
      },
    ]);
    const failed = await listReceivers(bench.database, { states: ['failed'] }, page);
    assert.deepEqual(failed.receivers, [
      {
        destination: 'gone.test',
        kinds: ['test'],
        counts: { queued: 0, held: 0, failed: 2 },
        oldestAt: now,
        failedAt: now + 9,
        reason: { text: '410 gone', count: 2 },
        domainIds: [bench.domainId],
      },
    ]);
  });

  test('every filter counts what the list of deliveries names', async () => {
    const bench = await openFilled();
    const now = bench.clock.now();
    const filters: readonly (readonly [QueueFilter, ids: number[]])[] = [
      [{}, [7, 6, 5, 4, 3, 2, 1]],
      [{ destination: FULL }, [6, 5, 4, 3, 2, 1]],
      [{ receiverPart: 'FULL' }, [6, 5, 4, 3, 2, 1]],
      [{ receiverPart: '%' }, []],
      [{ kind: 'test', states: ['held'] }, [4]],
      [{ kind: 'webhook' }, []],
      [{ domainIds: [bench.other] }, [4]],
      [{ domainIds: [] }, []],
      [{ domainIds: [bench.domainId], senders: [`${bench.domainId}//ann`] }, [7]],
      [{ mailFrom: 'ann@acme.test' }, [1]],
      [{ reason: 'BUSY' }, [3, 2, 1]],
      [{ reason: '_' }, []],
      [{ before: now }, [7]],
      [{ dueBefore: now }, [7, 6, 5]],
      [{ states: ['failed'], reason: 'gone' }, [9, 8]],
    ];
    for (const [filter, ids] of filters) {
      const said = JSON.stringify(filter);
      const queue = bench.queue();
      const { receivers } = await listReceivers(bench.database, filter, page);
      const counted = receivers.flatMap(({ counts }) => Object.values(counts));
      assert.equal(
        counted.reduce((sum, one) => sum + one, 0),
        ids.length,
        said,
      );
      const states = filter.states ?? (['queued', 'held'] as const);
      const { items } = await listOpen(bench.database, { ...filter, states }, page);
      assert.deepEqual(
        items.map(({ id }) => id).sort((a, b) => b - a),
        ids,
        said,
      );
      const { counts } = await summarize(bench.database, filter);
      assert.equal(counts.queued + counts.held + counts.failed, ids.length, said);
      if (filter.states?.[0] === 'failed') continue;
      const order = { action: 'drop', isDryRun: true, heldBy: 'operator' } as const;
      const { matched } = await queue.bulk({ ...order, filter: { ...filter, states } }, 'x');
      assert.equal(matched, ids.length, said);
    }
  });

  test('a part is counted by reason, domain and sender', async () => {
    const bench = await openFilled();
    const summary = await summarize(bench.database, { destination: FULL });
    const now = bench.clock.now();
    const counts = { queued: 0, held: 0, failed: 0 };
    assert.deepEqual(summary, {
      counts: { ...counts, queued: 5, held: 1 },
      oldestAt: now,
      nextAttemptAt: now,
      untried: 2,
      reasons: [
        {
          text: '451 busy',
          counts: { ...counts, queued: 3 },
          oldestAt: now,
          nextAttemptAt: now + 5_000,
        },
        { text: '500 no', counts: { ...counts, held: 1 }, oldestAt: now },
      ],
      domains: [
        {
          domainId: bench.domainId,
          counts: { ...counts, queued: 5 },
          oldestAt: now,
          nextAttemptAt: now,
        },
        { domainId: bench.other, counts: { ...counts, held: 1 }, oldestAt: now },
      ],
      senders: [
        { counts: { ...counts, queued: 4, held: 1 }, oldestAt: now, nextAttemptAt: now },
        {
          mailFrom: 'ann@acme.test',
          counts: { ...counts, queued: 1 },
          oldestAt: now,
          nextAttemptAt: now + 5_000,
        },
      ],
    });
  });

  test('in pages of any size each receiver comes once, also where it has more in another state', async () => {
    const bench = await openQueueBench(engine);
    await bench.fill((n) => `host${n % 9}.test`, 36);
    await bench.database.write(async (tx) => {
      await sql`update deliveries set created_at = created_at - (id * 7919) % 1000`.execute(tx);
      await sql`update deliveries set status = 'held' where id % 2 = 0`.execute(tx);
    });
    const all = (await listReceivers(bench.database, {}, { after: undefined, limit: 100 }))
      .receivers;
    assert.equal(all.length, 9);
    assert.deepEqual(
      all.map(({ oldestAt }) => oldestAt),
      all.map(({ oldestAt }) => oldestAt).sort((a, b) => a - b),
    );
    for (const limit of [1, 2, 4]) {
      const seen: unknown[] = [];
      let after: Parameters<typeof listReceivers>[2]['after'];
      do {
        const { receivers, next } = await listReceivers(bench.database, {}, { after, limit });
        seen.push(...receivers);
        after = next;
      } while (after);
      assert.deepEqual(seen, all, `pages of ${limit}`);
    }
  });
});
