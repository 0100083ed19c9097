/** Opens the database of the settings: for the service, and for commands beside it. */
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { storeIdOf } from '../../mailboxes/bodies/bodies.ts';
import {
  type Database,
  isDatabaseAway,
  isFileFailing,
  isOfStatement,
  isStorageFull,
  isWithoutRight,
  lockDirectory,
  openPostgres,
  openPostgresToRead,
  openSqlite,
  schemaVersions,
  UnfitDatabase,
} from '../../platform/database/database.ts';
import { isMissing } from '../../platform/files/files.ts';
import type { Log } from '../../platform/log/log.ts';
import { Outage } from '../../platform/time/time.ts';
import { type CommitReport, createMetrics, type Metrics } from '../../servers/metrics/metrics.ts';
import {
  type Config,
  ConfigError,
  databaseFile,
  ensureDataDir,
  forgetMove,
  readMove,
  refuseMoved,
} from '../config/config.ts';
import { type Freezes, watchFreezes } from './watch-freezes.ts';

/** Of an SQLite database that could not be opened; a migration is one transaction. */
const NO_ROOM =
  'its disk has no room to open the database, or to migrate it to the schema of this program: the data is unchanged; make room on that disk, then start again';

/** Called when the data cannot be stored any more: the reason in one line, and the error where there was one. */
export type OnLost = (line: string, error?: Error) => void;

/** Registers what undoes a step; it runs at the stop, or when a later step fails. */
export type OnStop = (close: () => Promise<void> | void) => unknown;

export interface DatabaseOpening {
  readonly config: Config;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly onLost: OnLost;
  readonly freezes: Freezes;
  readonly outage: DatabaseOutage;
  /** Whether it is the command that moves the database to PostgreSQL. */
  readonly isMove?: boolean;
}

/**
 * Opens the database for a command beside the service.
 *
 * @param isMove whether it is the command that moves the database to PostgreSQL
 * @throws ConfigError, also where the service has the data folder in use
 */
export async function openForCommand(
  config: Config,
  logger: Logger,
  isMove = false,
): Promise<{ readonly database: Database; close(): Promise<void> }> {
  const closers: (() => Promise<void> | void)[] = [];
  const onLost: OnLost = (line) => {
    throw new Error(line);
  };
  const freezes = watchFreezes(logger);
  closers.push(async () => freezes.stop());
  const outage = watchOutage({ logger, freezes });
  const common = { config, logger, metrics: createMetrics(), onLost, freezes, outage, isMove };
  await ensureDataDir(config.dataDir);
  const database = await openDatabase(common, (close) => closers.push(close));
  const close = async () => {
    for (const step of closers.reverse()) await step();
  };
  return { database, close };
}

/** @throws ConfigError */
export async function openDatabase(
  { config, logger, metrics, onLost, outage, isMove = false }: DatabaseOpening,
  onStop: OnStop,
): Promise<Database> {
  const { urls, poolSize, timeoutMs } = config.database;
  const onCommit = (report: CommitReport) => {
    metrics.countCommit(report);
    outage.worked();
  };
  if (urls !== undefined) {
    await refuseOtherDatabase(config.dataDir, urls).catch(explainDatabase);
    const database = await openPostgres({
      url: urls,
      poolSize,
      timeoutMs,
      onCommit,
      diskOutage: diskOutage(logger),
      onBroken: (error) => outage.failed(error),
      onRefused: (error) => outage.refused(error),
      onMigration: (line) => logger.info(`migration of the database: ${line}`),
      onNoTimeline: (err) =>
        logger.warn(
          { err },
          'the timeline of PostgreSQL cannot be read: after a failover that loses changes, apps are not told to sync again',
        ),
    }).catch(explainDatabase);
    onStop(() => database.close());
    return database;
  }
  if (!isMove) await refuseMoved(config.dataDir);
  const path = databaseFile(config.dataDir);
  await refuseForeign([join(config.dataDir, 'lock.sqlite'), path, `${path}-wal`, `${path}-shm`]);
  const unlock = lockDirectory(config.dataDir);
  if (!unlock) {
    throw new ConfigError([
      `DATA_DIR: "${config.dataDir}" is in use by another Postroom, which may still be starting: use that one once it answers, or stop it first; a second service needs a folder of its own`,
    ]);
  }
  onStop(unlock);
  if (!isMove) await forgetMove(config.dataDir);
  const lost = (error: Error) => onLost('the disk failed: the process ends', error);
  const database = await openSqlite({ path, onLost: lost, onCommit, log: logger }).catch(
    (error) => {
      if (error instanceof UnfitDatabase) throw new ConfigError([`${path}: ${error.message}`]);
      if (isStorageFull(error)) throw new ConfigError([`${path}: ${NO_ROOM}`], { cause: error });
      if (isFileFailing(error)) throw unusable(path, error);
      throw error;
    },
  );
  onStop(() => database.close());
  return database;
}

