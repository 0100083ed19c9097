import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import type { Queries } from '../engine.ts';
import { kyselyOn } from './driver.ts';
import { GroupCommit } from './group-commit.ts';

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

/** A child whose parent need not be there before the commit. */
const addChild = (id: number, parent: number) => async (tx: Queries) => {
  await sql`insert into children values (${id}, ${parent})`.execute(tx);
};

function children(): unknown[] {
  const rows = db.prepare('select id from children order by id').all();
  return rows.map(({ id }) => id);
}

test('a commit that fails takes its whole group with it, and the next one works', async () => {
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

test('a lone write whose commit fails leaves nothing, and the next one works', async () => {
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

test('a write that throws takes nothing of the others with it', async () => {
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

test('what runs beside a write that throws runs once, and sees nothing of it', async () => {
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

test('the log is synced where rows were written, and only there', async () => {
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
