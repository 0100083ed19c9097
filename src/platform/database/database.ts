/**
 * The database: where durable state lives, and how it is read and written.
 *
 * By default it is one SQLite file in DATA_DIR (WAL) with one writing connection and a few reading ones, and no
 * commit is visible before it is on the disk; with DATABASE_URL it is PostgreSQL. Either way: `read` for single
 * queries, `snapshot` for several that must agree, `write` for changes. `schema.ts` lists the tables, each with the
 * capability that owns it.
 */
import { createHash } from 'node:crypto';
import type { CompiledQuery } from 'kysely';
import type { NamedQuery, Queries } from './engine.ts';
import { runPrepared } from './postgres/driver.ts';
import { type BoundQuery, bindQuery } from './sqlite/driver.ts';

export {
  advisoryLocks,
  CommitNotices,
  createSetting,
  type Database,
  type Engine,
  type InTransaction,
  type ProcessLock,
  type Queries,
  type ReadDatabase,
  type SettingStore,
  settingOf,
  settingStore,
  tellAfterCommit,
} from './engine.ts';
export {
  isDatabaseAway,
  isFileFailing,
  isOfOneTransaction,
  isOfStatement,
  isOverdue,
  isStorageFull,
  isUnavailable,
  isWithoutRight,
  refusalOfFailure,
} from './failures.ts';
export {
  newestSchema,
  readFilling,
  refuseUnfit,
  schemaVersions,
  UnfitDatabase,
} from './migrate.ts';
export {
  type FilledDatabase,
  FillRefused,
  noteFilling,
  whileAlone,
  whileMarked,
} from './postgres/filling.ts';
export { openPostgres, openPostgresToRead } from './postgres/postgres.ts';
export { isProcessLockFree } from './postgres/process-lock.ts';
export {
  chunks,
  countUpTo,
  type IdPage,
  insertFrom,
  isAmong,
  isOnSqlite,
  type NewestPage,
  newestFirst,
  pageById,
  withoutNulls,
} from './query-parts.ts';
export type { NewRow, Row, Schema } from './schema.ts';
export { UNFINISHED_RESTORE_TABLE } from './schema-check.ts';
export { copySqlite, findDamage, openSqliteToRead } from './sqlite/copy.ts';
export { lockDirectory, openSqlite } from './sqlite/sqlite.ts';

/** The place of a value in a query that runs with other values each time. */
class Placeholder {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** A query of Kysely's builders, or a text of `sql`. */
interface Buildable<Row> {
  compile(queries: Queries): CompiledQuery<Row>;
}

interface PreparedSql<Values, Row> {
  readonly query: NamedQuery<Row>;
  /** The name of each parameter's value; undefined for one that never changes. */
  readonly names: readonly (keyof Values | undefined)[];
}

/**
 * A query that is built and compiled once for an engine, and run with other values each time: building one takes longer
 * than running it. On PostgreSQL a connection keeps it parsed and planned, too. For the few queries that every request or
 * message runs.
 */
export class PreparedQuery<Values extends object, Row> {
  readonly #build: (value: Values, queries: Queries) => Buildable<Row>;
  /** By what makes SQL for an engine; its transactions share it. */
  readonly #compiled = new WeakMap<object, PreparedSql<Values, Row>>();
  /** By connection to SQLite. */
  readonly #bound = new WeakMap<Queries, BoundQuery>();

  /**
   * @param build makes the query from placeholders for its values, which it names in its type:
   *   `(value: { id: number }, queries) => queries.selectFrom('accounts').where('id', '=', value.id)...`. It is called
   *   when the query first runs; all of the names are those of the values that it runs with then
   */
  constructor(build: (value: Values, queries: Queries) => Buildable<Row>) {
    this.#build = build;
  }

  /** Runs it and returns its rows; a write returns none without a `returning` clause. */
  async all(queries: Queries, values: Values): Promise<Row[]> {
    return this.#run(queries, values);
  }

  /** The first row, or undefined. */
  async first(queries: Queries, values: Values): Promise<Row | undefined> {
    const rows = this.#run(queries, values);
    return rows instanceof Promise ? (await rows)[0] : rows[0];
  }

  #run(queries: Queries, values: Values): Row[] | Promise<Row[]> {
    const { adapter } = queries.getExecutor();
    const { query, names } = this.#compiled.get(adapter) ?? this.#compile(queries, adapter, values);
    const parameters = query.parameters.slice();
    for (let at = 0; at < parameters.length; at++) {
      const name = names[at];
      if (name !== undefined) parameters[at] = values[name];
    }
    const bound = this.#bound.get(queries) ?? this.#bind(queries, query.sql);
    if (bound) return bound(parameters) as Row[] | Promise<Row[]>;
    const rows = runPrepared(queries, query, parameters);
    if (rows) return rows as Promise<Row[]>;
    return queries.executeQuery<Row>({ ...query, parameters }).then(({ rows }) => rows);
  }

  #compile(queries: Queries, adapter: object, values: Values): PreparedSql<Values, Row> {
    const placeholders = new Proxy(values, { get: (_, name) => new Placeholder(String(name)) });
    // The values are only passed on to Kysely, which keeps them as they are.
    const compiled = this.#build(placeholders, queries).compile(queries);
    const name = createHash('sha256').update(compiled.sql).digest('base64url');
    const names = compiled.parameters.map((parameter) =>
      parameter instanceof Placeholder ? (parameter.name as keyof Values) : undefined,
    );
    const prepared = { query: { ...compiled, name }, names };
    this.#compiled.set(adapter, prepared);
    return prepared;
  }

  #bind(queries: Queries, sql: string): BoundQuery | undefined {
    const bound = bindQuery(queries, sql);
    if (bound) this.#bound.set(queries, bound);
    return bound;
  }
}
