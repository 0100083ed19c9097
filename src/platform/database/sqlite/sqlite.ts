/** The embedded engine: one SQLite file. */

import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import pLimit from 'p-limit';
import { Outage } from '../../time/time.ts';
import { CommitNotices, type Database, type Queries } from '../engine.ts';
import { isDamage, isFileFailing, isStorageFull } from '../failures.ts';
import { migrate } from '../migrate.ts';
import { type CheckpointLimits, Checkpoints, startThread, type WarningLog } from './checkpoints.ts';
import { type ConnectionOptions, kyselyOn } from './driver.ts';
import { CommitLog, GroupCommit, type GroupCommitOptions, ReadTurns } from './group-commit.ts';

export interface SqliteOptions {
  /** File of the database; created when missing. */
  readonly path: string;
  /** Called when the disk failed: nothing more is accepted or read, and only a new start helps. */
  readonly onLost?: (error: Error) => void;
  readonly log?: WarningLog;
  /** Called for each transaction, for metrics. */
  readonly onCommit?: GroupCommitOptions['onCommit'];
  /** Of checkpoints, others than usual. */
  readonly limits?: Partial<CheckpointLimits>;
}

/** More snapshots than this at once wait: each holds a connection and keeps the log from starting again. */
const SNAPSHOTS_MAX = 8;

/**
 * Bytes of a page of a new database; an existing one keeps its own. Most of what is written is mail, and each page of
 * it takes two writes to the log and two more at the checkpoint. With larger pages, more neighbouring data is written
 * again.
 */
const PAGE_SIZE = 8_192;

/** Bytes of the log's file; a longer one is cut when the log starts again. */
const LOG_FILE_MAX = 128 * 1024 * 1024;

/** Logged once. */
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
    // NORMAL: group-commit.ts syncs commits; SQLite still syncs a log that starts again.
    db.exec('pragma synchronous = normal');
    // Only checkpoints.ts makes checkpoints.
    db.exec('pragma wal_autocheckpoint = 0');
    // Without this the file of a log that was long once stays long for good.
    db.exec(`pragma journal_size_limit = ${LOG_FILE_MAX}`);
    // For the undo data of savepoints: a temporary file would cost more writes.
    db.exec('pragma temp_store = memory');
  }
  // In KiB. A connection that reads forgets its pages with each commit of the one that writes.
  db.exec(`pragma cache_size = -${readOnly ? 8_000 : 32_000}`);
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
 * Brings the commits to the disk that an interrupted process left in the log: everything that is read from now on is
 * returned to clients. The log is written again, since the kernel may believe that it already wrote what it failed to.
 */
async function settle(writer: DatabaseSync, log: CommitLog): Promise<void> {
  try {
    writer.exec('pragma wal_checkpoint(truncate)');
  } catch (error) {
    // On a full disk the log stays as it is, and is only synced.
    if (!isStorageFull(error)) throw error;
  }
  await log.sync(true);
}

/** Bytes reserved for a start on a full disk: SQLite creates two files before it can read anything. */
const RESERVE_BYTES = 256 * 1024;

/** Reserves space for the next start; on a full disk as much as there is. */
function keepReserve(path: string): void {
  const file = `${path}-reserve`;
  if (statSync(file, { throwIfNoEntry: false })?.size === RESERVE_BYTES) return;
  try {
    writeFileSync(file, Buffer.alloc(RESERVE_BYTES), { mode: 0o600 });
  } catch (error) {
    if (!isStorageFull(error)) throw error;
  }
}

/** @returns whether there was a reserve */
function freeReserve(path: string): boolean {
  const isThere = existsSync(`${path}-reserve`);
  rmSync(`${path}-reserve`, { force: true });
  return isThere;
}

