/**
 * Moves the data folder of a stopped service from SQLite to PostgreSQL.
 *
 * Where a service starts, by step; the caller holds the lock of the folder throughout:
 * 1. The folder notes the move, and the empty database gets a mark (`database/postgres/filling.ts`): no service starts on
 *    the database. The folder still starts. If it does, that removes its note: the next run begins from the start.
 * 2. The tables are made by the migrations, all rows are copied in batches, each with the note of how far it came, then
 *    counted and compared by digest. Bodies are copied and read back.
 * 3. The note of the folder becomes final: no service starts on either. This needs no space on the disk.
 * 4. The stores of bodies change their roles, where they are moved.
 * 5. The database loses its mark: a service starts on it. The folder refuses to start from step 3 on.
 *
 * After a crash the same command goes on: before step 3 with the next row, after it with step 4. Nothing is removed from
 * the folder.
 */
import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { databaseStoreId, storeIdOf } from '../../mailboxes/bodies/bodies.ts';
import {
  createSetting,
  type Database,
  type FilledDatabase,
  noteFilling,
  openPostgres,
  openPostgresToRead,
  type Queries,
  readFilling,
  schemaVersions,
  whileMarked,
} from '../../platform/database/database.ts';
import { HOUR_MS } from '../../platform/time/time.ts';
import { beginMove, completeMove, type FolderMove, readMove } from '../config/config.ts';
import { digestSource, digestTarget } from './compare-rows.ts';
import { copyRows, type MoveNote } from './copy-rows.ts';
import { planTables, type Table } from './tables.ts';

/** The data cannot be moved; the message is for the operator. */
export class MoveFailed extends Error {
  override readonly name: string = 'MoveFailed';
}

/** The folder was moved to another database before: nothing is left to do with the one that is named. */
export class MovedElsewhere extends MoveFailed {
  override readonly name = 'MovedElsewhere';
}

/** How far a move came, for people. */
export interface Progress {
  /** What is done now, such as `copying messages`. */
  readonly name: string;
  /** Of all rows, in this and the other steps of the kind. */
  readonly done: number;
  readonly total: number;
  /** Bytes that this run copied; 0: not shown. */
  readonly octets: number;
  /** One line, at the end of a step. */
  readonly ended?: string;
}

export interface MoveOptions {
  readonly dataDir: string;
  /** The database in the folder, which no service uses. */
  readonly source: Database;
  /** The text of the secrets in the folder; undefined where no service was started yet. */
  readonly secrets: string | undefined;
  /** PostgreSQL, by each of its hosts. */
  readonly urls: readonly string[];
  /** The same without a password. */
  readonly to: string;
  /** Where the bodies are moved to; undefined: they stay where they are. */
  readonly bodies: BodiesMove | undefined;
  readonly onProgress: (progress: Progress) => void;
}

export interface BodiesMove {
  readonly location: string;
  /** Copies them; their store stays the one of the database. */
  copy(): Promise<void>;
  /** Makes the new store the one of the database. */
  finish(): Promise<void>;
}

export interface MovedData {
  /** Whether an earlier run had done all of it. */
  readonly wasComplete: boolean;
  readonly tables: number;
  readonly rows: number;
}

/** For one statement, in milliseconds: the digest of a table reads all of it. */
const STATEMENT_MS = 3 * HOUR_MS;

/** The oldest PostgreSQL that the documentation names. */
const OLDEST_SERVER = 15;

/**
 * Moves all data.
 *
 * @throws MoveFailed, FillRefused, UnfitDatabase, MoveRefused, StoreUnavailable, errors of database and file system
 */
export async function moveData(options: MoveOptions): Promise<MovedData> {
  const { source, urls } = options;
  const known = await readMove(options.dataDir);
  const storeId = await databaseStoreId(source);
  if (known?.isComplete && (await isDone(urls, known))) {
    return { wasComplete: true, tables: 0, rows: 0 };
  }
  await checkServer(urls);
  const move = await noteMove(options, known, storeId);
  const begun: MoveNote = { move: move.id, storeId, copied: {}, isWhole: false };
  const filling = { command: 'move', setting: '--to', begun: JSON.stringify(begun) } as const;
  return whileMarked(urls, filling, async (filled) => {
    const note = await goOn(filled, begun, known?.isComplete ?? false);
    const copied = await fill(options, note);
    if (!known?.isComplete) await completeMove(options.dataDir);
    await options.bodies?.finish();
    return { wasComplete: false, ...copied };
  });
}

