import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import {
  isDatabaseAway,
  isOfStatement,
  isStorageFull,
  isUnavailable,
  lockDirectory,
  openPostgres,
  openPostgresToRead,
  PreparedQuery,
  refusalOfFailure,
  settingStore,
} from './database.ts';
import { isLostConnection, noteOfPostgres } from './failures.ts';

onEachEngine('database', (engine) => {
  test('a lost prepared statement is prepared again, or the query is sent as text', async (t) => {
    if (engine === 'sqlite') return t.skip('SQLite keeps what is prepared');
    const { location } = await openTestDatabase(engine);
    const database = await openPostgres({ url: location, poolSize: 1 });
    t.after(() => database.close());
    const find = new PreparedQuery(({ name }: { name: string }) =>
      database.read.selectFrom('counters').selectAll().where('name', '=', name),
    );
    const write = () =>
      database.write(async (tx) => {
        await tx.updateTable('counters').set({ value: 2 }).execute();
        return find.first(tx, { name: 'n' });
      });
    const prepared = async () => {
      const { rows } = await sql<{ count: number }>`
        select count(*) from pg_prepared_statements where statement like '%counters%'`.execute(
        database.read,
      );
      return rows[0]?.count;
    };
    await database.write((tx) =>
      tx.insertInto('counters').values({ name: 'n', value: 1 }).execute(),
    );
    assert.deepEqual(await find.first(database.read, { name: 'n' }), { name: 'n', value: 1 });
    assert.equal(await prepared(), 1);

    // A newer release does this while this one still runs.
    await sql`alter table counters add column more bigint`.execute(database.read);
    const row = { name: 'n', value: 2, more: null };
    assert.deepEqual(await write(), row);
    assert.deepEqual(await find.first(database.read, { name: 'n' }), row);
    assert.deepEqual(await database.snapshot((tx) => find.first(tx, { name: 'n' })), row);
    assert.equal(await prepared(), 1);

    // PgBouncer does this when it gives another connection to the server.
    await sql`deallocate all`.execute(database.read);
    assert.deepEqual(await write(), row);
    assert.deepEqual(await find.first(database.read, { name: 'n' }), row);
    assert.equal(await prepared(), 0);
  });

  test('a write that lost its prepared statement fails as it does without one, and is not made again', async (t) => {
    if (engine === 'sqlite') return t.skip('SQLite keeps what is prepared');
    const { location } = await openTestDatabase(engine);
    const database = await openPostgres({ url: location, poolSize: 1 });
    t.after(() => database.close());
    await sql`create sequence attempts`.execute(database.read);
    const attempt = new PreparedQuery<{ seconds: number }, { number: number }>(
      (value) => sql<{ number: number }>`
        with attempt as materialized (select nextval('attempts') as number)
        select number from attempt, pg_sleep(${value.seconds}::float8)`,
    );
    const { atOnce } = database;
    assert.ok(atOnce);
    assert.deepEqual(await attempt.all(atOnce, { seconds: 0 }), [{ number: 1 }]);
    await sql`deallocate all`.execute(database.read);
    // Of this one alone: all others may take what a busy machine takes.
    await sql`set statement_timeout = 300`.execute(database.read);
    await assert.rejects(attempt.all(atOnce, { seconds: 1 }), { code: '57014' });
    await sql`set statement_timeout = 0`.execute(database.read);
    assert.deepEqual(await attempt.all(atOnce, { seconds: 0 }), [{ number: 3 }]);
  });

  test('reads of one turn are answered each for itself', async (t) => {
    if (engine === 'sqlite') return t.skip('SQLite has a suite of its own for these');
    const { database } = await openTestDatabase(engine);
    const ratio = new PreparedQuery<{ n: number }, { ratio: number }>(
      (value) => sql<{ ratio: number }>`select 100 / ${value.n}::bigint as ratio`,
    );
    const asked = Array.from({ length: 40 }, (_, n) => ratio.first(database.read, { n: n % 10 }));
    const answers = await Promise.allSettled(asked);
    for (const [at, answer] of answers.entries()) {
      const n = at % 10;
      if (n === 0) assert.equal(answer.status === 'rejected' && answer.reason.code, '22012');
      else assert.deepEqual(answer, { status: 'fulfilled', value: { ratio: Math.trunc(100 / n) } });
    }
  });

  /** Reads on one connection, which does not wait long for a lock; for all else it may take what a busy machine takes. */
  async function openReader(t: TestContext, location: string) {
    const reader = await openPostgres({ url: location, poolSize: 1 });
    t.after(() => reader.close());
    await sql`set lock_timeout = 200`.execute(reader.read);
    const find = new PreparedQuery(({ name }: { name: string }) =>
      reader.read.selectFrom('counters').selectAll().where('name', '=', name),
    );
    return { reader, find };
  }

  test('a read that could not be prepared takes no prepared queries from others', async (t) => {
    if (engine === 'sqlite') return t.skip('SQLite keeps what is prepared');
    const { database, location } = await openTestDatabase(engine);
    const { reader, find } = await openReader(t, location);
    const together = () =>
      Promise.allSettled(['a', 'b', 'c'].map((name) => find.first(reader.read, { name })));
    await database.write(async (tx) => {
      await sql`lock table counters in access exclusive mode`.execute(tx);
      for (const answer of await together()) {
        assert.ok(answer.status === 'rejected' && isUnavailable(answer.reason), String(answer));
      }
    });
    assert.deepEqual(await together(), Array(3).fill({ status: 'fulfilled', value: undefined }));
    const { rows } = await sql`
      select 1 from pg_prepared_statements where statement like '%counters%'`.execute(reader.read);
    assert.equal(rows.length, 1);
  });

  test('reads behind one that waited in vain for a lock fail with it', async (t) => {
    if (engine === 'sqlite') return t.skip('SQLite has no locks of tables');
    const { database, location } = await openTestDatabase(engine);
    const { reader, find } = await openReader(t, location);
    await database.write(async (tx) => {
      await sql`lock table counters in access exclusive mode`.execute(tx);
      const [first, ...others] = ['a', 'b', 'c'].map((name) =>
        find.first(reader.read, { name }).catch((error: unknown) => error),
      );
      const error = await first;
      assert.ok(isUnavailable(error), String(error));
      for (const other of others) assert.equal(await Promise.race([other, turn('waits')]), error);
    });
  });

  test('what takes long is not cut by deadlines that the server has of its own', async (t) => {
    if (engine === 'sqlite') return t.skip('SQLite has no server');
    const { database, location } = await openTestDatabase(engine);
    const name = new URL(location).pathname.slice(1);
    // Of those that this server knows: transaction_timeout came with PostgreSQL 17.
    const { rows: known } = await sql<{ deadline: string }>`select name as deadline from pg_settings
      where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`.execute(
      database.read,
    );
    for (const { deadline } of known) {
      const limit = sql`alter database ${sql.id(name)} set ${sql.id(deadline)} = '1s'`;
      await limit.execute(database.read);
    }
    // As a move: each statement has a deadline, and the transaction none.
    const mover = await openPostgres({ url: location, poolSize: 1 });
    t.after(() => mover.close());
    await mover.write(async (tx) => {
      for (let statement = 0; statement < 5; statement++) {
        await sql`select pg_sleep(0.3)`.execute(tx);
      }
    });
    await using reader = openPostgresToRead([location]);
    const counted = await reader.snapshot(async (tx) => {
      await tx.selectFrom('counters').selectAll().execute();
      await sleep(1_500);
      await sql`select pg_sleep(1.5)`.execute(tx);
      return tx.selectFrom('counters').selectAll().execute();
    });
    assert.deepEqual(counted, []);
  });

  test('writes at the same time share only the commit', async () => {
    const { database } = await openTestDatabase(engine);
    const results = await Promise.allSettled(
      [1, 2, 3].map((n) =>
        database.write(async (tx) => {
          await tx
            .insertInto('counters')
            .values({ name: `n${n}`, value: n })
            .execute();
          if (n === 2) throw new Error('the second one fails');
          return n;
        }),
      ),
    );
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    const rows = await database.read
      .selectFrom('counters')
      .select('name')
      .orderBy('name')
      .execute();
    assert.deepEqual(
      rows.map(({ name }) => name),
      ['n1', 'n3'],
    );
  });

  test('a failed statement undoes only its own write', async () => {
    const { database } = await openTestDatabase(engine);
    const insert = () =>
      database.write((tx) =>
        tx.insertInto('counters').values({ name: 'same', value: 1 }).execute(),
      );
    const results = await Promise.allSettled([insert(), insert(), insert()]);
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
  });

  test('a thousand writes at once all succeed', async () => {
    const { database } = await openTestDatabase(engine);
    await database.write((tx) =>
      tx.insertInto('counters').values({ name: 'sum', value: 0 }).execute(),
    );
    await Promise.all(
      Array.from({ length: 1000 }, () =>
        database.write((tx) =>
          tx
            .updateTable('counters')
            .set((eb) => ({ value: eb('value', '+', 1) }))
            .where('name', '=', 'sum')
            .execute(),
        ),
      ),
    );
    const { value } = await database.read
      .selectFrom('counters')
      .select('value')
      .where('name', '=', 'sum')
      .executeTakeFirstOrThrow();
    assert.equal(value, 1000);
  });

  test('integers beyond 32 bits and bytes come back as they were', async () => {
    const { database } = await openTestDatabase(engine);
    const content = Buffer.from([0, 1, 127, 128, 255]);
    await database.write(async (tx) => {
      await tx
        .insertInto('bodies')
        .values({ size: 2 ** 45 + 1, content, file: null })
        .execute();
    });
    const row = await database.read.selectFrom('bodies').selectAll().executeTakeFirstOrThrow();
    assert.equal(row.size, 2 ** 45 + 1);
    assert.deepEqual(Buffer.from(row.content ?? []), content);
  });

  test('an id is never given twice', async () => {
    const { database } = await openTestDatabase(engine);
    const insert = () =>
      database.write((tx) =>
        tx
          .insertInto('bodies')
          .values({ size: 0, content: null, file: null })
          .returning('id')
          .executeTakeFirstOrThrow(),
      );
    const first = await insert();
    await database.write((tx) => tx.deleteFrom('bodies').execute());
    const second = await insert();
    assert.ok(second.id > first.id);
  });
});

