import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, afterEach, beforeEach, describe, mock, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { openSqlite, PreparedQuery, type Queries } from '../database.ts';
import { kyselyOn } from './driver.ts';
import { GroupCommit, ReadTurns } from './group-commit.ts';

const folder = mkdtempSync(join(tmpdir(), 'postroom-turns-'));
after(() => rmSync(folder, { recursive: true }));
let files = 0;
const newPath = () => join(folder, `${++files}.sqlite`);

const add = (name: string) => (tx: Queries) =>
  tx.insertInto('counters').values({ name, value: 1 }).execute();

async function namesIn(queries: Queries): Promise<string> {
  const rows = await queries.selectFrom('counters').select('name').orderBy('name').execute();
  return rows.map(({ name }) => name).join();
}

describe('reads of one turn', () => {
  let writer: DatabaseSync;
  let reader: DatabaseSync;
  let readers: ReadTurns;
  let read: Queries;
  let groups: GroupCommit;
  /** Settled by the test: the disk is as slow as it likes. */
  let synced: PromiseWithResolvers<void>;
  let underWay: Promise<void> | undefined;
  let beforeBegin: () => Promise<void>;

  beforeEach(async () => {
    const path = newPath();
    await (await openSqlite({ path })).close();
    mock.timers.enable({ apis: ['setTimeout'] });
    writer = new DatabaseSync(path);
    writer.exec("delete from counters; insert into counters values ('old', 1)");
    reader = new DatabaseSync(path, { readOnly: true });
    underWay = undefined;
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
    readers = new ReadTurns(reader, log);
    read = readers.queries;
    beforeBegin = async () => {};
    groups = new GroupCommit(writer, {
      queries: kyselyOn(writer),
      log,
      readers,
      checkpoints: { beforeCommit: () => beforeBegin() },
    });
  });

  afterEach(() => {
    readers.close();
    writer.close();
    mock.timers.reset();
  });

  async function untilCommitted(): Promise<void> {
    while (!underWay) await turn();
  }

  test('see one state, and those of the next turn the newest', async () => {
    assert.equal(await namesIn(read), 'old');
    writer.exec("insert into counters values ('new', 1)");
    await turn();
    mock.timers.tick(9);
    assert.equal(await namesIn(read), 'old');
    mock.timers.tick(1);
    assert.equal(reader.isTransaction, false);
    assert.equal(await namesIn(read), 'new,old');
  });

  for (const hasRead of [false, true]) {
    test(`wait for no commit and see none before it is on the disk, ${hasRead ? 'with' : 'without'} a read before it`, async () => {
      const written = groups.write(async (tx) => {
        await add('new')(tx);
        if (hasRead) assert.equal(await namesIn(read), 'old');
      });
      await untilCommitted();
      const answeredBy = async () => {
        const select = read.selectFrom('counters').select('name');
        const query = new PreparedQuery(() => select);
        const found = (await query.all(read, {})).map(({ name }) => name);
        return [...found, await namesIn(read)].join();
      };
      // Over many turns: the state is held as long as the sync takes.
      for (let turns = 0; turns < 20; turns++) {
        assert.equal(await answeredBy(), 'old,old');
        await turn();
      }
      assert.notEqual(underWay, undefined);
      let seen: Promise<string> | undefined;
      const answered = written.then(() => {
        seen = namesIn(read);
      });
      synced.resolve();
      await answered;
      assert.equal(await seen, 'new,old', 'who wrote reads what he wrote');
      mock.timers.tick(10);
      assert.equal(reader.isTransaction, false);
    });
  }

  test('wait for the sync where an error of the disk has ended the held transaction', async () => {
    const written = groups.write(add('new'));
    await untilCommitted();
    reader.exec('rollback');
    let isRead = false;
    const late = [namesIn(read), namesIn(read)].map((names) =>
      names.finally(() => {
        isRead = true;
      }),
    );
    for (let turns = 0; turns < 20; turns++) await turn();
    assert.equal(isRead, false);
    synced.resolve();
    assert.deepEqual(await Promise.all(late), ['new,old', 'new,old']);
    await written;
  });

  test('fail after a sync has failed, and before that see nothing of its commit', async () => {
    const written = groups.write(add('new'));
    await untilCommitted();
    assert.equal(await namesIn(read), 'old');
    synced.reject(new Error('EIO'));
    await assert.rejects(written, /EIO/);
    await assert.rejects(namesIn(read), /EIO/);
  });

  test('do not keep the log from starting again where they began before its checkpoint', async () => {
    const length = () => writer.prepare('pragma wal_checkpoint(noop)').get()?.log;
    beforeBegin = async () => {
      assert.notEqual(await namesIn(read), '');
      writer.exec('pragma wal_checkpoint(passive)');
    };
    const lengths: unknown[] = [];
    for (const name of ['a', 'b', 'c']) {
      const written = groups.write(add(name));
      await untilCommitted();
      lengths.push(length());
      synced.resolve();
      await written;
    }
    assert.equal(new Set(lengths).size, 1, lengths.join());
  });

  test('see the state before a write that could not be committed', async () => {
    writer.exec('pragma max_page_count = 1');
    const large = (tx: Queries) => add('x'.repeat(1_000_000))(tx);
    await assert.rejects(groups.write(large), /full/);
    assert.equal(await namesIn(read), 'old');
    assert.equal(writer.isTransaction, false);
  });
});

test('the close ends the turn of the last read', async () => {
  const path = newPath();
  const database = await openSqlite({ path });
  const query = new PreparedQuery(() => database.read.selectFrom('counters').select('name'));
  const last = query.all(database.read, {});
  await database.close();
  assert.deepEqual(await last, []);
  assert.equal(statSync(`${path}-wal`, { throwIfNoEntry: false }), undefined);
  const other = new DatabaseSync(path, { timeout: 0 });
  other.exec('begin exclusive');
  other.close();
  await turn();
});
