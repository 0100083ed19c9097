/**
 * Kysely's driver for `node:sqlite`. Statements stay prepared for each connection; every call is synchronous
 * underneath, so a chain of queries never leaves the current turn of the event loop.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  type SelectModifierNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import { LRUCache } from 'lru-cache';
import type { Queries } from '../engine.ts';
import type { Schema } from '../schema.ts';

/** Enough for every query of this program; the least used ones beyond it are prepared again. */
const STATEMENTS_KEPT = 500;

export interface ConnectionOptions {
  /** Called with each error of a statement. */
  readonly onError?: (error: unknown) => void;
  /** Called before each read; returns what its result has to wait for to be on the disk. */
  readonly enter?: () => Promise<void> | undefined;
}

/** Runs a query; its rows are there at once, unless they are not on the disk yet. */
export type BoundQuery = (parameters: readonly unknown[]) => object[] | Promise<object[]>;

interface Prepared {
  readonly statement: StatementSync;
  /** Names of the columns; empty for a statement without rows. */
  readonly columns: readonly string[];
}

/**
 * Rows as plain objects. The objects of `node:sqlite` have no prototype and are dictionaries, which cost several times
 * as much to make and to read.
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
  readonly #options: ConnectionOptions;
  readonly #statements = new LRUCache<string, Prepared>({ max: STATEMENTS_KEPT });

  constructor(db: DatabaseSync, options: ConnectionOptions) {
    this.#db = db;
    this.#options = options;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const prepared = this.#prepare(query.sql);
    const { parameters } = query;
    if (prepared.columns.length > 0)
      return { rows: (await this.#rows(prepared, parameters)) as R[] };
    const { changes, lastInsertRowid } = this.#told(() =>
      prepared.statement.run(...(parameters as SQLInputValue[])),
    );
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  }

  /** Prepares a query that is run again and again: it is never prepared again. */
  bind(sql: string): BoundQuery {
    const prepared = this.#prepare(sql);
    return (parameters) => this.#rows(prepared, parameters);
  }

  /** Runs a statement at once; returns its rows when they are on the disk. A write without rows returns none. */
  #rows(
    { statement, columns }: Prepared,
    parameters: readonly unknown[],
  ): object[] | Promise<object[]> {
    const waits = this.#options.enter?.();
    // With setReturnArrays each row is an array, which the type declaration does not say.
    const rows = this.#told(() =>
      statement.all(...(parameters as SQLInputValue[])),
    ) as unknown as unknown[][];
    const objects = toObjects(rows, columns);
    return waits?.then(() => objects) ?? objects;
  }

  // biome-ignore lint/correctness/useYield: the interface requires it, and Postroom never streams rows
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error('rows are not streamed from SQLite');
  }

  #told<T>(run: () => T): T {
    try {
      return run();
    } catch (error) {
      this.#options.onError?.(error);
      throw error;
    }
  }

  #prepare(sql: string): Prepared {
    const kept = this.#statements.get(sql);
    if (kept) return kept;
    const statement = this.#told(() => this.#db.prepare(sql));
    const columns = statement.columns().map(({ name }) => name);
    if (columns.length > 0) statement.setReturnArrays(true);
    const prepared = { statement, columns };
    this.#statements.set(sql, prepared);
    return prepared;
  }
}

/** SQLite can create tables within a transaction, which migrations need; Kysely assumes that it cannot. */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/** SQLite has one writer at a time, and no clauses that lock rows: they are left out, so that a query can have them. */
class WithoutLocks extends SqliteQueryCompiler {
  protected override visitSelectModifier(node: SelectModifierNode): void {
    if (node.modifier === 'Distinct' || node.rawModifier) super.visitSelectModifier(node);
  }
}

class SqliteDriver implements Driver {
  readonly #db: DatabaseSync;
  readonly #connection: SqliteConnection;

  constructor(db: DatabaseSync, connection: SqliteConnection) {
    this.#db = db;
    this.#connection = connection;
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
    // On a full disk SQLite may have rolled back by itself. A second rollback would hide why.
    if (this.#db.isTransaction) this.#db.exec('rollback');
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {
    this.#db.close();
  }
}

const connections = new WeakMap<object, SqliteConnection>();

/** Kysely on one open connection. The caller decides who may use it at a time. */
export function kyselyOn(db: DatabaseSync, options: ConnectionOptions = {}): Kysely<Schema> {
  const connection = new SqliteConnection(db, options);
  const queries = new Kysely<Schema>({
    dialect: {
      createAdapter: () => new TransactionalAdapter(),
      createDriver: () => new SqliteDriver(db, connection),
      createIntrospector: (kysely) => new SqliteIntrospector(kysely),
      createQueryCompiler: () => new WithoutLocks(),
    },
  });
  connections.set(queries, connection);
  return queries;
}

/**
 * Binds the text of a query to a connection, to run it without Kysely's executor: its promises take longer than SQLite.
 *
 * @returns undefined where the queries are not those of an SQLite connection
 */
export function bindQuery(queries: Queries, sql: string): BoundQuery | undefined {
  return connections.get(queries)?.bind(sql);
}
