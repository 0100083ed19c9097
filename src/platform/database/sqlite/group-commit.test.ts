import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { sql } from 'kysely';
import {
  type Database,
  isUnavailable,
  openSqlite,
  PreparedQuery,
  type Queries,
} from '../database.ts';
import { kyselyOn } from './driver.ts';
import { CommitLog, GroupCommit } from './group-commit.ts';

let db: DatabaseSync;
let groups: GroupCommit;
let syncs: number;

beforeEach(() => {
  db = new DatabaseSync(':memory:');
  db.exec(`
    pragma foreign_keys = on;
    create table parents (id integer primary key);
    create table children (
      id integer primary key,
      parent integer not null references parents deferrable initially deferred
    );
    insert into parents values (1)`);
  syncs = 0;
  const sync = async () => {
    syncs++;
  };
  const log = { underWay: undefined, sync };
  groups = new GroupCommit(db, { queries: kyselyOn(db), log });
});

/** A child whose parent may be missing until the commit. */
const addChild = (id: number, parent: number) => async (tx: Queries) => {
  await sql`insert into children values (${id}, ${parent})`.execute(tx);
};

function children(): unknown[] {
  const rows = db.prepare('select id from children order by id').all();
  return rows.map(({ id }) => id);
}

test('a failed commit fails its whole group, and the next one works', async () => {
  const group = await Promise.allSettled([
    groups.write(addChild(1, 1)),
    groups.write(addChild(2, 404)),
  ]);
  assert.deepEqual(
    group.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  assert.equal(db.isTransaction, false);
  await Promise.all([groups.write(addChild(3, 1)), groups.write(addChild(4, 1))]);
  assert.deepEqual(children(), [3, 4]);
});

test('a failed commit of a single write leaves nothing, and the next one works', async () => {
  await assert.rejects(groups.write(addChild(1, 404)), /FOREIGN KEY/);
  assert.equal(db.isTransaction, false);
  await groups.write(addChild(2, 1));
  assert.deepEqual(children(), [2]);
});

test('a group that cannot begin fails, and the next one works', async () => {
  db.exec('begin');
  await assert.rejects(groups.write(addChild(1, 1)), /within a transaction/);
  assert.equal(db.isTransaction, false);
  await groups.write(addChild(2, 1));
  assert.deepEqual(children(), [2]);
});

test('a write that throws does not affect the others', async () => {
  const results = await Promise.allSettled([
    groups.write(addChild(1, 1)),
    groups.write(async (tx) => {
      await addChild(2, 1)(tx);
      throw new Error('not this one');
    }),
    groups.write(addChild(3, 1)),
  ]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.deepEqual(children(), [1, 3]);
});

test('writes beside one that throws run once, and see nothing of it', async () => {
  const seen: unknown[] = [];
  const look = async (tx: Queries) => {
    seen.push(children());
    await addChild(3, 1)(tx);
  };
  await Promise.allSettled([
    groups.write(addChild(1, 1)),
    groups.write(async (tx) => {
      await addChild(2, 1)(tx);
      throw new Error('not this one');
    }),
    groups.write(look),
  ]);
  assert.deepEqual(seen, [[1]]);
  assert.deepEqual(children(), [1, 3]);
});

test('a group of much work lets others have turns between its writes', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const order: string[] = [];
  const work = (name: string) => async () => {
    order.push(name);
    now += 8;
  };
  const beside = async () => {
    while (order.length === 0) await turn();
    order.push('another');
  };
  await Promise.all([
    groups.write(work('a')),
    ...'bcd'.split('').map((name) => groups.write(work(name))),
    beside(),
  ]);
  assert.deepEqual(order, ['a', 'b', 'another', 'c', 'd']);
});

test('the log is synced only if rows were written', async () => {
  await groups.write(addChild(1, 1));
  assert.equal(syncs, 1);
  await groups.write(async (tx) => {
    await sql`update children set parent = 1 where id = 404`.execute(tx);
    await sql`select * from children`.execute(tx);
  });
  assert.equal(syncs, 1);
  await groups.write((tx) => sql`delete from children where id = 1`.execute(tx));
  assert.equal(syncs, 2);
});

const folder = mkdtempSync(join(tmpdir(), 'postroom-log-'));
after(() => rmSync(folder, { recursive: true }));
let files = 0;
const newPath = () => join(folder, `${++files}.sqlite`);

const add = (name: string) => (tx: Queries) =>
  tx.insertInto('counters').values({ name, value: 1 }).execute();

/** The states of promises so far. */
function watch(...promises: Promise<unknown>[]): () => string[] {
  const states = promises.map(() => 'waits');
  for (const [index, promise] of promises.entries()) {
    void promise.then(
      () => {
        states[index] = 'done';
      },
      () => {
        states[index] = 'failed';
      },
    );
  }
  return () => states;
}

describe('a log whose disk is slow', () => {
  let path: string;
  let writer: DatabaseSync;
  let other: DatabaseSync;
  let reader: Queries;
  let groups: GroupCommit;
  let synced: PromiseWithResolvers<void>;
  let underWay: Promise<void> | undefined;

  beforeEach(async () => {
    path = newPath();
    await (await openSqlite({ path })).close();
    writer = new DatabaseSync(path);
    other = new DatabaseSync(path, { readOnly: true });
    const log = {
      get underWay() {
        return underWay;
      },
      sync() {
        synced = Promise.withResolvers();
        underWay = synced.promise.then(() => {
          underWay = undefined;
        });
        return underWay;
      },
    };
    underWay = undefined;
    reader = kyselyOn(other, { enter: () => log.underWay });
    groups = new GroupCommit(writer, { queries: kyselyOn(writer), log });
  });

  afterEach(() => {
    other.close();
    writer.close();
  });

  const count = (queries: Queries) =>
    queries
      .selectFrom('counters')
      .select((eb) => eb.fn.countAll<number>().as('all'))
      .where('name', 'in', ['a', 'b', 'c']);

  async function untilCommitted(): Promise<void> {
    while (!underWay) await turn();
  }

  test('answers neither writers nor readers that found the commit before it is on the disk', async () => {
    const written = [groups.write(add('a')), groups.write(add('b'))];
    await untilCommitted();
    const read = [
      count(reader).executeTakeFirst(),
      new PreparedQuery(() => count(reader)).first(reader, {}),
    ];
    const states = watch(...written, ...read);
    for (let turns = 0; turns < 20; turns++) await turn();
    assert.deepEqual(states(), ['waits', 'waits', 'waits', 'waits']);
    synced.resolve();
    await Promise.all([...written, ...read]);
    assert.deepEqual(await read[0], { all: 2 });
    assert.deepEqual(await read[1], { all: 2 });
  });

  test('collects the writes that come meanwhile for the next commit', async () => {
    const first = groups.write(add('a'));
    await untilCommitted();
    const rest = watch(groups.write(add('b')), groups.write(add('c')));
    for (let turns = 0; turns < 20; turns++) await turn();
    assert.equal(writer.isTransaction, false);
    synced.resolve();
    await first;
    assert.deepEqual(await count(reader).executeTakeFirst(), { all: 1 });
    await untilCommitted();
    synced.resolve();
    await groups.close();
    assert.deepEqual(rest(), ['done', 'done']);
  });

  test('fails for all readers and writers of a commit whose sync failed', async () => {
    const written = groups.write(add('a'));
    await untilCommitted();
    const read = count(reader).executeTakeFirst();
    synced.reject(new Error('EIO'));
    await assert.rejects(written, /EIO/);
    await assert.rejects(read, /EIO/);
    await assert.rejects(groups.write(add('b')), /EIO/);
    assert.equal(writer.isTransaction, false);
  });
});

for (const isAlone of [true, false]) {
  test(`a log that could not be synced stays failed, ${isAlone ? 'alone' : 'with others'}`, async () => {
    const path = newPath();
    const db = new DatabaseSync(path);
    db.exec('pragma journal_mode = wal; create table t (a)');
    const told: Error[] = [];
    const log = new CommitLog(`${path}-wal`, (error) => told.push(error));
    await log.sync(isAlone);
    assert.equal(log.underWay, undefined);
    // The sync fails, since its descriptor is closed.
    await log.close();
    const check = (error: unknown) => {
      assert.ok(error instanceof Error && isUnavailable(error));
      assert.match(error.message, /may not be on the disk/);
      assert.equal((error.cause as NodeJS.ErrnoException).code, 'EBADF');
      return true;
    };
    await assert.rejects(log.sync(isAlone), check);
    assert.ok(log.underWay);
    await assert.rejects(log.underWay, check);
    assert.equal(told.length, 1);
    check(told[0]);
    db.close();
  });
}

describe('an SQLite database', () => {
  let database: Database;
  let syncs = 0;
  const hook = createHook({
    init(_id, type) {
      if (type === 'FSREQCALLBACK') syncs++;
    },
  });

  before(async () => {
    database = await openSqlite({ path: newPath() });
  });
  after(() => database.close());

  test('syncs its log once for all writes of one group', async () => {
    hook.enable();
    try {
      await Promise.all(Array.from({ length: 9 }, (_, n) => database.write(add(`together${n}`))));
    } finally {
      hook.disable();
    }
    assert.equal(syncs, 1);
  });
});
