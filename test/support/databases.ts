/**
 * A fresh database for every test, on both engines: SQLite, and a real PostgreSQL where
 * TEST_DATABASE_URL names a server (a database of its own is made there for each test), else its
 * dialect through PGlite.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite } from 'node:test';
import { PGlite } from '@electric-sql/pglite';
import { PGliteDialect } from 'kysely';
import { Client } from 'pg';
import { type Database, openPostgres, openSqlite } from '../../src/database/database.ts';

export type EngineName = 'sqlite' | 'pglite' | 'postgres';

export interface TestDatabase {
  readonly database: Database;
  /** Empty folder for bodies and the like. */
  readonly directory: string;
  /** Where another program finds it: a file or a postgres:// URL; PGlite is in this process. */
  readonly location: string;
}

const serverUrl = process.env.TEST_DATABASE_URL;

/** The engines that tests run on here: PGlite stands in where there is no server. */
export const engines: readonly EngineName[] = ['sqlite', serverUrl ? 'postgres' : 'pglite'];

/** int8, which PGlite gives as bigint where it is large: ours are numbers. */
const INT8 = 20;

let template: Promise<PGlite> | undefined;
const cleanups: (() => Promise<void>)[] = [];

/** Cloning one initialized instance takes a third of the time of making one. */
async function openPglite(): Promise<Database> {
  template ??= PGlite.create({ parsers: { [INT8]: Number } });
  const first = await template;
  const pglite = await first.clone();
  return openPostgres(new PGliteDialect({ pglite }));
}

async function openServer(url: string): Promise<{ database: Database; location: string }> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  const admin = new Client({ connectionString: url });
  await admin.connect();
  await admin.query(`create database ${name}`);
  const own = new URL(url);
  own.pathname = `/${name}`;
  cleanups.push(async () => {
    await admin.query(`drop database if exists ${name} with (force)`);
    await admin.end();
  });
  return { database: await openPostgres({ url: own.href, poolSize: 5 }), location: own.href };
}

/** Opens a new, migrated database; it is closed and removed when the test file ends. */
export async function openTestDatabase(engine: EngineName): Promise<TestDatabase> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-test-'));
  let database: Database;
  let location = '';
  if (engine === 'sqlite') {
    location = join(directory, 'test.sqlite');
    database = await openSqlite({ path: location });
  } else if (engine === 'pglite') database = await openPglite();
  else ({ database, location } = await openServer(serverUrl ?? ''));
  cleanups.push(async () => {
    await database.close();
    await rm(directory, { recursive: true, force: true });
  });
  return { database, directory, location };
}

/** Runs something at the end of the test file, before what was opened earlier is closed. */
export function atEnd(cleanup: () => Promise<void>): void {
  cleanups.push(cleanup);
}

/** Declares the same tests once for each engine at hand. */
export function onEachEngine(title: string, declare: (engine: EngineName) => void): void {
  for (const engine of engines) void suite(`${title} on ${engine}`, () => declare(engine));
}

after(async () => {
  // Last opened, first closed: a database is closed before its server drops it.
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  await (await template)?.close();
});