/** SQLite opens a file that it may only read, and the first write would fail. @throws ConfigError */
async function refuseForeign(files: readonly string[]): Promise<void> {
  for (const file of files) {
    await access(file, constants.R_OK | constants.W_OK).catch((error: unknown) => {
      if (!isMissing(error)) throw unusable(file, error);
    });
  }
}

function unusable(file: string, error: unknown): ConfigError {
  const said = error instanceof Error ? error.message : String(error);
  const line = `${file}: expected a file that Postroom can read and write, got "${said}": look at its owner, its disk, and other programs that have it open`;
  return new ConfigError([line], { cause: error });
}

/** Of the database, as far as connections to it break. */
export interface DatabaseOutage {
  failed(error: unknown): void;
  /** It answers, and lets nobody in. */
  refused(error: unknown): void;
  worked(): void;
}

/** Told once where connections break: all of them do when the server stops. A heartbeat commits every few seconds. */
export function watchOutage({
  logger,
  freezes,
  hush,
}: Pick<DatabaseOpening, 'logger' | 'freezes'> & {
  readonly hush?: Log['hush'] | undefined;
}): DatabaseOutage {
  let isTold = false;
  const outage = new Outage(
    (err) => {
      logger.warn(
        { err },
        'a connection to the database broke: until the database answers again, mail is deferred, requests are answered 503, and deliveries and all other work wait',
      );
      isTold = true;
    },
    (awaySeconds) => {
      isTold = false;
      logger.info({ awaySeconds }, 'the database answers again');
    },
  );
  // It may come back with other passwords, or as a standby.
  const refusal = new Outage((error) =>
    logger.warn(
      { reason: error instanceof Error ? error.message : error },
      'PostgreSQL answers, and refuses this node: correct what it says there, or correct DATABASE_URL and restart the node',
    ),
  );
  // All parts fail with it, and each would say so.
  hush?.((error) => isTold && isDatabaseAway(error));
  return {
    failed: (error) => {
      if (!freezes.wereJustNow()) outage.failed(error);
    },
    refused(error) {
      if (isTold) refusal.failed(error);
    },
    worked() {
      outage.worked();
      refusal.worked();
    },
  };
}

/** The disk of DATA_DIR has its own lines, where its room is measured. */
function diskOutage(logger: Pick<Logger, 'info' | 'error'>): Outage {
  return new Outage(
    (err) =>
      logger.error(
        { err },
        "the disk of PostgreSQL is full: mail is deferred with 452, and changes are answered 503, until the server's disk has space",
      ),
    () => logger.info('the disk of PostgreSQL has space again: mail is accepted'),
  );
}

/**
 * The data of this folder was moved to a database: a new one would be a second, empty service.
 *
 * @throws UnfitDatabase where this is another one
 */
async function refuseOtherDatabase(dataDir: string, urls: readonly string[]): Promise<void> {
  const move = await readMove(dataDir);
  if (!move?.isComplete) return;
  await using database = openPostgresToRead(urls);
  const { version } = await schemaVersions(database);
  if (version > 0 && (await storeIdOf(database)) === move.storeId) return;
  throw new UnfitDatabase(
    `the data of DATA_DIR was moved to another database, ${move.to}`,
    'name that one, or another DATA_DIR',
  );
}

/** A server that does not answer or refuses the login gives one line, without the URL's password. */
function explainDatabase(error: unknown): never {
  if (error instanceof ConfigError) throw error;
  if (error instanceof UnfitDatabase) throw new ConfigError([`DATABASE_URL: ${error.message}`]);
  const said = error instanceof Error ? error.message || error.name : String(error);
  if (isStorageFull(error)) {
    const line = `DATABASE_URL: the disk of PostgreSQL is full ("${said}"): nothing is lost; make room there, then start again, and a migration goes on`;
    throw new ConfigError([line], { cause: error });
  }
  if (isWithoutRight(error)) {
    const line = `DATABASE_URL: expected a user who may make tables in this database, got "${said}": make the user its owner, or grant CREATE on its schema`;
    throw new ConfigError([line], { cause: error });
  }
  const line = isOfStatement(error)
    ? `DATABASE_URL: the database could not be brought up to date ("${said}"): nothing is lost, and the next start tries again`
    : `DATABASE_URL: expected a database that Postroom can log in to, got "${said}"`;
  throw new ConfigError([line], { cause: error });
}
