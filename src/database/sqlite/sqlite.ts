/** The embedded engine: one SQLite file. */
import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import pLimit from 'p-limit';
import type { Database, Queries } from '../engine.ts';
import { isDamage, isStorageFull } from '../failures.ts';
import { migrate } from '../migrate.ts';
import { Checkpoints, startThread, type WarningLog } from './checkpoints.ts';
import { type ConnectionOptions, kyselyOn } from './driver.ts';
import { CommitLog, GroupCommit, type GroupCommitOptions } from './group-commit.ts';

export interface SqliteOptions {
  /** File of the database; made when missing. */
  readonly path: string;
  /** Told when the disk failed: nothing is taken or told any more, and only a new start helps. */
  readonly onLost?: (error: Error) => void;
  readonly log?: WarningLog;
  /** Told of each transaction, for metrics. */
  readonly onCommit?: GroupCommitOptions['onCommit'];
  /** Octets of the log from which on it is moved into the file; for tests. */
  readonly longLog?: number;
}

/** Snapshots beyond this many at once wait: each holds a connection and keeps the WAL from ending. */
const SNAPSHOTS_MAX = 8;

/**
 * Octets of a page, for a database that is made; one that is there keeps its own. Most of what is written
 * is mail, and each page of it takes two writes to the log and two more when it is moved on. With larger
 * pages yet, more is written again of what goes on beside it.
 */
const PAGE_SIZE = 8_192;

/** Octets of the log's file; a longer one is cut when the log starts anew. */
const LOG_FILE_MAX = 128 * 1024 * 1024;

/** Told once. */
const DAMAGED =
  'the database is damaged: data on the damaged pages can be neither read nor written; restore the backup';

/** How long another process (a backup, the sqlite3 shell) may hold the lock, in milliseconds. */
const BUSY_TIMEOUT_MS = 5_000;

function connect(path: string, readOnly: boolean): DatabaseSync {
  const db = new DatabaseSync(path, { readOnly, timeout: BUSY_TIMEOUT_MS });
  db.exec('pragma foreign_keys = on');
  if (!readOnly) {
    db.exec(`pragma page_size = ${PAGE_SIZE}`);
    const mode = db.prepare('pragma journal_mode = wal').get()?.journal_mode;
    if (mode !== 'wal') throw new Error(`${path} is where SQLite can keep no log (${mode})`);
    // NORMAL: commits are brought to the disk by group-commit.ts, a log that starts anew still by SQLite.
    db.exec('pragma synchronous = normal');
    // The log is moved by checkpoints.ts alone.
    db.exec('pragma wal_autocheckpoint = 0');
    // Else the file of a log that was long once stays as long for good.
    db.exec(`pragma journal_size_limit = ${LOG_FILE_MAX}`);
    // Where what a savepoint may have to undo is kept: a temporary file would cost writes of its own.
    db.exec('pragma temp_store = memory');
  }
  db.exec('pragma cache_size = -32000');
  return db;
}

interface SnapshotConnection {
  readonly db: DatabaseSync;
  readonly queries: Queries;
  readonly begin: StatementSync;
  readonly rollback: StatementSync;
}

/** Reading connections, each held by one snapshot at a time. */
class SnapshotPool {
  readonly #path: string;
  readonly #options: ConnectionOptions;
  readonly #idle: SnapshotConnection[] = [];
  readonly #limit = pLimit(SNAPSHOTS_MAX);

  constructor(path: string, options: ConnectionOptions) {
    this.#path = path;
    this.#options = options;
  }

