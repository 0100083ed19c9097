/// <reference types="node" />
/**
 * `@postroom/sdk/sqlite`: the copy in one SQLite file, by `node:sqlite`. Several processes may have it open.
 *
 * Each table has a column for each member that it is found by, without a type, so that they compare as in IndexedDB
 * (numbers before texts), and the row as JSON. A transaction takes the write lock before it reads: the row that it
 * decides by cannot change until its commit. With WAL, a process that dies leaves whole transactions alone.
 */
import { closeSync, existsSync, openSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import {
  type Change,
  type Decide,
  type Durability,
  type Key,
  type RangeQuery,
  type Row,
  type Store,
  TABLES,
  type TableName,
} from '../mail/store.ts';
import { readRow, writeRow } from './row-text.ts';

/** `PSTR`: tells our files from those of other programs. */
const APPLICATION_ID = 0x50535452;
const VERSION = 1;
/** How long a transaction waits for one of another process. */
const BUSY_MS = 5000;
/** How often it looks whether the lock of a leader is free. */
const LOCK_MS = 1000;

/**
 * Opens the file, or makes it, readable by its owner alone.
 *
 * @throws Error where Node is older than 22.13, or the file is not one of this store, or of a newer version of it
 */
export function sqliteStore(path: string): Store {
  return new SqliteStore(path);
}

class SqliteStore implements Store {
  readonly #path: string;
  readonly #database: DatabaseSync;
  #isClosed = false;
  readonly #statements = new Map<string, StatementSync>();

  constructor(path: string) {
    const { DatabaseSync } = loadSqlite();
    this.#path = path;
    makeFile(path);
    this.#database = new DatabaseSync(path);
    try {
      this.#database.exec(`pragma busy_timeout = ${BUSY_MS}`);
      checkFile(this.#database, path);
      this.#database.exec('pragma journal_mode = wal');
      this.#write('strict', () => makeTables(this.#database));
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  async get(table: TableName, key: Key): Promise<Row | undefined> {
    return this.#get(table, key);
  }

  async range(query: RangeQuery): Promise<Row[]> {
    const { sql, values } = rangeSql(query);
    return this.#statement(sql)
      .all(...values)
      .map(({ row }) => readRow(query.table, String(row)));
  }

  async update(
    table: TableName,
    key: Key,
    decide: Decide,
    durability: Durability = 'strict',
  ): Promise<void> {
    this.#write(durability, () => this.#apply(decide(this.#get(table, key))));
  }

  /** An empty database beside this one, which is locked: SQLite's locks are of all processes, and end with theirs. */
  async lock(name: string, signal: AbortSignal, held: () => Promise<void>): Promise<void> {
    const { DatabaseSync } = loadSqlite();
    const path = `${this.#path}-lead-${crc32(name).toString(16)}`;
    makeFile(path);
    const database = new DatabaseSync(path);
    try {
      while (!isLocked(database)) await pause(LOCK_MS, undefined, { signal });
      signal.throwIfAborted();
      await held();
    } finally {
      database.close();
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#database.close();
  }

  #get(table: TableName, key: Key): Row | undefined {
    const found = this.#statement(`select row from ${table} where ${equal(TABLES[table].key)}`).get(
      ...key,
    );
    return found && readRow(table, String(found.row));
  }

  #write(durability: Durability, work: () => void): void {
    const database = this.#database;
    // In WAL mode, `normal` leaves out the fsync of a commit: after a power cut the last ones may be missing.
    database.exec(`pragma synchronous = ${durability === 'strict' ? 'full' : 'normal'}`);
    database.exec('begin immediate');
    try {
      work();
      database.exec('commit');
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  #rollBack(): void {
    try {
      this.#database.exec('rollback');
    } catch {
      // SQLite did so already: after a full disk, say. (Node 22.13 cannot tell.)
    }
  }

  #apply(changes: readonly Change[]): void {
    for (const change of changes) {
      if ('put' in change) {
        const columns = columnsOf(change.put);
        const values = columns.map((column) => keyPart(change.row[column]));
        const marks = [...columns, 'row'].map(() => '?').join(', ');
        this.#statement(
          `insert or replace into ${change.put} (${[...columns, 'row'].join(', ')}) values (${marks})`,
        ).run(...values, writeRow(change.put, change.row));
      } else {
        const { remove, key } = change;
        this.#statement(`delete from ${remove} where ${equal(TABLES[remove].key)}`).run(...key);
      }
    }
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    const prepared = this.#database.prepare(sql);
    this.#statements.set(sql, prepared);
    return prepared;
  }
}

/** @throws Error where Node has no `node:sqlite` */
function loadSqlite(): typeof import('node:sqlite') {
  // Not an import: that would fail before anything could be said about it.
  const module = process.getBuiltinModule('node:sqlite');
  if (module) return module;
  throw new Error(
    `the SQLite store needs Node 22.13 or later, and this is ${process.version}: use @postroom/sdk/file`,
  );
}

/**
 * SQLite would let everybody read it. Its other files get the same rights. One that is there is not opened: closing it would
 * end the locks of another store of this process, which the next process takes for gone.
 */
function makeFile(path: string): void {
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
}

/** Whether the lock is ours now. */
function isLocked(database: DatabaseSync): boolean {
  try {
    // Without a journal no second file is left of a program that is killed.
    database.exec('pragma journal_mode = memory; begin exclusive');
    return true;
  } catch {
    return false;
  }
}

/** @throws Error for a file of another program, or of a newer version of this store */
function checkFile(database: DatabaseSync, path: string): void {
  const read = (pragma: string) =>
    Object.values(database.prepare(`pragma ${pragma}`).get() ?? {})[0];
  const tables = database.prepare('select count(*) as count from sqlite_schema').get();
  if (tables?.count !== 0 && read('application_id') !== APPLICATION_ID) {
    throw new Error(`${path} is a database of another program`);
  }
  const version = Number(read('user_version'));
  if (version <= VERSION) return;
  throw new Error(`${path} is of a newer version of the SDK (${version}, this one has ${VERSION})`);
}

function makeTables(database: DatabaseSync): void {
  database.exec(`pragma application_id = ${APPLICATION_ID}; pragma user_version = ${VERSION}`);
  for (const [name, { key, indexes }] of Object.entries(TABLES)) {
    const columns = [...columnsOf(name as TableName), 'row'].join(', ');
    database.exec(
      `create table if not exists ${name} (${columns}, primary key (${key.join(', ')})) without rowid`,
    );
    for (const [index, members] of Object.entries<readonly string[]>(indexes)) {
      database.exec(
        `create index if not exists ${name}_${index} on ${name} (${members.join(', ')})`,
      );
    }
  }
}

/** The members that rows of a table are found by, each once. */
function columnsOf(table: TableName): string[] {
  const { key, indexes } = TABLES[table];
  return [...new Set([...key, ...Object.values<readonly string[]>(indexes).flat()])];
}

const equal = (columns: readonly string[]) =>
  columns.map((column) => `${column} = ?`).join(' and ');

function keyPart(value: unknown): string | number | null {
  return typeof value === 'string' || typeof value === 'number' ? value : null;
}

function rangeSql({ table, index, prefix, after, before, reverse, limit }: RangeQuery) {
  const { key } = TABLES[table];
  const indexes: Readonly<Record<string, readonly string[]>> = TABLES[table].indexes;
  const members = index === undefined ? key : indexes[index];
  if (!members) throw new TypeError(`there is no index ${index}`);
  const rest = members.slice(prefix.length);
  const compare = (sign: '<' | '>', part: Key) =>
    `(${rest.slice(0, part.length).join(', ')}) ${sign} (${part.map(() => '?').join(', ')})`;
  const conditions = [
    ...members.slice(0, prefix.length).map((column) => `${column} = ?`),
    ...(after ? [compare('>', after)] : []),
    ...(before ? [compare('<', before)] : []),
    // A row without one of the members is not in the index.
    ...(index === undefined ? [] : rest.map((column) => `${column} is not null`)),
  ];
  const order = [...new Set([...rest, ...key])].map(
    (column) => `${column}${reverse ? ' desc' : ''}`,
  );
  const where = conditions.length > 0 ? ` where ${conditions.join(' and ')}` : '';
  return {
    sql: `select row from ${table}${where} order by ${order.join(', ')} limit ?`,
    values: [...prefix, ...(after ?? []), ...(before ?? []), limit ?? -1],
  };
}
