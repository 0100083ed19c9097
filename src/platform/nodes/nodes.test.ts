import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { pino } from 'pino';
import { atEnd } from '../../../test/support/at-end.ts';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { advisoryLocks, type Database, openPostgres, whileAlone } from '../database/database.ts';
import { Outage } from '../time/time.ts';
import { DatabaseClock } from './clock.ts';
import { lead, renewUntil } from './lead.ts';
import {
  compareClocks,
  joinNodes,
  listRunningNodes,
  type NodeFacts,
  NodeRefused,
  type Nodes,
  type NodesOptions,
} from './nodes.ts';

const facts: NodeFacts = {
  version: '1.2.3',
  hasEvents: true,
  sharesBodies: true,
  settings: { MAIL_HOSTNAME: ['mx.test'], API_KEYS: ['#old', '#new'], JWT_SECRET: ['#one'] },
  lists: ['API_KEYS', 'JWT_SECRET'],
  accepted: ['API_KEYS'],
};

const log = { info: () => {}, warn: () => {} };

async function join(
  database: Database,
  changed: Partial<NodeFacts> = {},
  told: Partial<Pick<NodesOptions, 'log' | 'onLogLevel' | 'onRefused'>> = {},
): Promise<Nodes> {
  const own = { ...facts, ...changed };
  const node = await joinNodes({
    database,
    facts: own,
    log,
    onRefused: (line) => assert.fail(line),
    onLogLevel: () => {},
    ...told,
  });
  atEnd(async () => {
    await node.stopLeading();
    await node.leave();
  });
  return node;
}

/** The sessions that hold the lock of a node. */
const lockers = sql`
  select pid from pg_locks where locktype = 'advisory' and classid = ${sql.lit(advisoryLocks.nodes)} and objsubid = 2
    and database = (select oid from pg_database where datname = current_database())`;

async function countLocks({ read }: Database): Promise<number> {
  return (await lockers.execute(read)).rows.length;
}

/** Ends the sessions that hold a lock, and waits until they are free. */
async function endSessions(database: Database): Promise<void> {
  await sql`select pg_terminate_backend(pid) from (${lockers}) as held`.execute(database.read);
  while ((await countLocks(database)) > 0) await sleep(20);
}

/** Work that records who does it. */
function worker(working: Set<string>, name: string) {
  const begun = Promise.withResolvers<void>();
  const work = async (signal: AbortSignal) => {
    working.add(name);
    begun.resolve();
    if (!signal.aborted) await once(signal, 'abort');
    working.delete(name);
  };
  return { work, begun: begun.promise };
}

