/** The interface of both engines; the public file is `database.ts`. */
import type { CompiledQuery, Kysely, RawBuilder } from 'kysely';
import type { Schema } from './schema.ts';

/** The dialect of SQL, for the few places where the engines must differ. */
export type Engine = 'sqlite' | 'postgres';

/**
 * The numbers of our advisory locks on PostgreSQL: each is of one purpose, in all versions. That of `nodes` with a second
 * number is the lock of one process, that of `search` with one is the lock of a row of the index's queue.
 */
export const advisoryLocks = {
  migration: 7_265_017,
  nodes: 0x706f7374,
  restore: 0x726573,
  bodies: 0x626f64,
  firstAccount: 0x616363,
  search: 0x736561,
};

/** Queries inside a transaction or a snapshot. */
export type Queries = Kysely<Schema>;

/** What the caller of a change stores in the transaction of the change, by what it made. */
export type InTransaction<Made> = (tx: Queries, made: Made) => Promise<void>;

/** A query that is run again and again. A name stands for one text, on every node. */
export interface NamedQuery<Row = unknown> extends CompiledQuery<Row> {
  readonly name: string;
}

/** A lock that ends with this process, however that ends. */
export interface ProcessLock {
  /**
   * Whether it is held now. It is taken where it is not: at first, and after its connection broke. Never held through
   * a pooler.
   */
  isHeld(): Promise<boolean>;
  /** Frees it, and closes its connection. */
  release(): Promise<void>;
}

/** What transactions tell this process once they are durable. */
export class CommitNotices {
  readonly #listeners = new Set<(subject: string) => void>();

  /** The returned function ends it. */
  listen(listener: (subject: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(subjects: Iterable<string>): void {
    for (const subject of subjects) for (const listener of this.#listeners) listener(subject);
  }
}

/** What open transactions will tell. */
const notices = new WeakMap<Queries, Set<string>>();

/** Begins to collect what a transaction tells. */
export function collectNotices(tx: Queries): ReadonlySet<string> {
  const subjects = new Set<string>();
  notices.set(tx, subjects);
  return subjects;
}

/** Tells the listeners of {@link Database.notices} once the transaction is durable; nothing where it is rolled back. */
export function tellAfterCommit(tx: Queries, subject: string): void {
  notices.get(tx)?.add(subject);
}

export interface Database {
  readonly engine: Engine;
  /** Hints for this process alone, which are lost where the answer to a commit is lost. */
  readonly notices: CommitNotices;
  /** Whether a query has found damage on the disk since the start: only a backup helps. */
  readonly isDamaged: boolean;
  /** Whether the file of SQLite could not be read or written lately. */
  readonly isFailing?: boolean;
  /** Whether the server's disk was full lately. Undefined on SQLite, whose disk is that of the bodies. */
  readonly isDiskFull?: boolean;
  /**
   * The number of the server's history, as SQL: each failover begins a new one. What was committed before it and is
   * missing now was lost by it. Undefined where the server does not tell it, and on SQLite.
   */
  readonly timeline?: RawBuilder<number> | undefined;
  /** Makes the lock of a key, on PostgreSQL; nobody holds it yet. */
  readonly processLock?: (key: string) => ProcessLock;
  /** Single reads; two in a row may see different states. */
  readonly read: Queries;
  /**
   * Runs `work` in one transaction and resolves after the commit is durable. If `work` throws, only its own changes
   * are rolled back.
   *
   * `work` only makes queries: on SQLite all other writes wait for it. On PostgreSQL it runs again after a deadlock,
   * on the state that the database then has: so it must keep nothing of a run except what it returns.
   */
  write<T>(work: (tx: Queries) => Promise<T>): Promise<T>;
  /**
   * On PostgreSQL, for a prepared query that is a whole transaction, in one round trip: its rows are there after the
   * commit is durable. Where the connection is lost meanwhile, nobody knows whether it was committed.
   */
  readonly atOnce?: Queries;
  /** Runs `work` on one unchanging state of the database; it must not call `write`. */
  snapshot<T>(work: (tx: Queries) => Promise<T>): Promise<T>;
  /** Waits for the writes under way and closes every connection. */
  close(): Promise<void>;
}

/** A database that is only read; where it was opened for that, its schema may be older or newer. */
export type ReadDatabase = Pick<Database, 'engine' | 'read' | 'snapshot'>;

/** One text that every node on the database shares. */
export interface SettingStore {
  /** Where the text is, for an operator. */
  readonly location: string;
  /** @returns undefined where nothing was stored yet */
  read(): Promise<string | undefined>;
  /**
   * Stores the text, durably, unless there is one already.
   *
   * @returns the text that is stored now, the caller's or the one of an earlier writer
   */
  create(text: string): Promise<string>;
  /** Durably replaces the text that was read; false where another one is stored by now. */
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

/** Stores a text in table `settings` under `name`, unless there is one already. */
export async function createSetting(tx: Queries, name: string, value: string): Promise<void> {
  await tx
    .insertInto('settings')
    .values({ name, value })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute();
}

/** Stores a text in table `settings` under `name`. */
export function settingStore(database: Database, name: string): SettingStore {
  const read = () => settingOf(database, name);
  return {
    location: `row "${name}" of table settings`,
    read,
    async create(text) {
      await database.write((tx) => createSetting(tx, name, text));
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
