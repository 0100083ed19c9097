/**
 * Changes the schema of a database on PostgreSQL while other nodes, also of an older version, work on it.
 *
 * A change of a table needs an exclusive lock for a moment. While it waits, all other queries of the table wait behind
 * it. So it gives up after {@link LOCK_MS}, lets the others continue, and tries again. Each table is changed in a
 * transaction of its own, before the one that makes new tables and records the migration. Each migration has one, too. Indexes on tables that may be
 * large are made afterwards by CREATE INDEX CONCURRENTLY, for which nobody waits. It runs outside of a transaction: if
 * it is cut short it leaves an index that is not valid, which the next start drops and makes again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { advisoryLocks } from '../engine.ts';
import { isLockedOut } from '../failures.ts';
import { END_DEADLINES } from './lease.ts';

/** The work after the transaction of a migration. */
export interface Later {
  /** On existing tables: `create index NAME on ...`, or `create unique index`. */
  readonly indexes: readonly string[];
  /** Names of constraints by table; they exist as `not valid`. */
  readonly checks: Readonly<Record<string, string>>;
}

/** Called with what is being done, one line for each step. */
export type OnStep = (line: string) => void;

const LOCK_MS = 2_000;
const PAUSE_MS = 1_000;
/** Between two tries, so that the queries that waited can run. */
const LONGEST_PAUSE_MS = 15_000;

/**
 * Runs `work` while no other node does. A transaction that does nothing else holds the lock, since a pooler may give
 * each transaction another session. A node that waits for the lock tries again and again: a statement that waited for
 * it would block CREATE INDEX CONCURRENTLY, which waits for the statements of all others.
 */
export async function withMigrationLock<T>(
  kysely: Kysely<T>,
  onStep: OnStep,
  work: () => Promise<void>,
): Promise<void> {
  for (let isTold = false; ; isTold = true) {
    const isDone = await kysely.transaction().execute(async (tx) => {
      const { rows } = await sql<{ locked: boolean }>`
        select pg_try_advisory_xact_lock(${advisoryLocks.migration}) as locked`.execute(tx);
      if (!rows[0]?.locked) return false;
      await sql.raw(END_DEADLINES).execute(tx);
      await work();
      return true;
    });
    if (isDone) return;
    if (!isTold) onStep('another node brings the database up to date: waiting for it');
    await delay(PAUSE_MS);
  }
}

/**
 * The same migrations; each fails where a table lock is not granted in time. Kysely sets another limit before. A failed
 * one is rolled back to a savepoint: Kysely then sends a statement that releases its lock.
 */
export function withLockTimeout(migrations: Record<string, Migration>): Record<string, Migration> {
  const limited = Object.entries(migrations).map(([name, { up }]) => {
    const limitedUp: Migration['up'] = async (db) => {
      await sql`savepoint migration`.execute(db);
      try {
        await limitLocks(db);
        await up(db);
      } catch (error) {
        // If this fails the connection is lost, and the first error says why.
        await sql`rollback to savepoint migration`.execute(db).catch(() => {});
        throw error;
      }
    };
    return [name, { up: limitedUp }];
  });
  return Object.fromEntries(limited);
}

/**
 * Runs each statement in a transaction of its own; where a table lock is not granted in time, runs it again. With locks
 * on two tables in one transaction, a client that uses one of them and waits for the other would be a deadlock.
 *
 * @param statements each may run twice: a migration that was cut short begins with the first
 */
export async function alterBetweenOthers<T>(
  kysely: Kysely<T>,
  onStep: OnStep,
  statements: readonly string[],
): Promise<void> {
  for (const statement of statements) {
    await applyBetweenOthers(kysely, onStep, async (tx) => {
      await limitLocks(tx);
      await sql.raw(statement).execute(tx);
    });
  }
}

/** A wait for a lock is short, and the work then takes any time. */
async function limitLocks<T>(tx: Kysely<T>): Promise<void> {
  await sql.raw(END_DEADLINES).execute(tx);
  await sql`set local lock_timeout = ${sql.lit(LOCK_MS)}`.execute(tx);
}

/** Runs `apply` in one transaction; where a table lock is not granted in time, runs all of it again. */
export async function applyBetweenOthers<T>(
  kysely: Kysely<T>,
  onStep: OnStep,
  apply: (tx: Kysely<T>) => Promise<void>,
): Promise<void> {
  for (let pause = PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    try {
      return await kysely.transaction().execute(apply);
    } catch (error) {
      if (!isLockedOut(error)) throw error;
      onStep(
        `the schema was not changed: a table was in use for ${LOCK_MS / 1_000} s (by a backup or a long query?); retry in ${pause / 1_000} s`,
      );
      await delay(pause);
    }
  }
}

/** The part of it that does not exist yet, or was cut short. */
export async function findUnfinished<T>(kysely: Kysely<T>, later: Later): Promise<Later> {
  const { rows } = await sql<{ name: string }>`
    select relname as name from pg_class join pg_index on indexrelid = pg_class.oid
    where relnamespace = current_schema()::regnamespace and indisvalid
    union all
    select conname from pg_constraint
    where connamespace = current_schema()::regnamespace and convalidated`.execute(kysely);
  const done = new Set(rows.map(({ name }) => name));
  const checks = Object.entries(later.checks).filter(([, name]) => !done.has(name));
  return {
    indexes: later.indexes.filter((statement) => !done.has(nameOf(statement))),
    checks: Object.fromEntries(checks),
  };
}

/** Does the rest of the work. @param isEmpty whether the database is new: then there is nobody to wait for */
export async function finish<T>(
  kysely: Kysely<T>,
  left: Later,
  { isEmpty, onStep }: { readonly isEmpty: boolean; readonly onStep: OnStep },
): Promise<void> {
  for (const statement of left.indexes) {
    const name = nameOf(statement);
    if (!isEmpty) onStep(`making index ${name}; the database can be used meanwhile`);
    await sql`drop index concurrently if exists ${sql.id(name)}`.execute(kysely);
    const how = isEmpty ? '$&' : '$& concurrently';
    await sql.raw(statement.replace(CREATE_INDEX, how)).execute(kysely);
  }
  for (const [table, name] of Object.entries(left.checks)) {
    // This does not block reads and writes.
    await sql`alter table ${sql.table(table)} validate constraint ${sql.id(name)}`.execute(kysely);
  }
}

const CREATE_INDEX = /^create (?:unique )?index/;

/** The index that a statement makes. */
export const nameOf = (statement: string) =>
  /^ (\w+) on /.exec(statement.replace(CREATE_INDEX, ''))?.[1] ?? '';
