/**
 * Changes the schema of a database on PostgreSQL while other nodes, also of an older version, work on it.
 *
 * A change of a table needs the table for itself for a moment. While it waits, everybody else waits behind it. So it
 * gives up after {@link LOCK_MS}, lets the others go on, and tries again. Indexes on tables that may be large are made
 * afterwards by CREATE INDEX CONCURRENTLY, which nobody waits for. It runs outside of a transaction: where it is cut
 * short it leaves an index that is not valid, which the next start drops and makes again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { isLockedOut } from '../failures.ts';

/** What is left for after the transaction of a migration. */
export interface Later {
  /** On tables that were there before: `create index NAME on ...`. */
  readonly indexes: readonly string[];
  /** Names of constraints by table; they are there as `not valid`. */
  readonly checks: Readonly<Record<string, string>>;
}

/** Told what is being done, one line for each step. */
export type OnStep = (line: string) => void;

/** Any number does that nobody else takes. */
const MIGRATION_LOCK = 7_265_017;
const LOCK_MS = 2_000;
const PAUSE_MS = 1_000;
/** Between two tries, so that those who waited get on. */
const LONGEST_PAUSE_MS = 15_000;

/**
 * Runs `work` while no other node does. The lock belongs to a transaction that does nothing else, since a pooler may
 * give each transaction another session. Who waits for it asks again and again: one that waited in a statement
 * would hold up CREATE INDEX CONCURRENTLY, which waits for the statements of all others.
 */
export async function takeTurns<T>(
  kysely: Kysely<T>,
  onStep: OnStep,
  work: () => Promise<void>,
): Promise<void> {
  for (let isTold = false; ; isTold = true) {
    const isDone = await kysely.transaction().execute(async (tx) => {
      const { rows } = await sql<{ locked: boolean }>`
        select pg_try_advisory_xact_lock(${MIGRATION_LOCK}) as locked`.execute(tx);
      if (!rows[0]?.locked) return false;
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx);
      await work();
      return true;
    });
    if (isDone) return;
    if (!isTold) onStep('another node brings the database up to date: waiting for it');
    await delay(PAUSE_MS);
  }
}

/**
 * The same migrations, each of which fails where a table is not given in time. Kysely sets another limit before. What
 * a failed one did is taken back to a savepoint: Kysely then sends a statement that gives its lock back.
 */
export function withLockTimeout(migrations: Record<string, Migration>): Record<string, Migration> {
  const limited = Object.entries(migrations).map(([name, { up }]) => {
    const limitedUp: Migration['up'] = async (db) => {
      await sql`savepoint migration`.execute(db);
      try {
        await sql`set local lock_timeout = ${sql.lit(LOCK_MS)}`.execute(db);
        await up(db);
      } catch (error) {
        // Where this fails the connection is lost, and the first error says why.
        await sql`rollback to savepoint migration`.execute(db).catch(() => {});
        throw error;
      }
    };
    return [name, { up: limitedUp }];
  });
  return Object.fromEntries(limited);
}

/** Runs `apply` in one transaction; where a table is not given in time, all of it again. */
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
        `the schema was not changed: a table was in use for ${LOCK_MS / 1_000} s (by a backup or a long query?); trying again in ${pause / 1_000} s`,
      );
      await delay(pause);
    }
  }
}

/** What of it is not there yet, or was cut short. */
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

/**
 * Does what is left.
 *
 * @param isEmpty whether the database has just been made: then there is nobody to wait for
 */
export async function finish<T>(
  kysely: Kysely<T>,
  left: Later,
  { isEmpty, onStep }: { readonly isEmpty: boolean; readonly onStep: OnStep },
): Promise<void> {
  for (const statement of left.indexes) {
    const name = nameOf(statement);
    if (!isEmpty) onStep(`making index ${name}; the database can be used meanwhile`);
    await sql`drop index concurrently if exists ${sql.id(name)}`.execute(kysely);
    const how = isEmpty ? 'create index' : 'create index concurrently';
    await sql.raw(statement.replace('create index', how)).execute(kysely);
  }
  for (const [table, name] of Object.entries(left.checks)) {
    // Beside reads and writes, too.
    await sql`alter table ${sql.table(table)} validate constraint ${sql.id(name)}`.execute(kysely);
  }
}

const nameOf = (statement: string) => /^create index (\w+) on /.exec(statement)?.[1] ?? '';
