/**
 * The database: where durable state lives, and how it is read and written.
 *
 * On the embedded default it is one SQLite file in DATA_DIR (WAL) with one writing connection and a
 * few reading ones, where nothing is told of before it is on the disk; with DATABASE_URL it is
 * PostgreSQL. Either way: `read` for single queries, `snapshot` for several that must agree, `write`
 * for changes. Tables are listed in `schema.ts`, with the capability that owns each.
 */
export type { Database, Engine, Queries } from './engine.ts';
export { isStorageFull, isUnavailable } from './failures.ts';
export { UnfitDatabase } from './migrate.ts';
export { openPostgres, type PostgresOptions } from './postgres.ts';
export { PreparedQuery } from './prepared-query.ts';
export type { NewRow, Row, Schema } from './schema.ts';
export { type SettingStore, settingStore } from './setting-store.ts';
export { lockDirectory, openSqlite, type SqliteOptions } from './sqlite/sqlite.ts';
