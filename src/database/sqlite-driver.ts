/**
 * Kysely's driver for `node:sqlite`. Statements are kept prepared per connection; every call is
 * synchronous underneath, so a chain of queries never leaves the current turn of the event loop.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import { type Written, whatIsWritten } from './table-versions.ts';

/** Enough for every query shape of ours; statements beyond it are prepared again. */
const STATEMENTS_KEPT = 500;

type OnWrite = (written: Written) => void;

interface Prepared {
  readonly statement: StatementSync;
  /** Names of the columns, none for a statement that gives no rows. */
  readonly columns: readonly string[];
  readonly written: Written;
}

/**
 * Rows as plain objects. Those that `node:sqlite` makes itself have no prototype and are kept as
 * dictionaries, which costs several times as much to make and to read.
 */
function toObjects(rows: readonly unknown[][], columns: readonly string[]): object[] {
  return rows.map((values) => {
    const row: Record<string, unknown> = {};
    for (let index = 0; index < columns.length; index++) row[columns[index] ?? ''] = values[index];
    return row;
  });
}

class SqliteConnection implements DatabaseConnection {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, Prepared>();

  readonly #onWrite: OnWrite | undefined;

  constructor(db: DatabaseSync, onWrite: OnWrite | undefined) {
    this.#db = db;
    this.#onWrite = onWrite;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const { statement, columns, written } = this.#prepare(query.sql);
    if (written.kind !== 'nothing') this.#onWrite?.(written);
    const parameters = query.parameters as SQLInputValue[];
    if (columns.length > 0) {
      // With setReturnArrays each row is an array, which the declaration does not know of.
      const rows = statement.all(...parameters) as unknown as unknown[][];
      return { rows: toObjects(rows, columns) as R[] };
    }
    const { changes, lastInsertRowid } = statement.run(...parameters);
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  }

  async *streamQuery<R>(query: CompiledQuery, chunkSize: number): AsyncGenerator<QueryResult<R>> {
    // A statement of its own: a kept one could be run again while this one is being stepped.
    const rows = this.#db.prepare(query.sql).iterate(...(query.parameters as SQLInputValue[]));
    let chunk: R[] = [];
    for (const row of rows) {
      chunk.push(row as R);
      if (chunk.length < chunkSize) continue;
      yield { rows: chunk };
      chunk = [];
    }
    if (chunk.length > 0) yield { rows: chunk };
  }

  #prepare(sql: string): Prepared {
    const kept = this.#statements.get(sql);
    if (kept) return kept;
    if (this.#statements.size >= STATEMENTS_KEPT) this.#statements.clear();
    const statement = this.#db.prepare(sql);
    const columns = statement.columns().map(({ name }) => name);
    if (columns.length > 0) statement.setReturnArrays(true);
    const prepared = { statement, columns, written: whatIsWritten(sql) };
    this.#statements.set(sql, prepared);
    return prepared;
  }
}

class SqliteDriver implements Driver {
  readonly #db: DatabaseSync;
  readonly #connection: SqliteConnection;

  constructor(db: DatabaseSync, onWrite: OnWrite | undefined) {
    this.#db = db;
    this.#connection = new SqliteConnection(db, onWrite);
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection;
  }

  async beginTransaction(): Promise<void> {
    this.#db.exec('begin immediate');
  }

  async commitTransaction(): Promise<void> {
    this.#db.exec('commit');
  }

  async rollbackTransaction(): Promise<void> {
    this.#db.exec('rollback');
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {
    this.#db.close();
  }
}

/**
 * Kysely's dialect over one open connection. Who may use it at a time is the caller's concern.
 *
 * @param onWrite told of every statement that may write, before it runs
 */
export function sqliteDialect(db: DatabaseSync, onWrite?: OnWrite): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new SqliteDriver(db, onWrite),
    createIntrospector: (kysely) => new SqliteIntrospector(kysely),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}