  run<T>(work: (tx: Queries) => Promise<T>): Promise<T> {
    return this.#limit(async () => {
      const connection = this.#idle.pop() ?? this.#open();
      try {
        connection.begin.run();
        return await work(connection.queries);
      } finally {
        if (connection.db.isTransaction) connection.rollback.run();
        this.#idle.push(connection);
      }
    });
  }

  close(): void {
    for (const { db } of this.#idle) db.close();
  }

  #open(): SnapshotConnection {
    const db = connect(this.#path, true);
    return {
      db,
      queries: kyselyOn(db, this.#options),
      begin: db.prepare('begin'),
      rollback: db.prepare('rollback'),
    };
  }
}

/**
 * Brings to the disk what a process left in the log that ended before it could: what is read from now on
 * is told. It is written anew, since the kernel may take what it failed to write for written.
 */
async function settle(writer: DatabaseSync, log: CommitLog): Promise<void> {
  try {
    writer.exec('pragma wal_checkpoint(truncate)');
  } catch (error) {
    // Then the log stays as it is, and is synced.
    if (!isStorageFull(error)) throw error;
  }
  await log.sync(true);
}

/** Octets kept for a start on a full disk: SQLite makes two files before anything can be read. */
const RESERVE_BYTES = 256 * 1024;

/** Keeps space for the next start; on a full disk as much as there is. */
function keepReserve(path: string): void {
  const file = `${path}-reserve`;
  if (statSync(file, { throwIfNoEntry: false })?.size === RESERVE_BYTES) return;
  try {
    writeFileSync(file, Buffer.alloc(RESERVE_BYTES), { mode: 0o600 });
  } catch (error) {
    if (!isStorageFull(error)) throw error;
  }
}

/** @returns whether there was any */
function freeReserve(path: string): boolean {
  const isThere = existsSync(`${path}-reserve`);
  rmSync(`${path}-reserve`, { force: true });
  return isThere;
}

/**
 * Opens the SQLite database at `path` and brings its schema up to date. A full disk does not keep it from
 * being read.
 *
 * @throws UnfitDatabase
 */
export async function openSqlite(options: SqliteOptions): Promise<Database> {
  const { path } = options;
  try {
    const database = await open(options);
    keepReserve(path);
    return database;
  } catch (error) {
    if (!isStorageFull(error) || !freeReserve(path)) throw error;
    return open(options);
  }
}

async function open(options: SqliteOptions): Promise<Database> {
  const { path, onLost } = options;
  const writer = connect(path, false);
  try {
    await migrate(kyselyOn(writer), 'sqlite');
  } catch (error) {
    writer.close();
    throw error;
  }
  let isDamaged = false;
  const onError = (error: unknown) => {
    if (isDamaged || !isDamage(error)) return;
    isDamaged = true;
    options.log?.warn({ err: error }, DAMAGED);
  };
  const log = new CommitLog(`${path}-wal`, onLost);
  await settle(writer, log);
  const checkpoints = new Checkpoints(writer, { ...options, start: () => startThread(path) });
  const groups = new GroupCommit(writer, {
    queries: kyselyOn(writer, { onError }),
    log,
    onCommit: options.onCommit,
    beforeBegin: () => checkpoints.tend(),
  });
  const reader = connect(path, true);
  const reading = { onError, settling: () => log.underWay };
  const snapshots = new SnapshotPool(path, reading);
  const read = kyselyOn(reader, reading);
  return {
    engine: 'sqlite',
    get isDamaged() {
      return isDamaged;
    },
    read,
    write: (work) => groups.write(work),
    snapshot: (work) => snapshots.run(work),
    async close() {
      await groups.close();
      await checkpoints.finish();
      snapshots.close();
      reader.close();
      writer.close();
      await checkpoints.close();
      await log.close();
      // For the next start, of what the log had.
      keepReserve(path);
    },
  };
}

/**
 * Takes the folder for this process, until it ends or calls the answer. SQLite's own file lock is
 * used for it: the system drops it when the process dies, however it dies.
 *
 * @returns undefined where another process has the folder
 */
export function lockDirectory(directory: string): (() => void) | undefined {
  const lock = new DatabaseSync(join(directory, 'lock.sqlite'), { timeout: 0 });
  try {
    // Else a journal is written, for which a full disk has no room.
    lock.exec('pragma journal_mode = memory; begin exclusive');
    return () => lock.close();
  } catch (error) {
    lock.close();
    if (error instanceof Error && /locked/.test(error.message)) return undefined;
    throw error;
  }
}
