/** What `postroom doctor` checks where data is stored: disk, database, and where they are set Redis and the bucket. */
import { stat, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import {
  compareStoreIds,
  FREE_BYTES_LEFT,
  openBodyStore,
  StoreUnavailable,
  storeIdOf,
  tryToKeep,
} from '../../mailboxes/bodies/bodies.ts';
import { refuseUnfit, schemaVersions, UnfitDatabase } from '../../platform/database/database.ts';
import { isMissing } from '../../platform/files/files.ts';
import { compareClocks } from '../../platform/nodes/nodes.ts';
import { hasDomains } from '../../tenants/domains/domains.ts';
import { type Config, databaseFile, redactUrl } from '../config/config.ts';
import { formatBytes } from './command.ts';
import { openToRead } from './read-database.ts';

/** One thing that was checked. */
export interface Finding {
  readonly check: string;
  readonly result: 'ok' | 'warning' | 'failed';
  /** What was found. */
  readonly detail: string;
  /** What to do about it. */
  readonly advice?: string;
}

export type Verdict = Omit<Finding, 'check'>;

export const ok = (detail: string): Verdict => ({ result: 'ok', detail });
export const warning = (detail: string, advice: string): Verdict => ({
  result: 'warning',
  detail,
  advice,
});
export const failed = (detail: string, advice: string): Verdict => ({
  result: 'failed',
  detail,
  advice,
});

/** For one connection, in milliseconds. */
export const CONNECT_MS = 4_000;

/** Why a connection failed, in a few words. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (/^(Abort|Timeout)Error$/.test(error.name)) return `no answer within ${CONNECT_MS / 1000} s`;
  return 'code' in error ? String(error.code) : error.message;
}

type StoreSettings = Pick<Config, 'dataDir' | 'database'>;

/** Whether there is a database that can be opened; a database server always counts as one. */
async function isDatabaseThere({ dataDir, database: { urls } }: StoreSettings): Promise<boolean> {
  return (
    urls !== undefined || (await stat(databaseFile(dataDir)).catch(() => undefined)) !== undefined
  );
}

export async function checkDatabase(config: Config): Promise<Verdict> {
  const location = config.database.urls?.map(redactUrl).join(', ') ?? databaseFile(config.dataDir);
  if (!(await isDatabaseThere(config))) {
    return warning(`${location} is not there yet`, 'the first start makes it');
  }
  await using database = await openToRead(config);
  try {
    const { version, newest } = await schemaVersions(database);
    await refuseUnfit(database);
    if (version === 0)
      return ok(`${location} answers, and is empty: the first start makes its tables`);
    const said = `${location} has schema ${version}, this program ${newest}`;
    if (version < newest) return warning(said, 'the next start migrates it, or "postroom migrate"');
    if (version > newest) return warning(said, 'run the newer program');
    const off = await compareClocks(database);
    if (off === undefined) return ok(said);
    return warning(`${said}; ${off}`, 'let a time server set the clocks of both machines');
  } catch (error) {
    if (error instanceof UnfitDatabase) return failed(`${location}: ${error.found}`, error.advice);
    return failed(
      `${location}: ${error instanceof Error ? error.message : String(error)}`,
      'look at DATABASE_URL, and whether the database server is running',
    );
  }
}

/** Whether the Redis of REDIS_URL answers, and counts. The client is loaded only here. */
export async function checkRedis(server: NonNullable<Config['redis']>): Promise<Verdict> {
  const { inspectRedis, RedisRefuses } = await import('../../platform/redis/redis.ts');
  const location = `${server.host}:${server.port}`;
  try {
    const { version, isReplica, isFull } = await inspectRedis(server);
    const said = `${location} answers${version === undefined ? '' : `, version ${version}`}`;
    if (isReplica) {
      return failed(
        `${said}, and is a replica: it can only be read`,
        'name the primary in REDIS_URL: until then each node counts limits by itself',
      );
    }
    if (!isFull) return ok(said);
    return warning(
      `${said}, and its memory is full`,
      'raise its maxmemory: until then each node counts limits by itself',
    );
  } catch (error) {
    if (error instanceof RedisRefuses) {
      return failed(
        `${location} cannot be used: ${error.message}`,
        'look at host, port, user, password and database in REDIS_URL; Redis has to be version 6 or newer',
      );
    }
    return failed(
      `${location} does not answer (${reasonOf(error)})`,
      'look at REDIS_URL, at firewalls, and whether Redis is running: until it answers, changes on one node reach the others a minute late',
    );
  }
}

/** Whether the bucket of S3_URL answers our key, belongs to the database, and takes an object, which is removed again. */
export async function checkBucket(
  config: StoreSettings & Pick<Config, 'bodies'>,
): Promise<Verdict> {
  const { bucket } = config.bodies;
  const limited = bucket && { ...bucket, deadlineMs: CONNECT_MS };
  // DATA_DIR may not be there yet.
  const store = await openBodyStore({ ...config.bodies, bucket: limited, spool: tmpdir() });
  try {
    const theirs = await store.readNote('store-id');
    const database = await lookAtDatabase(config).catch(() => undefined);
    if (!database) {
      const said = `${store.location} answers; it was not compared with the database, which does not answer`;
      return warning(said, 'see above');
    }
    if (theirs === '' && database.isNew && (await store.isEmpty())) {
      await tryToKeep(store);
      return ok(`${store.location} answers; the next start makes it the store of the new database`);
    }
    if (database.storeId === undefined) {
      return failed(
        `the database is new, but the bodies in ${store.location} belong to ${theirs === '' ? 'another one' : `store ${theirs}`}`,
        'look at DATABASE_URL and S3_URL: a new database needs an empty bucket',
      );
    }
    const mismatch = compareStoreIds(database.storeId, theirs, store.location);
    if (mismatch) return failed(mismatch.found, mismatch.advice);
    await tryToKeep(store);
    return ok(`${store.location} answers, takes objects, and belongs to the database`);
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    return failed(
      error.message,
      error.isRefusal
        ? 'look at S3_URL: the bucket has to exist, and the key needs the right to read, write, list and delete in it'
        : 'look at S3_URL, at firewalls, and whether the S3 server is running: until it answers, mail above 64 KiB is deferred',
    );
  } finally {
    store.close();
  }
}

/** The database's store id, undefined before the first start; and whether nothing was set up in it yet. */
async function lookAtDatabase(config: StoreSettings) {
  const nothing = { storeId: undefined, isNew: true };
  if (!(await isDatabaseThere(config))) return nothing;
  await using database = await openToRead(config);
  const { version } = await schemaVersions(database);
  if (version === 0) return nothing;
  return { storeId: await storeIdOf(database), isNew: !(await hasDomains(database.read)) };
}

const MUCH_FREE = 1024 * 1024 * 1024;

/** The disk of a folder, or where that will be. @param database PostgreSQL keeps small mail on a disk of its own */
export async function checkDisk(
  path: string,
  { urls }: Pick<Config['database'], 'urls'>,
): Promise<Verdict> {
  const { bavail, bsize, blocks, files, ffree } = await statfs(path).catch((error: unknown) => {
    if (isMissing(error)) return statfs('.');
    throw error;
  });
  const free = bavail * bsize;
  const said = `${formatBytes(free)} free of ${formatBytes(blocks * bsize)}`;
  const deferred = urls === undefined ? 'mail' : 'mail above 64 KiB';
  if (free < FREE_BYTES_LEFT) return failed(said, `${deferred} is deferred: free some disk space`);
  // Some file systems do not count them.
  if (files > 0 && ffree === 0) {
    return failed(
      `${said}, but no inode is free`,
      'mail above 64 KiB is deferred: remove files, or make a file system with more inodes (df -i)',
    );
  }
  if (free < MUCH_FREE || bavail / blocks < 0.05) {
    return warning(
      said,
      `free some: below ${formatBytes(FREE_BYTES_LEFT)} ${deferred} is deferred`,
    );
  }
  return ok(said);
}
