/**
 * A fresh database for every test: a SQLite file, or, where TEST_DATABASE_URL names a PostgreSQL
 * server, a database of its own on that server. `npm test` runs the suites on SQLite;
 * `npm run test:servers` runs the same suites on PostgreSQL.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'node:test';
import { Client } from 'pg';
import {
  type Database,
  type Engine,
  openPostgres,
  openSqlite,
} from '../../src/platform/database/database.ts';
import { atEnd } from './at-end.ts';
import { makeTemplate } from './postgres-template.ts';

export interface TestDatabase {
  readonly database: Database;
  /** Empty folder for bodies and the like. */
  readonly directory: string;
  /** Where another program finds it: a file or a postgres:// URL. */
  readonly location: string;
}

const serverUrl = process.env.TEST_DATABASE_URL;
/**
 * Longer than the service waits for a query or a connection: the small pool of a test has hundreds of transactions
 * at once, and the machine may be busy with other suites.
 */
const DEADLINE_MS = 60_000;

/** Name of the database on the server that others are copied from: `test/servers/run.ts` makes one for all processes. */
let serverTemplate = process.env.TEST_DATABASE_TEMPLATE
  ? Promise.resolve(process.env.TEST_DATABASE_TEMPLATE)
  : undefined;

async function makeServerTemplate(url: string): Promise<string> {
  const name = await makeTemplate(url);
  atEnd(() => runOnServer(url, `drop database ${name}`));
  return name;
}

async function runOnServer(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}

async function openServer(url: string): Promise<{ database: Database; location: string }> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  serverTemplate ??= makeServerTemplate(url);
  // The other way writes every page of it to the log of the server, and takes twice as long.
  const copy = `create database ${name} template ${await serverTemplate} strategy file_copy`;
  await runOnServer(url, copy);
  const own = new URL(url);
  own.pathname = `/${name}`;
  atEnd(() => runOnServer(url, `drop database if exists ${name} with (force)`));
  const options = { url: own.href, poolSize: 5, timeoutMs: DEADLINE_MS };
  return { database: await openPostgres(options), location: own.href };
}

let fileTemplate: Promise<Uint8Array> | undefined;

/** A migrated SQLite database without rows. Tests open copies of it: the migrations take several times as long. */
async function makeFileTemplate(): Promise<Uint8Array> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-test-'));
  const path = join(directory, 'template.sqlite');
  await (await openSqlite({ path })).close();
  const bytes = await readFile(path);
  await rm(directory, { recursive: true });
  return bytes;
}

/** Opens a new, migrated database; it is closed and removed when all tests of the process have ended. */
export async function openTestDatabase(engine: Engine): Promise<TestDatabase> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-test-'));
  let database: Database;
  let location = '';
  if (engine === 'sqlite') {
    location = join(directory, 'test.sqlite');
    fileTemplate ??= makeFileTemplate();
    await writeFile(location, await fileTemplate);
    database = await openSqlite({ path: location });
  } else {
    assert.ok(serverUrl, 'TEST_DATABASE_URL names the PostgreSQL server of the tests');
    ({ database, location } = await openServer(serverUrl));
  }
  atEnd(async () => {
    await database.close();
    await rm(directory, { recursive: true, force: true });
  });
  return { database, directory, location };
}

/** Declares tests for the engine of this run: PostgreSQL with TEST_DATABASE_URL, else SQLite. */
export function onEachEngine(title: string, declare: (engine: Engine) => void): void {
  const engine = serverUrl ? 'postgres' : 'sqlite';
  void suite(`${title} on ${engine}`, () => declare(engine));
}
