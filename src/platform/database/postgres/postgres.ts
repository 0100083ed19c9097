/** PostgreSQL, for operators who have one and for several nodes on the same state. */
import { sql, type TransactionBuilder } from 'kysely';
import { Outage } from '../../time/time.ts';
import {
  CommitNotices,
  collectNotices,
  type Database,
  type Queries,
  type ReadDatabase,
} from '../engine.ts';
import {
  isDamage,
  isLostConnection,
  isRolledBack,
  isStorageFull,
  isUnavailable,
} from '../failures.ts';
import { migrate, refuseUnfinished } from '../migrate.ts';
import type { Schema } from '../schema.ts';
import type { ConnectionOptions } from './connections.ts';
import { bindTransaction, kyselyOn } from './driver.ts';
import { END_DEADLINES } from './lease.ts';
import { processLock } from './process-lock.ts';

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, once for each host of the database. */
  readonly url: string | readonly string[];
  /** The most connections. */
  readonly poolSize?: number;
  /** The time for one statement, and for the wait for a connection. */
  readonly timeoutMs?: number;
  /** Called once for each connection that breaks, idle or not; they are replaced. */
  readonly onBroken?: (error: Error) => void;
  /** Called where no connection can be had because the server lets nobody in, with what it says. */
  readonly onRefused?: (error: unknown) => void;
  /** Called once with the reason why a failover that loses commits cannot be noticed on this server. */
  readonly onNoTimeline?: (error: unknown) => void;
  /** Told of the server's disk: that it has no room, and that nothing failed for that reason for a while. */
  readonly diskOutage?: Outage;
  /** Called with each step of a migration that takes time. */
  readonly onMigration?: (line: string) => void;
  /** Called for each committed transaction with its milliseconds, for metrics. */
  readonly onCommit?: (report: { readonly ms: number }) => void;
  /** Whether the command opens the database that fills it: nobody else may open it meanwhile. */
  readonly isFilling?: boolean;
}

const ATTEMPTS_MAX = 5;
/** On a full disk a change that finds room in the pages of its table is committed: the disk has room when none failed for so long. */
const ROOM_MS = 10_000;

/**
 * The timeline that the server writes to. A promoted server begins a new one (PostgreSQL's manual, section 26.3.5), and
 * the names of its WAL files begin with it. `pg_control_checkpoint()` would return the old one until the next
 * checkpoint.
 */
const timeline = sql<number>`('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint`;

/** Opens a PostgreSQL database and migrates its schema. @throws UnfitDatabase */
export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const { url, poolSize = 20, timeoutMs = 8_000, onBroken, onRefused } = options;
  const urls = typeof url === 'string' ? [url] : url;
  await migrateOn({ urls, poolSize: 2, onBroken }, options);
  const { diskOutage = new Outage(() => {}) } = options;
  let isDamaged = false;
  let fullAt = 0;
  const onError = (error: unknown) => {
    if (isDamage(error)) isDamaged = true;
    if (!isStorageFull(error)) return;
    fullAt = performance.now();
    diskOutage.failed(error);
  };
  const onCommit = async <T>(write: Promise<T>) => {
    const begunAt = performance.now();
    const value = await write;
    const now = performance.now();
    if (now - fullAt >= ROOM_MS) diskOutage.worked();
    options.onCommit?.({ ms: now - begunAt });
    return value;
  };
  const connecting = { urls, poolSize, timeoutMs, onBroken, onRefused, onError };
  const opened = kyselyOn(connecting, (run) => onCommit(runSafely(run)));
  const { queries: kysely, atOnce, close } = opened;
  const canTell = await tellsTimeline(kysely, options.onNoTimeline).catch(
    async (error: unknown) => {
      await close();
      throw error;
    },
  );
  const notices = new CommitNotices();
  return {
    engine: 'postgres',
    notices,
    get isDamaged() {
      return isDamaged;
    },
    get isDiskFull() {
      return diskOutage.isOn;
    },
    timeline: canTell ? timeline : undefined,
    processLock: (key) => processLock(urls, key),
    read: kysely,
    atOnce,
    write: (work) => onCommit(transact(kysely.transaction(), work, notices)),
    snapshot: (work) =>
      transact(
        kysely.transaction().setIsolationLevel('repeatable read').setAccessMode('read only'),
        work,
      ),
    close,
  };
}

/** Opens a database to read it. Nothing is migrated, and a transaction may take any time. */
export function openPostgresToRead(urls: readonly string[]): ReadDatabase & AsyncDisposable {
  const { queries: read, close } = kyselyOn({ urls, poolSize: 2 });
  return {
    engine: 'postgres',
    read,
    snapshot: (work) =>
      read
        .transaction()
        .setIsolationLevel('repeatable read')
        .setAccessMode('read only')
        .execute(async (tx) => {
          // Backups and restores keep theirs open while other programs work.
          await sql.raw(END_DEADLINES).execute(tx);
          return work(tx);
        }),
    [Symbol.asyncDispose]: close,
  };
}

/** Whether the server lets us read its timeline: a service that only speaks PostgreSQL's protocol may not. */
async function tellsTimeline(
  kysely: Queries,
  onNoTimeline: PostgresOptions['onNoTimeline'],
): Promise<boolean> {
  try {
    await sql`select ${timeline}`.execute(kysely);
    return true;
  } catch (error) {
    if (isUnavailable(error)) throw error;
    onNoTimeline?.(error);
    return false;
  }
}

/** Migrates on connections of its own: a migration may take longer than any query. */
async function migrateOn(
  options: ConnectionOptions,
  { onMigration, isFilling }: Pick<PostgresOptions, 'onMigration' | 'isFilling'>,
): Promise<void> {
  const { queries: kysely, close } = kyselyOn(options);
  try {
    if (!isFilling) await refuseUnfinished(kysely);
    await migrate(kysely, 'postgres', onMigration);
  } finally {
    await close();
  }
}

function transact<T>(
  transaction: TransactionBuilder<Schema>,
  work: (tx: Queries) => Promise<T>,
  notices?: CommitNotices,
): Promise<T> {
  return runSafely(async (begin) => {
    let subjects: ReadonlySet<string> = new Set();
    const value = await transaction.execute(async (tx) => {
      await bindTransaction(tx);
      subjects = collectNotices(tx);
      const value = await work(tx);
      begin();
      return value;
    });
    notices?.tell(subjects);
    return value;
  });
}

/**
 * Runs one transaction, and again where the server rolled it back, or the connection was lost before the commit. After
 * a connection that is lost during the commit, its outcome is unknown: the error says so to the caller, whose client
 * tries again.
 */
async function runSafely<T>(run: (begin: () => void) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    let isCommitting = false;
    try {
      return await run(() => {
        isCommitting = true;
      });
    } catch (error) {
      const isSafe = isRolledBack(error) || (!isCommitting && isLostConnection(error));
      if (attempt >= ATTEMPTS_MAX || !isSafe) throw error;
    }
  }
}
