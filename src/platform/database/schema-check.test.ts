import { randomBytes } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Pool } from 'pg';
import type { Engine, Queries } from './database.ts';
import { laterThan, migrationsFor } from './migrate.ts';
import { finish } from './postgres/online.ts';
import type { Schema } from './schema.ts';
import { describeSchema, schemaFile } from './schema-check.ts';
import { kyselyOn } from './sqlite/driver.ts';

/** Compares each version with its golden file; `npm run schema` writes the files instead. */
async function compare(t: TestContext, queries: Queries, engine: Engine): Promise<void> {
  for (const [version, { up }] of Object.entries(migrationsFor(engine))) {
    await queries.transaction().execute((tx) => up(tx));
    const later = laterThan(version);
    if (later && engine === 'postgres') {
      await finish(queries, later, { isEmpty: true, onStep: () => {} });
    }
    const text = await describeSchema(queries, engine);
    t.assert.fileSnapshot(text, fileURLToPath(schemaFile(engine, version)), {
      serializers: [String],
    });
  }
}

test('the schema of each version on SQLite is the one of its file', async (t) => {
  await compare(t, kyselyOn(new DatabaseSync(':memory:')), 'sqlite');
});

const connectionString = process.env.TEST_DATABASE_URL;
const skip = connectionString === undefined && 'TEST_DATABASE_URL is not set';

test('the schema of each version on PostgreSQL is the one of its file', { skip }, async (t) => {
  const name = `golden_${randomBytes(8).toString('hex')}`;
  const pool = new Pool({ connectionString, options: `-c search_path=${name}` });
  const queries = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
  await sql`create schema ${sql.id(name)}`.execute(queries);
  try {
    await compare(t, queries, 'postgres');
  } finally {
    await sql`drop schema ${sql.id(name)} cascade`.execute(queries);
    await queries.destroy();
  }
});