/**
 * Opens the SQLite database at `path` and migrates its schema. On a full disk it can still be read.
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
    // The disk has room for it again: that of the log.
    if (isStorageFull(error)) keepReserve(path);
    throw error;
  }
  let isDamaged = false;
  const { log: logger, onCommit } = options;
  const health = new FileHealth(logger, () =>
    groups.write((tx) =>
      tx
        .updateTable('settings')
        .set(({ ref }) => ({ value: ref('value') }))
        .execute(),
    ),
  );
  const onError = (error: unknown) => {
    if (isFileFailing(error)) health.failed(error);
    if (isDamaged || !isDamage(error)) return;
    isDamaged = true;
    logger?.warn({ err: error }, DAMAGED);
  };
  const log = new CommitLog(`${path}-wal`, onLost);
  await settle(writer, log);
  const checkpoints = new Checkpoints(writer, { ...options, start: () => startThread(path) });
  const reader = connect(path, true);
  const readers = new ReadTurns(reader, log, onError);
  const notices = new CommitNotices();
  const groups = new GroupCommit(writer, {
    queries: kyselyOn(writer, { onError }),
    log,
    readers,
    notices,
    checkpoints,
    onError,
    onCommit: (report) => {
      if (report.syncMs !== undefined) health.written();
      onCommit?.(report);
    },
  });
  const snapshots = new SnapshotPool(path, { onError, enter: () => log.underWay });
  return {
    engine: 'sqlite',
    notices,
    get isDamaged() {
      return isDamaged;
    },
    get isFailing() {
      return health.isFailing;
    },
    read: readers.queries,
    write: groups.write,
    snapshot: (work) => snapshots.run(work),
    async close() {
      health.close();
      await groups.close();
      await checkpoints.finish();
      snapshots.close();
      readers.close();
      writer.close();
      await checkpoints.close();
      await log.close();
      // For the next start, from the space that the log had.
      keepReserve(path);
    },
  };
}

/**
 * Locks the folder for this process, until it ends or calls the returned function. It uses SQLite's file lock: the
 * system releases that when the process dies, however it dies.
 *
 * @returns undefined where another process holds the lock
 */
export function lockDirectory(directory: string): (() => void) | undefined {
  const lock = new DatabaseSync(join(directory, 'lock.sqlite'), { timeout: 0 });
  try {
    // Without this a journal is written, for which a full disk has no room.
    lock.exec('pragma journal_mode = memory; begin exclusive');
    return () => lock.close();
  } catch (error) {
    lock.close();
    if (error instanceof Error && /locked/.test(error.message)) return undefined;
    throw error;
  }
}

/** Logged when the file begins to fail. */
const FAILING =
  'the file of the database cannot be read or written: mail is deferred and requests are answered 503 until it can; look at the disk, its mount, the owner of the folder, and other programs that have the file open';
/** Another page may be read and written meanwhile: the disk works again when none failed for so long. */
const WORKS_MS = 10_000;

/** Whether the file can be read and written: the log has a line when it cannot, and one when it can again. */
class FileHealth {
  readonly #outage: Outage;
  readonly #tryWrite: () => Promise<unknown>;
  #failedAt = 0;
  #next: NodeJS.Timeout | undefined;

  /** @param tryWrite changes a row */
  constructor(log: WarningLog | undefined, tryWrite: () => Promise<unknown>) {
    this.#tryWrite = tryWrite;
    this.#outage = new Outage(
      (err) => log?.warn({ err }, FAILING),
      (seconds, failures) => log?.warn({ seconds, failures }, 'the database can be written again'),
    );
  }

  get isFailing(): boolean {
    return this.#outage.isOn;
  }

  failed(error: Error): void {
    this.#failedAt = performance.now();
    this.#outage.failed(error);
    clearTimeout(this.#next);
    // While it is not ready there may be no requests, and so nobody else who finds that it works. Timers may be a little early.
    this.#next = setTimeout(() => void this.#tryWrite().catch(() => {}), WORKS_MS + 100).unref();
  }

  /** Something was written, and is on the disk. */
  written(): void {
    if (performance.now() - this.#failedAt >= WORKS_MS) this.#outage.worked();
  }

  close(): void {
    clearTimeout(this.#next);
  }
}
