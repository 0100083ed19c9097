/**
 * The mark of a PostgreSQL database that a restore or a move fills: a table that exists from before the first row until
 * all is done. Services and other commands refuse a database with it. Only the command that made the mark works on such
 * a database again, and only one at a time. Its row is that command's own note of how far it came.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { advisoryLocks, type Queries, type ReadDatabase } from '../engine.ts';
import { type FillCommand, readFilling } from '../migrate.ts';
import { UNFINISHED_RESTORE_TABLE } from '../schema-check.ts';
import { openPostgresToRead } from './postgres.ts';

/** How long the connections of a killed command may take to end. */
const OTHERS_END_WITHIN_MS = 5_000;

const mark = sql.table(UNFINISHED_RESTORE_TABLE);

/** The database cannot be filled; the message is one line for the operator, and begins with the setting. */
export class FillRefused extends Error {
  override readonly name = 'FillRefused';
}

export interface Filling {
  readonly command: FillCommand;
  /** What names the database, for messages. */
  readonly setting: string;
  /** The first note. That of a move is JSON; by that the two are told apart. */
  readonly begun: string | null;
}

export interface FilledDatabase {
  /** The last note, of this run or of an earlier one. */
  readonly note: string | null;
  /** Removes from the database what an earlier run left. */
  empty(): Promise<void>;
}

/** Writes a note, in the transaction of what it tells. */
export async function noteFilling(tx: Queries, note: string): Promise<void> {
  await sql`update ${mark} set filled_from = ${note}`.execute(tx);
}

/**
 * Does what one process at a time may do: a transaction holds a lock, also through a pooler, until the end of the process.
 *
 * @param work gets the transaction: a query in it fails where the lock may be lost
 * @returns undefined where another process has the lock
 */
export async function whileAlone<T>(
  urls: readonly string[],
  lock: 'restore' | 'bodies',
  work: (held: Queries, database: ReadDatabase) => Promise<T>,
): Promise<{ readonly made: T } | undefined> {
  await using database = openPostgresToRead(urls);
  return await database.snapshot(async (held) => {
    const { rows } = await sql<{ taken: boolean }>`
      select pg_try_advisory_xact_lock(${sql.lit(advisoryLocks[lock])}) as taken`.execute(held);
    return rows[0]?.taken ? { made: await work(held, database) } : undefined;
  });
}

/**
 * Marks an empty database, or one that has the mark of the same command, while `fill` works on it.
 *
 * @throws FillRefused where the database has something else in it, or something else is connected
 */
export async function whileMarked<T>(
  urls: readonly string[],
  filling: Filling,
  fill: (database: FilledDatabase) => Promise<T>,
): Promise<T> {
  const filled = await whileAlone(urls, 'restore', async (held, database) => {
    const note = await takeMark(held, database, filling);
    try {
      const filled = await fill({ note, empty: () => empty(database, filling) });
      await sql`drop table ${mark}`.execute(database.read);
      return filled;
    } catch (error) {
      // Nothing was filled in: the database is as empty as before.
      if ((await tablesOf(database.read)).length === 0) {
        await sql`drop table if exists ${mark}`.execute(database.read);
      }
      throw error;
    }
  });
  if (!filled) throw new FillRefused(`another ${filling.command} fills this database`);
  return filled.made;
}

/** @returns {@link FilledDatabase.note} */
async function takeMark(
  held: Queries,
  { read }: ReadDatabase,
  { command, setting, begun }: Filling,
): Promise<string | null> {
  const { rows: marks } = await sql`
    select 1 from pg_tables
    where schemaname = current_schema() and tablename = ${UNFINISHED_RESTORE_TABLE}`.execute(held);
  if (marks.length === 0) {
    const [table] = await tablesOf(held);
    if (table !== undefined) {
      throw new FillRefused(
        `${setting}: expected an empty database, got one with table ${table}; a service may be using it: name an empty database`,
      );
    }
    const note = sql.lit(begun);
    await sql`create table ${mark} as select ${note}::text as filled_from`.execute(read);
    return begun;
  }
  await waitForOthers(held, command);
  // Not in the locked transaction: its lock would prevent the drop of the mark.
  const found = await readFilling(read);
  if (found?.command === command) return found.note;
  const other = found?.command ?? 'restore';
  throw new FillRefused(
    `${setting}: a ${other} into this database was interrupted: run "postroom ${other}" again, or name an empty database`,
  );
}

/** A killed command may have left a running statement; a service may have started just before the mark. */
async function waitForOthers(held: Queries, command: string): Promise<void> {
  for (let waited = 0; ; waited += 100) {
    // Without this a transaction sees the same list each time.
    await sql`select pg_stat_clear_snapshot()`.execute(held);
    const { rows } = await sql<{ pid: number }>`
      select pid from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend'
        and pid <> pg_backend_pid()`.execute(held);
    if (rows.length === 0) return;
    if (waited >= OTHERS_END_WITHIN_MS) {
      throw new FillRefused(
        `a ${command} into this database was interrupted, and other programs are connected to it (process ${rows[0]?.pid} of the server): end them, and run the ${command} again`,
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
async function empty({ read }: ReadDatabase, { begun }: Filling): Promise<void> {
  // First, so that after a kill in between nothing says that the database is filled.
  await sql`update ${mark} set filled_from = ${begun}`.execute(read);
  const tables = await tablesOf(read);
  if (tables.length === 0) return;
  const names = sql.join(tables.map((name) => sql.table(name)));
  await sql`drop table ${names} cascade`.execute(read);
}