onEachEngine('nodes', (engine) => {
  test('a single node does the shared work, at once and until it is stopped', async () => {
    const { database } = await openTestDatabase(engine);
    const node = await join(database);
    assert.equal(node.isAlone, true);
    assert.equal(await node.othersHave('disk'), false);
    // On PostgreSQL others may run beside it.
    assert.equal(node.isSteady, engine === 'sqlite');
    assert.ok(Math.abs(node.now() - Date.now()) < 5_000);
    const working = new Set<string>();
    const { work, begun } = worker(working, 'a');
    node.lead('sweep', work);
    await begun;
    await node.stopLeading();
    assert.equal(working.size, 0);
  });

  if (engine === 'sqlite') return;

  test('a node without Redis need not wait before it takes over what the one before had leased', async () => {
    const { database } = await openTestDatabase(engine);
    const node = await join(database, { hasEvents: false });
    assert.equal(node.isSteady, true);
  });

  test('a node that lacks something knows whether another one that runs has it', async () => {
    const { database } = await openTestDatabase(engine);
    const first = await join(database);
    assert.equal(await first.othersHave('disk'), false);
    const second = await join(database);
    assert.equal(await first.othersHave('disk'), true);
    assert.equal(await second.othersHave('disk'), false);
    assert.equal(await first.othersHave('disk'), false);
    assert.equal(await first.othersHave('other'), true);
    // What the second one noted has run out: it has it again.
    await sql`update leases set until = 0 where owner = ${second.id}`.execute(database.read);
    assert.equal(await first.othersHave('disk'), true);
  });

  test('a change of the log level reaches each other node once', async () => {
    const { database } = await openTestDatabase(engine);
    const told: string[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const first = await join(database, {}, { onLogLevel: (level) => told.push(`first ${level}`) });
    await join(
      database,
      {},
      {
        onLogLevel: (level) => {
          told.push(`second ${level}`);
          resolve();
        },
      },
    );
    await database.write((tx) => first.changeLogLevel(tx, 'debug'));
    await promise;
    const waits = () =>
      database.read.selectFrom('nodes').select('id').where('log_level', 'is not', null).execute();
    while ((await waits()).length > 0) await sleep(50);
    assert.deepEqual(told, ['second debug']);
    // A node that starts later has the level of its settings.
    await join(database, {}, { onLogLevel: (level) => told.push(`third ${level}`) });
    assert.deepEqual(await waits(), []);
  });

  test('a change of the log level replaces an earlier one that still waits', async () => {
    const { database } = await openTestDatabase(engine);
    const [first, second] = [await join(database), await join(database)];
    // In one transaction, so that no heartbeat comes in between.
    const waiting = await database.write(async (tx) => {
      await second.changeLogLevel(tx, 'debug');
      await first.changeLogLevel(tx, 'warn');
      return tx.selectFrom('nodes').select('log_level').orderBy('log_level').execute();
    });
    assert.deepEqual(waiting, [{ log_level: 'warn' }, { log_level: null }]);
  });

  test('nodes with equal settings join at the same time, and one of them is the first', async () => {
    const { database } = await openTestDatabase(engine);
    const nodes = await Promise.all([join(database), join(database), join(database)]);
    assert.equal(nodes.filter(({ isAlone }) => isAlone).length, 1);
  });

  const differences: [string, Partial<NodeFacts>, RegExp][] = [
    [
      'a name',
      { settings: { ...facts.settings, MAIL_HOSTNAME: ['other.test'] } },
      /^MAIL_HOSTNAME: expected "mx\.test" that the node that runs on \S+ \(process \d+\) has, got "other\.test"; to change it, stop all nodes first/,
    ],
    [
      'a secret, which is not shown',
      { settings: { ...facts.settings, JWT_SECRET: ['#two'] } },
      /^JWT_SECRET: expected the first value that the node that runs on \S+ \(process \d+\) has, got another one; to change it, give each node "old,new"/,
    ],
    [
      'events',
      { hasEvents: false },
      /^REDIS_URL: expected one Redis for all nodes that share a database, got nothing here while/,
    ],
    [
      'bodies',
      { sharesBodies: false },
      /^S3_URL: expected one bucket for all nodes that share a database, got nothing while/,
    ],
  ];
  for (const [what, changed, line] of differences) {
    test(`a node that differs in ${what} is refused while another one runs`, async () => {
      const { database } = await openTestDatabase(engine);
      const first = await join(database);
      await assert.rejects(join(database, changed), (error) => {
        assert.ok(error instanceof NodeRefused);
        assert.match(error.message, line);
        assert.ok(!/[#\n]/.test(error.message));
        return true;
      });
      await first.leave();
      assert.equal((await join(database, changed)).isAlone, true);
    });
  }

  test('keys are changed one node after the other where two nodes share one', async () => {
    const { database } = await openTestDatabase(engine);
    await join(database);
    const API_KEYS = ['#new', '#newer'];
    assert.equal(
      (await join(database, { settings: { ...facts.settings, API_KEYS } })).isAlone,
      false,
    );
  });

  test('a key that signs is known to all nodes before any of them signs with it', async () => {
    const { database } = await openTestDatabase(engine);
    const withKeys = (...keys: string[]) => ({ settings: { ...facts.settings, JWT_SECRET: keys } });
    const steps =
      /expected the first value .*; to change it, give each node "old,new" and then each "new,old", or stop/;
    const refused = (...keys: string[]) => assert.rejects(join(database, withKeys(...keys)), steps);
    const [old] = [await join(database, withKeys('#old')), await refused('#new', '#old')];
    const accepting = await join(database, withKeys('#old', '#new'));
    await refused('#new', '#old');
    await old.leave();
    await refused('#new');
    const signing = await join(database, withKeys('#new', '#old'));
    await refused('#old');
    await accepting.leave();
    await refused('#old');
    assert.equal((await join(database, withKeys('#new'))).isAlone, false);
    await signing.leave();
  });

  test('a node whose lock is free was killed, and does not block another one', async () => {
    const { database } = await openTestDatabase(engine);
    const refused = Promise.withResolvers<string>();
    await join(database, { hasEvents: false }, { onRefused: refused.resolve });
    await assert.rejects(
      join(database),
      /^NodeRefused: REDIS_URL: .* on \S+ \(process \d+\): stop that one$/,
    );
    // What the end of its process does to the connection that holds its lock.
    await endSessions(database);
    assert.deepEqual(await listRunningNodes(database), []);
    assert.equal((await join(database)).isAlone, true);
    // Had it lost no more than the connection, it would be told that another one runs.
    assert.match(await refused.promise, /^REDIS_URL: expected one Redis .* got nothing here/);
  });

  test('a node that lost its lock takes it again, and is not taken for a killed one', async () => {
    const { database } = await openTestDatabase(engine);
    await join(database);
    await endSessions(database);
    // With a heartbeat.
    while ((await countLocks(database)) === 0) await sleep(50);
    assert.equal((await listRunningNodes(database)).length, 1);
    await assert.rejects(join(database, { hasEvents: false }), NodeRefused);
  });

  test('the heartbeat alone decides where a row says nothing of a lock, as behind a pooler', async () => {
    const { database } = await openTestDatabase(engine);
    const first = await join(database, { hasEvents: false }, { onRefused: () => {} });
    const row = database.read.updateTable('nodes');
    // As a node of 0.3.0 writes it.
    await row.set({ machine: 'a-boot pid:[1]' }).execute();
    await endSessions(database);
    await assert.rejects(join(database), NodeRefused);
    const silent = row.set(({ eb }) => ({ seen_at: eb('seen_at', '-', 20_000) }));
    await silent.where('id', '=', first.id).execute();
    assert.equal((await join(database)).isAlone, true);
  });

  test('one node at a time does the shared work, and the next continues when it stops or dies', async () => {
    const { database, location } = await openTestDatabase(engine);
    const other = await openPostgres({ url: location, poolSize: 2 });
    atEnd(() => other.close());
    const working = new Set<string>();
    const [a, b] = [await join(database), await join(other)];
    const [ofA, ofB] = [worker(working, 'a'), worker(working, 'b')];
    a.lead('sweep', ofA.work);
    await ofA.begun;
    b.lead('sweep', ofB.work);
    const early = await Promise.race([ofB.begun, new Promise((done) => setTimeout(done, 500, 0))]);
    assert.equal(early, 0, 'two at once');
    await a.stopLeading();
    await ofB.begun;
    assert.deepEqual([...working], ['b']);
    // Nobody renews its lease, as if `b` had died.
    await b.stopLeading();
    await database.read
      .insertInto('leases')
      .values({ name: 'sweep', owner: 'dead', until: b.now() - 1 })
      .execute();
    const c = await join(database);
    const ofC = worker(working, 'c');
    c.lead('sweep', ofC.work);
    await ofC.begun;
  });

  test('a database that does not answer is told once for all shared work', async () => {
    const { database } = await openTestDatabase(engine);
    let isAway = false;
    const failing: Database = {
      ...database,
      write: (work) => (isAway ? Promise.reject(new Error('it is away')) : database.write(work)),
    };
    const told: string[] = [];
    const write = (line: string) => void told.push(JSON.parse(line).msg);
    const node = await join(failing, {}, { log: pino({ level: 'warn' }, { write }) });
    isAway = true;
    for (const name of ['sweep', 'checks', 'hooks']) node.lead(name, async () => assert.fail(name));
    while (told.length === 0) await sleep(10);
    await sleep(50);
    await node.stopLeading();
    isAway = false;
    assert.equal(told.length, 1, told.join('; '));
    assert.match(told[0] ?? '', /^leases cannot be acquired or renewed/);
  });

  test('what one process does alone, another one does not do until it ends or is gone', async () => {
    const { database, location } = await openTestDatabase(engine);
    const done: string[] = [];
    const alone = (name: string) => whileAlone([location], 'bodies', async () => done.push(name));
    await whileAlone([location], 'bodies', async () => {
      assert.equal(await alone('second'), undefined);
    });
    assert.deepEqual(await alone('third'), { made: 1 });
    // The connection ends, as that of a process that is killed.
    const killed = whileAlone([location], 'bodies', async (held) => {
      const locker = sql`select pg_terminate_backend(pid) from pg_locks
        where locktype = 'advisory' and objid = ${sql.lit(advisoryLocks.bodies)}`;
      await locker.execute(database.read);
      while (!(await alone('fourth'))) await sleep(10);
      await sql`select 1`.execute(held);
    });
    await assert.rejects(killed);
    assert.deepEqual(done, ['third', 'fourth']);
  });

  test('a renewal that comes after the end of the work does not take the lease again', async () => {
    const { database } = await openTestDatabase(engine);
    const ended = Promise.withResolvers<void>();
    let writes = 0;
    let renewal: Promise<unknown> | undefined;
    const slow: Database = {
      ...database,
      write(work) {
        if (++writes !== 2) return database.write(work);
        const late = ended.promise.then(() => database.write(work));
        renewal = late;
        return late;
      },
    };
    const stopping = new AbortController();
    const lease = { database: slow, name: 'move', owner: 'one' };
    const work = async () => {
      while (renewal === undefined) await sleep(50);
      stopping.abort();
    };
    await lead(lease, work, stopping.signal, new Outage(() => {}));
    ended.resolve();
    await renewal;
    assert.deepEqual(await database.read.selectFrom('leases').selectAll().execute(), []);
  });

  test('a wrong clock of a machine has no effect, and is logged once', async (context) => {
    const { database } = await openTestDatabase(engine);
    const [start, begun] = [Date.now(), performance.now()];
    const real = () => Math.round(start + performance.now() - begun);
    const clock = new DatabaseClock();
    context.mock.timers.enable({ apis: ['Date'], now: start });
    await clock.measure(database.read);
    assert.ok(Math.abs(clock.now() - real()) < 5_000);
    context.mock.timers.setTime(real() + 20_000);
    assert.match(String(clock.report()), /^the clock of this machine is 20 s ahead of/);
    assert.equal(clock.report(), undefined);
    assert.match(String(await compareClocks(database)), /^the clock of this machine is 20 s ahead/);
    context.mock.timers.setTime(real());
    assert.match(String(clock.report()), /agrees with the database's again$/);
    assert.equal(await compareClocks(database), undefined);
    const node = await join(database);
    context.mock.timers.setTime(real() - 600_000);
    assert.equal(Math.round((node.clockOff?.() ?? 0) / 60_000), -10);
  });
});

test('work ends before the lease does, where the database does not answer', async () => {
  let now = 1_000;
  const times = {
    now: () => now,
    async rest(ms: number) {
      now += ms;
      return undefined;
    },
  };
  const { signal } = new AbortController();
  await renewUntil(() => new Promise(() => {}), signal, now, times);
  // A lease has 20 s, and its work 5 s to end.
  assert.equal(now, 16_000);
});

test('the fastest query decides what the clock of the database shows', async (t) => {
  let monotonic = 0;
  t.mock.method(performance, 'now', () => monotonic);
  const clock = new DatabaseClock();
  let ahead = 1_000_000;
  const off = () => clock.now() - (monotonic + ahead);
  const measure = (ms: number) =>
    clock.measureBy(async () => {
      const then = monotonic + ahead;
      monotonic += ms;
      return then;
    });
  await measure(200);
  assert.equal(off(), -100);
  await measure(10);
  assert.equal(off(), -5);
  await measure(200);
  assert.equal(off(), -5);
  // Where the database's clock was set, a slow query counts as well.
  ahead += 5_000;
  await measure(200);
  assert.equal(off(), -100);
});
