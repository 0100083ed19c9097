/** What both engines offer, their failures among it; the public face is `database.ts`. */
import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

/** Which SQL is spoken; the few places where the engines must differ ask for it. */
export type Engine = 'sqlite' | 'postgres';

/** Queries inside a transaction or a snapshot. */
export type Queries = Kysely<Schema>;

export interface Database {
  readonly engine: Engine;
  /** Whether a query came upon damage on the disk, since the start: only a backup helps. */
  readonly isDamaged: boolean;
  /** Single reads; two in a row may see different states. */
  readonly read: Queries;
  /**
   * Runs `work` in one transaction and resolves after the commit is durable. What `work` throws
   * rolls back its own changes, and its alone.
   *
   * `work` does nothing but queries: on SQLite everybody's writes wait for it. On PostgreSQL it runs again
   * after a deadlock, from the state that the database then has: so it keeps nothing of a run but what it
   * returns.
   */
  write<T>(work: (tx: Queries) => Promise<T>): Promise<T>;
  /** Runs `work` on one unchanging state of the database; it must not call `write`. */
  snapshot<T>(work: (tx: Queries) => Promise<T>): Promise<T>;
  /** Waits for the writes under way and closes every connection. */
  close(): Promise<void>;
}

/* What errors of the database mean to those who called it. */

/** SQLITE_FULL, and SQLITE_IOERR_SHMSIZE: no room for the index of the log (https://sqlite.org/rescode.html). */
const SQLITE_FULL = new Set<unknown>([13, 4874]);
/** SQLITE_CORRUPT, SQLITE_NOTADB. */
const SQLITE_DAMAGED = new Set<unknown>([11, 26]);
/** `data_corrupted` and `index_corrupted` of PostgreSQL. */
const POSTGRES_DAMAGED = new Set<unknown>(['XX001', 'XX002']);
/** `disk_full` of PostgreSQL. */
const POSTGRES_DISK_FULL = '53100';

/** Of an SQLite database whose log could not be synced: it takes and tells nothing more. */
export const LOG_LOST = 'POSTROOM_LOG_LOST';

/** Errors of the socket: the server is not there, or went away. */
const SOCKET_ERRORS = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
/** SQLSTATE classes 08 (connection) and 57P (shutdown), and 533 (too many connections), of PostgreSQL. */
const SERVER_STATES = /^(?:08|533|57P)/;
/** What `pg` says without a code: no connection came free in time, or it broke off. */
const CLIENT_TEXTS = /^(?:timeout exceeded when trying to connect|Connection terminated)/;

/** Whether an error says that the database cannot be reached right now, and may be again later. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return (
    code === LOG_LOST ||
    SOCKET_ERRORS.has(code) ||
    SERVER_STATES.test(code) ||
    CLIENT_TEXTS.test(error.message ?? '')
  );
}

/** Whether an error of the database or the file system says that there is no space left. */
export function isStorageFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? error.code : undefined;
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === POSTGRES_DISK_FULL) return true;
  return 'errcode' in error && SQLITE_FULL.has(error.errcode);
}

/** Whether an error says that what the database has on the disk is damaged: only a backup helps. */
export function isDamage(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && POSTGRES_DAMAGED.has(error.code)) return true;
  return 'errcode' in error && SQLITE_DAMAGED.has(Number(error.errcode) & 0xff);
}

/** One text that the first writer sets for good; every node on the database reads the same one. */
export interface SettingStore {
  read(): Promise<string | undefined>;
  /** Stores the text unless there is one already; answers what is stored now. */
  create(text: string): Promise<string>;
}

/** Keeps a text in table `settings` under `name`. */
export function settingStore(database: Database, name: string): SettingStore {
  const read = async () => {
    const row = await database.read
      .selectFrom('settings')
      .select('value')
      .where('name', '=', name)
      .executeTakeFirst();
    return row?.value;
  };
  return {
    read,
    async create(text) {
      await database.write((tx) =>
        tx
          .insertInto('settings')
          .values({ name, value: text })
          .onConflict((conflict) => conflict.column('name').doNothing())
          .execute(),
      );
      const stored = await read();
      if (stored === undefined) throw new Error(`setting ${name} was stored but is not there`);
      return stored;
    },
  };
}