/** Whether the database has no mark any more, which is the last step. */
async function isDone(urls: readonly string[], move: FolderMove): Promise<boolean> {
  await using target = openPostgresToRead(urls);
  const { version } = await schemaVersions(target);
  if (version === 0 || (await storeIdOf(target)) !== move.storeId) {
    throw new MovedElsewhere(
      `--to: expected ${move.to}, which has all data of this folder since it was moved, got another database. To go on from there to another one, copy that database with pg_dump and pg_restore`,
    );
  }
  return (await readFilling(target.read)) === undefined;
}

/** @throws MoveFailed where the server cannot keep what SQLite has */
async function checkServer(urls: readonly string[]): Promise<void> {
  await using target = openPostgresToRead(urls);
  const { rows } = await sql<{ encoding: string; schema: string | null; version: number }>`
    select pg_encoding_to_char(encoding) as encoding, current_schema() as schema,
      current_setting('server_version_num')::int as version
    from pg_database where datname = current_database()`.execute(target.read);
  const { encoding, schema, version = 0 } = rows[0] ?? {};
  if (version < OLDEST_SERVER * 10_000) {
    const found = Math.floor(version / 10_000);
    throw new MoveFailed(`--to: expected PostgreSQL ${OLDEST_SERVER} or newer, got ${found}`);
  }
  if (encoding !== 'UTF8') {
    throw new MoveFailed(
      `--to: expected a database with the encoding UTF8, got ${encoding}: make one with "create database ... encoding 'UTF8' template template0"`,
    );
  }
  if (schema == null) {
    throw new MoveFailed(
      '--to: expected a database with the schema of its search_path, which is not there',
    );
  }
}

/** Notes the move in the folder, unless it goes on with an earlier one. */
async function noteMove(
  { dataDir, to, bodies }: MoveOptions,
  known: Awaited<ReturnType<typeof readMove>>,
  storeId: string,
): Promise<FolderMove> {
  const location = bodies?.location ?? null;
  if (known?.isComplete && known.bodies !== location) {
    const same = known.bodies === null ? 'without --bodies' : `with --bodies ${known.bodies}`;
    throw new MoveFailed(`the move was begun ${same}: end it with the same arguments`);
  }
  if (known && (known.isComplete || known.to === to) && known.bodies === location) return known;
  const begunAt = new Date().toISOString();
  const move = { id: randomUUID(), storeId, to, bodies: location, begunAt };
  await beginMove(dataDir, move);
  return move;
}

/** The note to go on from: that of an earlier run, where the folder was not used since. */
async function goOn(
  filled: FilledDatabase,
  begun: MoveNote,
  isComplete: boolean,
): Promise<MoveNote> {
  const note: MoveNote = JSON.parse(filled.note ?? '');
  if (note.storeId !== begun.storeId) {
    throw new MoveFailed(
      `--to: the move of another data folder (store ${note.storeId}) into this database was interrupted: name an empty database`,
    );
  }
  if (note.move === begun.move) return note;
  if (isComplete) throw new MoveFailed('--to: expected the database of the move, got another one');
  await filled.empty();
  return begun;
}

/** Steps 1 and 2. @param note grows with what is copied */
async function fill(
  options: MoveOptions,
  note: MoveNote,
): Promise<{ tables: number; rows: number }> {
  const { source, urls, bodies } = options;
  const target = await openPostgres({
    url: urls,
    poolSize: 2,
    timeoutMs: STATEMENT_MS,
    isFilling: true,
  });
  try {
    const { version, newest } = await schemaVersions(source);
    if (version !== newest) {
      throw new MoveFailed(
        `the database has schema version ${version}, and this program makes ${newest}: run the newer program`,
      );
    }
    const tables = await planTables(source.read, target.read);
    const rows = await countRows(source.read, tables);
    const done = { tables: tables.length, rows };
    if (note.isWhole) return done;
    await copyAll(options, target, tables, rows, note);
    await bodies?.copy();
    await compareAll(options, target, tables, rows, note);
    await finish(options, target, tables, note);
    return done;
  } finally {
    await target.close();
  }
}

