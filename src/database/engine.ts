/** What both engines offer; the public face is `database.ts`. */
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
