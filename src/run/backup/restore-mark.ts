/**
 * The mark of a PostgreSQL database that a restore fills: a table that exists from before the first row until all is
 * done. Services and other commands refuse a database with it. The next restore empties such a database and begins
 * again, or, if only the last step is missing, makes that. Only one restore at a time works on a database.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import {
  advisoryLocks,
  openPostgresToRead,
  type Queries,
  type ReadDatabase,
  UNFINISHED_RESTORE_TABLE,
} from '../../platform/database/database.ts';
import { BackupFailed } from './manifest.ts';

/** How long the connections of a killed restore may take to end. */
const OTHERS_END_WITHIN_MS = 5_000;

const mark = sql.table(UNFINISHED_RESTORE_TABLE);

export interface RestoreMark {
  /** The `sums` of the backup from which an earlier restore filled the whole database; null where none did. */
  readonly filledFrom: string | null;
  /** Removes from the database what an earlier restore left. */
  empty(): Promise<void>;
}

/**
 * Marks the database as filled, in the transaction that ends the filling.
 *
 * @param sums of the backup, to identify it
 */
export async function markFilled(tx: Queries, sums: string): Promise<void> {
  await sql`update ${mark} set filled_from = ${sums}`.execute(tx);
}

/**
 * Marks an empty database, or one that has the mark of a restore, while `fill` works on it.
 *
 * @throws BackupFailed where the database has something else in it, or something else is connected
 */
export async function whileMarked<T>(
  urls: readonly string[],
  fill: (mark: RestoreMark) => Promise<T>,
): Promise<T> {
  const database = openPostgresToRead(urls);
  try {
    return await database.snapshot(async (held) => {
      const found = await sql<{ taken: boolean }>`
        select pg_try_advisory_xact_lock(${sql.lit(advisoryLocks.restore)}) as taken`.execute(held);
      if (!found.rows[0]?.taken) throw new BackupFailed('another restore fills this database');
      const filledFrom = await takeMark(held, database);
      try {
        const filled = await fill({ filledFrom, empty: () => empty(database) });
        await sql`drop table ${mark}`.execute(database.read);
        return filled;
      } catch (error) {
        // Nothing was restored: the database is as empty as before.
        if ((await tablesOf(database.read)).length === 0) {
          await sql`drop table if exists ${mark}`.execute(database.read);
        }
        throw error;
      }
    });
  } finally {
    await database.close();
  }
}

/** @returns {@link RestoreMark.filledFrom} */
async function takeMark(held: Queries, { read }: ReadDatabase): Promise<string | null> {
  const { rows: marks } = await sql`
    select 1 from pg_tables
    where schemaname = current_schema() and tablename = ${UNFINISHED_RESTORE_TABLE}`.execute(held);
  if (marks.length === 0) {
    const [table] = await tablesOf(held);
    if (table !== undefined) {
      throw new BackupFailed(
        `DATABASE_URL: expected an empty database, got one with table ${table}; a service may be using it: name an empty database`,
      );
    }
    await sql`create table ${mark} as select null::text as filled_from`.execute(read);
    return null;
  }
  await waitForOthers(held);
  // Not in the locked transaction: its lock would prevent the drop of the mark.
  const { rows } = await sql<{ filled_from: string | null }>`
    select filled_from from ${mark}`.execute(read);
  return rows[0]?.filled_from ?? null;
}

/** A killed restore may have left a running `pg_restore`; a service may have started just before the mark. */
async function waitForOthers(held: Queries): Promise<void> {
  for (let waited = 0; ; waited += 100) {
    // Without this a transaction sees the same list each time.
    await sql`select pg_stat_clear_snapshot()`.execute(held);
    const { rows } = await sql<{ pid: number }>`
      select pid from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend'
        and pid <> pg_backend_pid()`.execute(held);
    if (rows.length === 0) return;
    if (waited >= OTHERS_END_WITHIN_MS) {
      throw new BackupFailed(
        `a restore into this database was interrupted, and other programs are connected to it (process ${rows[0]?.pid} of the server): end them, and run the restore again`,
      );
    }
    await sleep(100);
  }
}

async function tablesOf(queries: Queries): Promise<string[]> {
  const { rows } = await sql<{ tablename: string }>`
    select tablename from pg_tables
    where schemaname = current_schema() and tablename <> ${UNFINISHED_RESTORE_TABLE}`.execute(
    queries,
  );
  return rows.map(({ tablename }) => tablename);
}

/** Views and sequences are dropped with their tables. */
async function empty({ read }: ReadDatabase): Promise<void> {
  // First, so that after a kill in between nothing says that the database is filled.
  await sql`update ${mark} set filled_from = null`.execute(read);
  const tables = await tablesOf(read);
  if (tables.length === 0) return;
  const names = sql.join(tables.map((name) => sql.table(name)));
  await sql`drop table ${names} cascade`.execute(read);
}