test('a snapshot does not see what is committed meanwhile', async () => {
  const { database } = await openTestDatabase('sqlite');
  await database.snapshot(async (queries) => {
    const before = await queries.selectFrom('counters').selectAll().execute();
    await database.write((tx) =>
      tx.insertInto('counters').values({ name: 'late', value: 1 }).execute(),
    );
    assert.deepEqual(await queries.selectFrom('counters').selectAll().execute(), before);
  });
  assert.equal((await database.read.selectFrom('counters').selectAll().execute()).length, 1);
});

test('only one process at a time can use a data folder', async () => {
  const { directory } = await openTestDatabase('sqlite');
  const release = lockDirectory(directory);
  assert.ok(release);
  assert.equal(lockDirectory(directory), undefined);
  release();
  const again = lockDirectory(directory);
  assert.ok(again);
  again();
});

onEachEngine('setting store', (engine) => {
  test('keeps the text of the first of many writers', async () => {
    const { database } = await openTestDatabase(engine);
    const store = settingStore(database, 'secrets');
    assert.equal(await store.read(), undefined);
    const answers = await Promise.all(['a', 'b', 'c'].map((text) => store.create(text)));
    assert.equal(new Set(answers).size, 1);
    assert.equal(await store.read(), answers[0]);
  });
});

