import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { type Engine, newestSchema } from '../../platform/database/database.ts';
import { schemaFile } from '../../platform/database/schema-check.ts';
import { ONLY_ON_POSTGRES, planTables } from './tables.ts';

/** The columns of each table of the newest schema, with their types on PostgreSQL. */
async function readGolden(engine: Engine): Promise<Map<string, Map<string, string>>> {
  const version = String(newestSchema(engine)).padStart(4, '0');
  const tables = new Map<string, Map<string, string>>();
  for (const line of (await readFile(schemaFile(engine, version), 'utf8')).split('\n')) {
    const [, table = '', column = '', type = ''] = /^(\w+)\.(\w+): ([a-z]+)/.exec(line) ?? [];
    // A key of several columns has a line of its own.
    if (table === 'dovecot_users' || !/^[a-z]/.test(type) || type === 'key') continue;
    tables.set(table, (tables.get(table) ?? new Map()).set(column, type));
  }
  return tables;
}

test('every table and column of SQLite is one of PostgreSQL, of a type that is moved', async () => {
  const [sqlite, postgres] = [await readGolden('sqlite'), await readGolden('postgres')];
  const moved = [...postgres.keys()].filter((name) => !ONLY_ON_POSTGRES.has(name));
  assert.deepEqual([...sqlite.keys()].toSorted(), moved.toSorted());
  const types: Record<string, string> = { integer: 'bigint', text: 'text', blob: 'bytea' };
  for (const [table, columns] of sqlite) {
    const expected = [...columns].map(([name, type]) => `${name} ${types[type]}`);
    const found = [...(postgres.get(table) ?? [])].map(([name, type]) => `${name} ${type}`);
    assert.deepEqual(found.toSorted(), expected.toSorted(), table);
  }
});

if (process.env.TEST_DATABASE_URL) {
  onEachEngine('the plan of a move', () => {
    test('has each table of PostgreSQL after those that it refers to', async () => {
      const source = await openTestDatabase('sqlite');
      const target = await openTestDatabase('postgres');
      const tables = await planTables(source.database.read, target.database.read);
      const names = tables.map(({ name }) => name);
      const expected = (await readGolden('sqlite')).keys();
      assert.deepEqual(names.toSorted(), [...expected].toSorted());
      const isBefore = (one: string, other: string) => names.indexOf(one) < names.indexOf(other);
      assert.ok(isBefore('bodies', 'messages') && isBefore('deliveries', 'delivery_payloads'));
    });
  });
}
