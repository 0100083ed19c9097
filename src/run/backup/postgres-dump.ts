/** PostgreSQL's own programs for backups: their arguments, and their errors. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { LargeBody } from '../../mailboxes/bodies/bodies.ts';
import { BackupFailed } from './manifest.ts';

/**
 * Writes a dump of the data that one snapshot sees.
 *
 * @param snapshot from `pg_export_snapshot()` of a transaction that is still open
 * @throws BackupFailed
 */
export async function dumpPostgres(
  urls: readonly string[],
  snapshot: string,
  target: string,
): Promise<void> {
  const { url, env } = libpqOf(urls);
  await finish(
    start(
      'pg_dump',
      ['--format=custom', `--snapshot=${snapshot}`, `--file=${target}`, `--dbname=${url}`],
      env,
    ),
  );
}

/** Restores a dump into an empty database: all of it, or nothing. @throws BackupFailed */
export async function restorePostgres(urls: readonly string[], dump: string): Promise<void> {
  const { url, env } = libpqOf(urls);
  const wholly = ['--no-owner', '--no-privileges', '--exit-on-error', '--single-transaction'];
  await finish(start('pg_restore', [...wholly, `--dbname=${url}`, dump], env));
}

export interface DumpContents {
  readonly storeId: string | undefined;
  /** Version of the schema. */
  readonly schema: number;
}

/**
 * Reads a dump from its first to its last octet, as a restore does.
 *
 * @param onBody called with each body that is in the store
 * @throws BackupFailed where it cannot be read
 */
export async function readDump(
  dump: string,
  onBody: (body: Omit<LargeBody, 'id'>) => void,
): Promise<DumpContents> {
  const reading = start('pg_restore', ['--file=-', dump], {});
  const done = finish(reading);
  // Otherwise the rejection would be unhandled while the lines are read.
  done.catch(() => {});
  let storeId: string | undefined;
  let schema = 0;
  let table: string | undefined;
  let columns: string[] = [];
  if (!reading.child.stdout) throw new Error('pg_restore has no output');
  for await (const line of createInterface({ input: reading.child.stdout })) {
    const [, name, list] = /^COPY (?:\S+\.)?(\w+) \(([^)]*)\) FROM stdin;$/.exec(line) ?? [];
    if (name !== undefined && list !== undefined) {
      [table, columns] = [name, list.split(', ')];
    } else if (line === '\\.') {
      table = undefined;
    } else if (table !== undefined && READ.has(table)) {
      const values = line.split('\t');
      const cell = (column: string) => values[columns.indexOf(column)] ?? '\\N';
      if (table === 'settings' && cell('name') === 'store_id') storeId = cell('value');
      if (table === 'kysely_migration') schema = Math.max(schema, Number(cell('name')));
      const file = table === 'bodies' ? cell('file') : '\\N';
      if (file !== '\\N') onBody({ file, size: Number(cell('size')) - octetsOf(cell('content')) });
    }
  }
  await done;
  return { storeId, schema };
}

/** Tables whose rows are read. */
const READ = new Set(['settings', 'kysely_migration', 'bodies']);

/** Of a bytea: `\\x` and two digits an octet. */
function octetsOf(content: string): number {
  return content === '\\N' ? 0 : (content.length - '\\\\x'.length) / 2;
}

/** The URL for programs of PostgreSQL, with all hosts. Without the password: all users can see command lines. */
function libpqOf(urls: readonly string[]): { url: string; env: Record<string, string> } {
  const parsed = urls.map((one) => new URL(one));
  const [url] = parsed;
  if (!url) throw new Error('there is no URL of a database');
  const hosts = parsed.map(({ host }) => host).join(',');
  if (parsed.length > 1) url.searchParams.set('target_session_attrs', 'read-write');
  const user = url.username && `${url.username}@`;
  return {
    url: `postgresql://${user}${hosts}${url.pathname}${url.search}`,
    env: url.password ? { PGPASSWORD: decodeURIComponent(url.password) } : {},
  };
}

interface Running {
  readonly program: string;
  readonly child: ChildProcess;
}

function start(program: string, args: readonly string[], env: Record<string, string>): Running {
  const stdio = ['ignore', 'pipe', 'pipe'] as const;
  return {
    program,
    // What they say is read, and stands in a line of ours: not in the language of the machine.
    child: spawn(program, args, {
      env: { ...process.env, ...env, LC_ALL: 'C' },
      stdio: [...stdio],
    }),
  };
}

async function finish({ program, child }: Running): Promise<void> {
  const said = child.stderr ? text(child.stderr) : Promise.resolve('');
  const [code] = await once(child, 'close').catch((error: unknown) => {
    throw new BackupFailed(
      `${program} cannot be run (${String(error)}): install the client programs of PostgreSQL, as new as the server`,
    );
  });
  if (code === 0) return;
  throw new BackupFailed(`${program} ended with ${code}: ${inOneLine(await said)}`);
}

/** Error and hint, without the statement that failed: a table of ours takes a screen. */
function inOneLine(said: string): string {
  const [error = ''] = said.split(/^Command was:/m);
  return error.trim().replaceAll(/\s+/g, ' ');
}
