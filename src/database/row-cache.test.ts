import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../test/support/databases.ts';
import { type Database, type Queries, RowCache } from './database.ts';
import { whatIsWritten } from './table-versions.ts';

async function addAccount(database: Database): Promise<{ domainId: number; accountId: number }> {
  return database.write(async (tx) => {
    const domain = await tx
      .insertInto('domains')
      .values({
        user_id: 'u',
        name: 'acme.test',
        status: 'active',
        dkim_selector: 's',
        dkim_private_key: 'k',
        created_at: 1,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    const account = await tx
      .insertInto('accounts')
      .values({
        domain_id: domain.id,
        user_id: 'u',
        domain_name: 'acme.test',
        local_part: 'ann',
        display_name: 'Ann',
        status: 'active',
        password_hash: 'h',
        credential_version: 1,
        created_at: 1,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    return { domainId: domain.id, accountId: account.id };
  });
}

onEachEngine('a row cache', (engine) => {
  async function open() {
    const { database } = await openTestDatabase(engine);
    const ids = await addAccount(database);
    const cache = new RowCache<number, string>(database, ['accounts'], { max: 2 });
    let reads = 0;
    const name = () =>
      cache.get(ids.accountId, async () => {
        reads++;
        const row = await database.read
          .selectFrom('accounts')
          .select('display_name')
          .where('id', '=', ids.accountId)
          .executeTakeFirst();
        return row?.display_name;
      });
    const rename = (tx: Queries, to: string) =>
      tx
        .updateTable('accounts')
        .set({ display_name: to })
        .where('id', '=', ids.accountId)
        .execute();
    return { ...ids, database, cache, name, rename, reads: () => reads };
  }

  test('reads once while nothing is written, and never gives what was', async () => {
    const { database, name, rename, reads } = await open();
    assert.equal(await name(), 'Ann');
    assert.equal(await name(), 'Ann');
    assert.equal(reads(), engine === 'sqlite' ? 1 : 2);
    await database.write((tx) => rename(tx, 'Bea'));
    assert.equal(await name(), 'Bea');
    // Other tables are no reason to read again.
    const before = reads();
    await database.write((tx) =>
      tx.insertInto('counters').values({ name: 'x', value: 1 }).execute(),
    );
    await name();
    assert.equal(reads(), engine === 'sqlite' ? before : before + 1);
  });

  test('sees a write while it is under way as everybody else does: not at all', async () => {
    const { database, name, rename } = await open();
    await database.write(async (tx) => {
      await rename(tx, 'Bea');
      if (engine === 'sqlite') assert.equal(await name(), 'Ann');
    });
    assert.equal(await name(), 'Bea');
  });

  test('does not take what was rolled back for written', async () => {
    const { database, name, rename } = await open();
    const failed = database.write(async (tx) => {
      await rename(tx, 'Bea');
      throw new Error('no');
    });
    await assert.rejects(failed, /no/);
    assert.equal(await name(), 'Ann');
    await database.write((tx) => rename(tx, 'Cee'));
    assert.equal(await name(), 'Cee');
  });

  test('hears of rows that go with their parents, and of statements in plain SQL', async () => {
    const { database, domainId, name } = await open();
    await name();
    await database.write((tx) => sql`update accounts set display_name = 'Dee'`.execute(tx));
    assert.equal(await name(), 'Dee');
    await database.write((tx) => sql`/* */ update accounts set display_name = 'Eve'`.execute(tx));
    assert.equal(await name(), 'Eve');
    await database.write((tx) => tx.deleteFrom('domains').where('id', '=', domainId).execute());
    assert.equal(await name(), undefined);
  });

  test('keeps what no update changes for as long as the row is there', async () => {
    const { database, accountId, domainId, rename } = await open();
    const options = { max: 2, of: 'fixed columns' } as const;
    const cache = new RowCache<number, number>(database, ['accounts'], options);
    let reads = 0;
    const domainOf = () =>
      cache.get(accountId, async () => {
        reads++;
        const query = database.read.selectFrom('accounts').select('domain_id');
        return (await query.where('id', '=', accountId).executeTakeFirst())?.domain_id;
      });
    assert.equal(await domainOf(), domainId);
    await database.write((tx) => rename(tx, 'Bea'));
    assert.equal(await domainOf(), domainId);
    assert.equal(reads, engine === 'sqlite' ? 1 : 2);
    await database.write((tx) => tx.deleteFrom('domains').where('id', '=', domainId).execute());
    assert.equal(await domainOf(), undefined);
  });

  test('keeps no more than it is told to', async () => {
    const { cache } = await open();
    let reads = 0;
    const get = (key: number) => cache.get(key, async () => `value ${++reads}`);
    for (const key of [1, 2, 3]) await get(key);
    await get(3);
    assert.equal(reads, engine === 'sqlite' ? 3 : 4);
    await get(1);
    assert.equal(reads, engine === 'sqlite' ? 4 : 5);
  });
});

test('what a statement writes is read off its text, and any doubt counts as everything', () => {
  assert.deepEqual(whatIsWritten('select 1'), { kind: 'nothing' });
  assert.deepEqual(whatIsWritten('insert into "accounts" ("id") values (?)'), {
    kind: 'table',
    table: 'accounts',
    verb: 'insert',
  });
  assert.deepEqual(whatIsWritten('DELETE FROM domains'), {
    kind: 'table',
    table: 'domains',
    verb: 'delete',
  });
  assert.deepEqual(whatIsWritten('update "mailboxes" set "uidnext" = ?'), {
    kind: 'table',
    table: 'mailboxes',
    verb: 'update',
  });
  for (const text of [
    'with a as (select 1) delete from b',
    'replace into b values (1)',
    'vacuum',
  ]) {
    assert.deepEqual(whatIsWritten(text), { kind: 'anything' });
  }
});