test('of errors that look the same, only one of PostgreSQL says that it is away', () => {
  const away = (code: string, isOfPostgres: boolean) => {
    const error = Object.assign(new Error('x'), { code });
    if (isOfPostgres) noteOfPostgres(error);
    return isDatabaseAway(error);
  };
  for (const code of ['ECONNRESET', 'ENOTFOUND', '57P01']) assert.ok(away(code, true), code);
  // Of Redis, a bucket or a mail server.
  assert.ok(!away('ECONNRESET', false));
  for (const code of ['EMFILE', '40001', '42P01']) assert.ok(!away(code, true), code);
});

test('a full SQLite database is recognized', () => {
  const db = new DatabaseSync(':memory:');
  db.exec('create table bodies (content blob); pragma max_page_count = 2');
  assert.throws(
    () => db.prepare('insert into bodies values (?)').run(Buffer.alloc(60_000)),
    (error) => isStorageFull(error) && !isUnavailable(error),
  );
  db.close();
  assert.ok(isStorageFull(Object.assign(new Error('write'), { code: 'ENOSPC' })));
  assert.ok(isStorageFull(Object.assign(new Error('PostgreSQL'), { code: '53100' })));
  assert.ok(!isStorageFull(new Error('anything else')));
});

test('a database that cannot be reached, or a file that cannot be opened for now, is distinguished from one that refuses', () => {
  const socket = ['ECONNREFUSED', 'ECONNRESET', 'EMFILE'];
  const server = ['08006', '25006', '28P01', '40001', '40P01', '53300', '55000', '55P03', '57014'];
  for (const code of [...socket, ...server, '57P01', '57P03', '58030', 'POSTROOM_NO_ANSWER']) {
    const error = Object.assign(new Error('x'), { code });
    assert.ok(isUnavailable(error), code);
    assert.equal(refusalOfFailure(error)?.code, 'unavailable');
  }
  // SQLITE_BUSY_SNAPSHOT, SQLITE_READONLY_DBMOVED, SQLITE_IOERR_READ, SQLITE_CANTOPEN; SQLITE_IOERR_SHMSIZE, SQLITE_ERROR.
  const codeOf = (errcode: number) =>
    refusalOfFailure(Object.assign(new Error('x'), { code: 'ERR_SQLITE_ERROR', errcode }))?.code;
  for (const errcode of [517, 1032, 266, 14]) assert.equal(codeOf(errcode), 'unavailable');
  assert.deepEqual([codeOf(4874), codeOf(1)], ['storage_full', undefined]);
  for (const [code, isOne] of [
    ['42P07', true],
    ['28P01', false],
    ['EPIPE', false],
  ] as const) {
    assert.equal(isOfStatement(Object.assign(new Error('x'), { code })), isOne, code);
  }
  const full = Object.assign(new Error('no space'), { code: '53100' });
  assert.equal(refusalOfFailure(full)?.code, 'storage_full');
  assert.equal(refusalOfFailure(new Error('a bug')), undefined);
  assert.ok(isUnavailable(new Error('Connection terminated unexpectedly')));
  const ended = (code: string) => Object.assign(new Error('the server ended it'), { code });
  // A duplicate key, and a statement that needs larger files than it may have: the same happens the next time.
  for (const code of ['23505', '53400']) assert.ok(!isUnavailable(ended(code)), code);
  for (const code of ['25P03', '25P04', '57P05']) assert.ok(isLostConnection(ended(code)), code);
});
