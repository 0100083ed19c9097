/** What both engines offer; the public face is `database.ts`. */
import type { CompiledQuery, Kysely, RawBuilder } from 'kysely';
import type { Schema } from './schema.ts';

/** Which SQL is spoken; the few places where the engines must differ ask for it. */
export type Engine = 'sqlite' | 'postgres';

/** Queries inside a transaction or a snapshot. */
export type Queries = Kysely<Schema>;

/** A query that is run again and again. The name stands for its text alone, on every node. */
export interface NamedQuery<Row = unknown> extends CompiledQuery<Row> {
  readonly name: string;
}

export interface Database {
  readonly engine: Engine;
  /** Whether a query came upon damage on the disk, since the start: only a backup helps. */
  readonly isDamaged: boolean;
  /**
   * The number of the server's history, as SQL: another one after each failover. Whatever was committed before and
   * is not there any more was lost by it. Undefined where it cannot be told, and on SQLite.
   */
  readonly timeline?: RawBuilder<number> | undefined;
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

/** A database that is only read, as it is: it may be of an older or newer schema. */
export type ReadDatabase = Pick<Database, 'engine' | 'read' | 'snapshot' | 'close'>;

/** One text; every node on the database reads the same one. */
export interface SettingStore {
  read(): Promise<string | undefined>;
  /** Stores the text unless there is one already; answers what is stored now. */
  create(text: string): Promise<string>;
  /** Stores another text in place of the one that was read; false where another one is there by now. */
  replace(read: string, text: string): Promise<boolean>;
}

/** The text in table `settings` under `name`. */
export async function settingOf(
  { read }: Pick<Database, 'read'>,
  name: string,
): Promise<string | undefined> {
  const row = await read
    .selectFrom('settings')
    .select('value')
    .where('name', '=', name)
    .executeTakeFirst();
  return row?.value;
}

/** Keeps a text in table `settings` under `name`. */
export function settingStore(database: Database, name: string): SettingStore {
  const read = () => settingOf(database, name);
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
    async replace(read, text) {
      const { numUpdatedRows } = await database.write((tx) =>
        tx
          .updateTable('settings')
          .set({ value: text })
          .where('name', '=', name)
          .where('value', '=', read)
          .executeTakeFirst(),
      );
      return numUpdatedRows > 0n;
    },
  };
}
