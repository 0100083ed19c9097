import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type CompiledQuery, sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { activateDomain, openTenants } from '../../../test/support/tenants.ts';
import type { Database } from '../../platform/database/database.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Domains } from '../domains/domains.ts';
import {
  type EventPage,
  type EventScope,
  Events,
  eventData,
  OLDEST_CURSOR,
  pruneEvents,
  writeEvents,
} from './events.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const DAY_MS = 86_400_000;

onEachEngine('events', (engine) => {
  let database: Database;
  let events: Events;
  let accounts: Accounts;
  let domains: Domains;

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    events = new Events(database);
    ({ domains, accounts } = openTenants(database, { now: () => NOW }));
  });

  const makeDomain = async (userId: string, domain: string, organizationId?: string) =>
    (await activateDomain(domains, userId, domain, organizationId)).id;

  /** Reads when all is readable that was written: open transactions of the other suites' databases hold it up, too. */
  async function readFrom(stream: Events, scope: EventScope, cursor: string, limit: number) {
    for (;;) {
      const page = await stream.read(scope, { field: 'after', cursor }, limit);
      if (!page.isHeld) return page;
      await turn();
    }
  }
  const read = (
    userId: string,
    cursor = OLDEST_CURSOR,
    limit = 100,
    scope: Partial<EventScope> = {},
  ) => readFrom(events, { userId, organizationId: undefined, ...scope }, cursor, limit);
  const typesOf = (page: EventPage) => page.events.map(({ type }) => type);
  const note = (domainId: number, detail: string, at = NOW) =>
    database.write((tx) =>
      writeEvents(tx, [{ type: 'delivery.failed', domainId, data: { detail } }], at),
    );

  test('are written with what they tell, and belong to the owner', async () => {
    const start = await events.now();
    await makeDomain('ann', 'ann.test', 'org-1');
    const made = { userId: 'ann', domain: 'ann.test', localPart: 'a', password: 'a good password' };
    const { account } = await accounts.create(made);
    await accounts.update('ann', account.id, { status: 'suspended' });
    await accounts.update('ann', account.id, { status: 'suspended' });
    await accounts.update('ann', account.id, { displayName: 'Ann' });
    await accounts.update('ann', account.id, { status: 'active' });
    await assert.rejects(accounts.update('ben', account.id, { status: 'suspended' }));
    await accounts.remove('ann', account.id);
    await accounts.removeDomain('ann', 'ann.test');
    const page = await read('ann', start);
    assert.deepEqual(typesOf(page), [
      'domain.active',
      'account.created',
      'account.suspended',
      'account.resumed',
      'account.deleted',
      'domain.deleted',
    ]);
    assert.deepEqual(page.events[1]?.data, { account_id: account.id, address: 'a@ann.test' });
    assert.equal(page.events[1]?.at, NOW);
    assert.equal(new Set(page.events.map(({ cursor }) => cursor)).size, 6);
    assert.deepEqual((await read('ben', start)).events, []);
    const ofOrganization = (organizationId: string) => read('ann', start, 100, { organizationId });
    assert.equal((await ofOrganization('org-1')).events.length, 6);
    assert.equal((await ofOrganization('org-2')).events.length, 0);
  });

  test('are read page by page, and by their types', async () => {
    const domainId = await makeDomain('pages', 'pages.test');
    for (let n = 0; n < 5; n++) await note(domainId, String(n));
    const seen: unknown[] = [];
    let cursor = OLDEST_CURSOR;
    for (;;) {
      const page = await read('pages', cursor, 2);
      assert.ok(page.events.length <= 2);
      seen.push(...page.events.map(({ data }) => data.detail));
      cursor = page.cursor;
      if (!page.hasMore) break;
    }
    assert.deepEqual(seen.slice(1), ['0', '1', '2', '3', '4']);
    assert.deepEqual((await read('pages', cursor)).events, []);
    const failed = await read('pages', OLDEST_CURSOR, 100, { types: ['domain.active'] });
    assert.deepEqual(typesOf(failed), ['domain.active']);
    // Of a page without a match the cursor has passed what was looked at.
    const none = await read('pages', OLDEST_CURSOR, 100, { types: ['domain.failing'] });
    assert.deepEqual((await read('pages', none.cursor)).events, []);
    await note(domainId, 'next');
    assert.equal((await read('pages', none.cursor)).events[0]?.data.detail, 'next');
  });

  test('are in the order of commits while many write at once: no reader misses one', async () => {
    const domainId = await makeDomain('many', 'many.test');
    const WRITERS = 8;
    const EACH = 25;
    const seen: string[] = [];
    let cursor = OLDEST_CURSOR;
    let isOver = false;
    const reading = (async () => {
      for (;;) {
        const wasOver = isOver;
        const scope = { userId: 'many', organizationId: undefined };
        const page = await events.read(scope, { field: 'after', cursor }, 7);
        seen.push(...page.events.map(({ data }) => String(data.detail)));
        cursor = page.cursor;
        if (wasOver && !page.hasMore && !page.isHeld) return;
        // SQLite answers at once: the writers get their turn here.
        await turn();
      }
    })();
    await Promise.all(
      Array.from({ length: WRITERS }, async (_, writer) => {
        for (let n = 0; n < EACH; n++) {
          await database.write(async (tx) => {
            const data = { detail: `${writer}.${n}` };
            await writeEvents(tx, [{ type: 'delivery.failed', domainId, data }], NOW);
            // Ids are given now; the commit comes after those of others.
            for (let turns = (writer * 7 + n) % 5; turns > 0; turns--) {
              await tx.selectFrom('domains').select('id').limit(1).execute();
            }
          });
        }
      }),
    );
    isOver = true;
    await reading;
    const told = seen.filter((one) => one !== 'undefined').slice(1);
    assert.equal(told.length, WRITERS * EACH);
    assert.equal(new Set(told).size, WRITERS * EACH);
    for (let writer = 0; writer < WRITERS; writer++) {
      const own = told.filter((one) => one.startsWith(`${writer}.`));
      assert.deepEqual(
        own,
        Array.from({ length: EACH }, (_, n) => `${writer}.${n}`),
      );
    }
  });

  test('of a rare type are looked for among so many events at a time', async () => {
    const domainId = await makeDomain('rare', 'rare.test');
    const others = sql`
      with recursive counted (n) as (select 1 union all select n + 1 from counted where n < 9999)
      insert into events (user_id, type, data, created_at)
      select 'rare', 'message.received', '{}', ${NOW} from counted`;
    await database.write((tx) => others.execute(tx));
    await note(domainId, 'found');
    const types = ['delivery.failed'] as const;
    const first = await read('rare', OLDEST_CURSOR, 100, { types });
    assert.deepEqual([first.events, first.hasMore], [[], true]);
    const second = await read('rare', first.cursor, 100, { types });
    assert.deepEqual([second.events[0]?.data.detail, second.hasMore], ['found', false]);
  });

  test('after a place are found by the index, however many come before it', {
    skip: engine === 'postgres',
  }, async () => {
    await makeDomain('plan', 'plan.test');
    const { cursor } = await read('plan');
    const asked: CompiledQuery[] = [];
    const executor = database.read.getExecutor();
    const seen = database.read.withPlugin({
      transformQuery({ node, queryId }) {
        asked.push(executor.compileQuery(node, queryId));
        return node;
      },
      transformResult: async ({ result }) => result,
    });
    const watched = new Events(Object.create(database, { read: { value: seen } }));
    const types = ['domain.failing'] as const;
    await readFrom(watched, { userId: 'plan', organizationId: undefined, types }, cursor, 100);
    const plans: string[] = [];
    for (const query of asked.filter((one) => one.sql.includes('user_id'))) {
      const explained = { ...query, sql: `explain query plan ${query.sql}` };
      const { rows } = await database.read.executeQuery<{ detail: string }>(explained);
      plans.push(...rows.map(({ detail }) => detail));
    }
    assert.equal(plans.length, 2);
    for (const plan of plans) {
      assert.equal(plan, 'SEARCH events USING INDEX events_by_user (user_id=? AND xid=? AND id>?)');
    }
  });

  // SQLite has one writer: none begins while another one is under way.
  test('are told after what had been committed when they were written', {
    skip: engine === 'sqlite',
  }, async () => {
    const domainId = await makeDomain('waits', 'waits.test');
    await database.write(async (tx) => {
      // As who waits for a lock: the transaction has its number by now.
      await tx
        .updateTable('domains')
        .set({ organization_id: 'org' })
        .where('id', '=', domainId)
        .execute();
      await note(domainId, 'held the lock');
      const data = { detail: 'waited' };
      await writeEvents(tx, [{ type: 'delivery.failed', domainId, data }], NOW);
    });
    await note(domainId, 'came later');
    const { events: told } = await read('waits');
    assert.deepEqual(
      told.slice(-3).map(({ data }) => data.detail),
      ['held the lock', 'waited', 'came later'],
    );
  });

  test('wake nobody where they are rolled back', async () => {
    const domainId = await makeDomain('quiet', 'quiet.test');
    const told: string[] = [];
    const end = database.notices.listen((userId) => told.push(userId));
    const failing = database.write(async (tx) => {
      await writeEvents(tx, [{ type: 'delivery.failed', domainId, data: {} }], NOW);
      throw new Error('rolled back');
    });
    await assert.rejects(failing, /rolled back/);
    assert.deepEqual(told, []);
    await note(domainId, 'kept');
    end();
    assert.deepEqual(told, ['quiet']);
    assert.equal((await read('quiet')).events.at(-1)?.data.detail, 'kept');
  });

  test('that are not kept any more, or were lost, are said to be missing', async () => {
    const domainId = await makeDomain('old', 'old.test');
    await note(domainId, 'old', NOW - 8 * DAY_MS);
    const { cursor } = await read('old');
    const { events: before } = await read('old', OLDEST_CURSOR);
    await note(domainId, 'new');
    const last = before.at(-1)?.cursor ?? '';
    assert.equal((await read('old', last)).events[0]?.data.detail, 'new');
    while ((await database.write((tx) => pruneEvents(tx, NOW - 7 * DAY_MS))) > 0);
    const expired = { code: 'cursor_expired', oldest: OLDEST_CURSOR };
    // Pruning begins with the lowest ids, and stops at the first that is young enough.
    await database.write((tx) => tx.deleteFrom('events').where('created_at', '<', NOW).execute());
    await assert.rejects(read('old', last), expired);
    assert.deepEqual(typesOf(await read('old')), ['domain.active', 'delivery.failed']);
    // A cursor of a time that a restore has undone.
    const { cursor: future } = await read('old');
    await database.write((tx) =>
      tx
        .updateTable('events')
        .set({ created_at: NOW + 1 })
        .where('user_id', '=', 'old')
        .execute(),
    );
    await assert.rejects(read('old', future), expired);
    assert.notEqual(cursor, future);
    for (const forged of [
      '',
      'x',
      '1',
      '-1',
      '0-0-0',
      '1-0',
      `${last}0000000`,
      'a b-c',
      `0${last}`,
    ]) {
      await assert.rejects(read('old', forged), {
        code: 'invalid_request',
        errors: [
          {
            field: 'after',
            message: 'must be the cursor of an event or of an answer, or 0 for the oldest',
          },
        ],
      });
    }
  });

  test('are pruned but for the newest, so that a quiet user has a cursor that is valid', async () => {
    const domainId = await makeDomain('last', 'last.test');
    await note(domainId, 'the newest of all', NOW - 30 * DAY_MS);
    const { cursor } = await read('last');
    while ((await database.write((tx) => pruneEvents(tx, NOW + DAY_MS))) > 0);
    assert.deepEqual((await read('last', cursor)).events, []);
    const rows = await database.read.selectFrom('events').select('id').execute();
    assert.equal(rows.length, 1);
  });

  if (engine === 'postgres') {
    test('of another server come first, by their ids', async () => {
      const domainId = await makeDomain('moved', 'moved.test');
      await note(domainId, 'before');
      await database.write((tx) =>
        tx
          .updateTable('events')
          .set({ xid: 2 ** 50 })
          .execute(),
      );
      const restored = new Events(database);
      const start = await restored.now();
      await note(domainId, 'after');
      const scope = { userId: 'moved', organizationId: undefined };
      const all = await readFrom(restored, scope, OLDEST_CURSOR, 10);
      assert.deepEqual(
        all.events.map(({ data }) => data.detail),
        ['every record is verified or waived', 'before', 'after'],
      );
      const later = await readFrom(restored, scope, start, 10);
      assert.deepEqual(
        later.events.map(({ data }) => data.detail),
        ['after'],
      );
    });

    test('of another server that replaced this one under a running process come first', async () => {
      const domainId = await makeDomain('replaced', 'replaced.test');
      await note(domainId, 'before');
      const { cursor } = await read('replaced');
      await database.write((tx) =>
        tx
          .updateTable('events')
          .set({ xid: 2 ** 50 })
          .execute(),
      );
      const { id, created_at } = await database.read
        .selectFrom('events')
        .select(['id', 'created_at'])
        .orderBy('id', 'desc')
        .limit(1)
        .executeTakeFirstOrThrow();
      await note(domainId, 'after');
      // Whose cursor names an event of before is told so, and not that nothing happened since.
      const old = [id, 2 ** 50, created_at].map((part) => part.toString(36)).join('-');
      await assert.rejects(read('replaced', old), { code: 'cursor_expired' });
      await assert.rejects(read('replaced', cursor), { code: 'cursor_expired' });
      assert.deepEqual(
        (await read('replaced')).events.map(({ data }) => data.detail),
        ['every record is verified or waived', 'before', 'after'],
      );
    });
  }

  test('stay below 1 KB, whatever a stranger writes', () => {
    const hostile = '\u0000😀"\\'.repeat(2_000);
    const data = {
      address: `${'a'.repeat(64)}@${'b'.repeat(185)}.test`,
      mail_id: '0b0c9e3e-6d0e-4c84-9d5b-5a3f6f4f2f0a',
      from: hostile,
      subject: hostile,
      message_id: hostile,
      detail: hostile,
      size: Number.MAX_SAFE_INTEGER,
    };
    const text = eventData(data);
    assert.ok(Buffer.byteLength(text) < 1_024, `${Buffer.byteLength(text)}`);
    const { from, address } = JSON.parse(text);
    assert.equal(from, undefined, 'half an address is none');
    assert.equal(address, data.address);
  });
});
