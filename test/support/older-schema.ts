/** A database as an older version left it. */
import { sql } from 'kysely';
import type { Database } from '../../src/platform/database/database.ts';
import { migrationsFor } from '../../src/platform/database/migrate.ts';

/** Replaces all tables by those of an older version, with some rows. */
export async function beginAs(
  version: string,
  { engine, write }: Database,
  rows: readonly string[],
): Promise<void> {
  const migrations = Object.entries(migrationsFor(engine)).filter(([name]) => name <= version);
  await write(async (tx) => {
    const all =
      engine === 'sqlite'
        ? sql<{
            name: string;
          }>`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`
        : sql<{
            name: string;
          }>`select tablename as name from pg_tables where schemaname = current_schema()`;
    await sql`drop view dovecot_users`.execute(tx);
    const tables = await all.execute(tx);
    const cascade = engine === 'sqlite' ? sql`` : sql`cascade`;
    for (const { name } of tables.rows)
      await sql`drop table ${sql.table(name)} ${cascade}`.execute(tx);
    for (const [, { up }] of migrations) await up(tx);
    for (const statement of [
      'create table kysely_migration (name varchar(255) primary key, timestamp varchar(255) not null)',
      'create table kysely_migration_lock (id varchar(255) primary key, is_locked integer default 0 not null)',
      ...migrations.map(
        ([name]) => `insert into kysely_migration values ('${name}', '2026-11-22T00:00:00.000Z')`,
      ),
      ...rows,
    ]) {
      await sql.raw(statement).execute(tx);
    }
  });
}