/** All rows of the tables; of those up to the given rowids where there are any. */
async function countRows(
  source: Queries,
  tables: readonly Table[],
  upTo?: Readonly<Record<string, number>>,
): Promise<number> {
  let total = 0;
  for (const { name } of tables) {
    const some = upTo ? sql`where rowid <= ${upTo[name] ?? -1}` : sql``;
    const { rows } = await sql<{ rows: number }>`
      select count(*) as rows from ${sql.table(name)} ${some}`.execute(source);
    total += rows[0]?.rows ?? 0;
  }
  return total;
}

async function copyAll(
  { source, onProgress }: MoveOptions,
  target: Database,
  tables: readonly Table[],
  total: number,
  note: MoveNote,
): Promise<void> {
  // The migrations left rows in the new tables, and those of the folder have the same.
  if (Object.keys(note.copied).length === 0) {
    const names = sql.join(tables.map(({ name }) => sql.table(name)));
    await sql`truncate ${names}`.execute(target.read);
  }
  let done = await countRows(source.read, tables, note.copied);
  let octets = 0;
  for (const table of tables) {
    const name = `copying ${table.name}`;
    let copied = 0;
    await copyRows(source, target, table, note, (rows, size) => {
      copied += rows;
      done += rows;
      octets += size;
      onProgress({ name, done, total, octets });
    });
    const ended = `copied ${copied} ${copied === 1 ? 'row' : 'rows'} of ${table.name}`;
    if (copied > 0) onProgress({ name, done, total, octets, ended });
  }
}

/** @throws MoveFailed where a table is not the same; the next run then begins from the start */
async function compareAll(
  { source, onProgress }: MoveOptions,
  target: Database,
  tables: readonly Table[],
  total: number,
  note: MoveNote,
): Promise<void> {
  let done = 0;
  for (const table of tables) {
    const progress = { name: `comparing ${table.name}`, total, octets: 0 };
    const [ours, theirs] = await Promise.all([
      digestSource(source, table, (rows) => {
        done += rows;
        onProgress({ ...progress, done });
      }),
      digestTarget(target.read, table),
    ]);
    if (ours.rows === theirs.rows && ours.digest === theirs.digest) continue;
    const again = { ...note, move: 'none' };
    await target.write((tx) => noteFilling(tx, JSON.stringify(again)));
    const found =
      ours.rows === theirs.rows
        ? 'other values'
        : `${theirs.rows} rows, and ${ours.rows} in the folder`;
    throw new MoveFailed(
      `table ${table.name} was copied, and has ${found}: run the command again, which begins from the start`,
    );
  }
  const ended = `compared ${total} rows of ${tables.length} tables by their digests`;
  onProgress({ name: 'comparing', done, total, octets: 0, ended });
}

/** What the service needs besides the rows, and the end of step 2. */
async function finish(
  { source, secrets }: MoveOptions,
  target: Database,
  tables: readonly Table[],
  note: MoveNote,
): Promise<void> {
  // The counter of SQLite, not the highest id: an id of a removed row is never given again.
  const { rows } = await sql<{ name: string; seq: number }>`
    select name, seq from sqlite_sequence where seq > 0`.execute(source.read);
  const counters = new Map(rows.map(({ name, seq }) => [name, seq]));
  await target.write(async (tx) => {
    if (secrets !== undefined) await createSetting(tx, 'secrets', secrets);
    for (const { name, columns } of tables) {
      const counter = counters.get(name);
      const column = columns.find(({ isCounted }) => isCounted);
      if (counter === undefined || !column) continue;
      await sql`select setval(pg_get_serial_sequence(${name}, ${column.name}), ${counter})`.execute(
        tx,
      );
    }
    await noteFilling(tx, JSON.stringify({ ...note, isWhole: true }));
  });
  await sql`analyze`.execute(target.read);
}
