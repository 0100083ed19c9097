/**
 * Restores a backup into an empty installation.
 *
 * All of the backup is checked before anything is written. Then DATA_DIR gets a mark, which keeps services and other
 * commands out of it until everything is restored. A restore that was cut short begins again with the same command:
 * all files in a marked folder are those of a restore. On PostgreSQL the database is restored in one transaction,
 * and has a mark of its own (`database/postgres/filling.ts`), since services on other machines do not see the folder.
 *
 * Each mailbox gets a new UIDVALIDITY: apps may have seen mail that is newer than the backup, and its UIDs are given
 * again. Apps then sync from the start (RFC 9051 section 2.3.1.1). New ids are far above those of the backup, so
 * that no token or name from after the backup opens something else. Everybody has to sign in again: the backup may
 * have sessions that were ended since.
 */

import { existsSync } from 'node:fs';
import { access, constants, lstat, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { sql } from 'kysely';
import { renewSends } from '../../mail/sending/sending.ts';
import { BodyFolder } from '../../mailboxes/bodies/bodies.ts';
import { markAllShadows } from '../../mailboxes/mail-server/mail-server.ts';
import { renewUidvalidity } from '../../mailboxes/mailstore/mailstore.ts';
import {
  type Database,
  FillRefused,
  lockDirectory,
  newestSchema,
  noteFilling,
  openPostgres,
  openSqlite,
  type Queries,
  whileMarked,
} from '../../platform/database/database.ts';
import { when } from '../../platform/errors/errors.ts';
import { createDurably, ensureFolder, isMissing, syncFolder } from '../../platform/files/files.ts';
import { UNFINISHED_RESTORE } from '../config/config.ts';
import {
  BackupFailed,
  BODIES_COPY,
  DATABASE_COPY,
  type Digests,
  explainUnfit,
  isBodyPath,
  type Manifest,
  openFile,
  readDigests,
  readManifest,
  SECRETS_COPY,
  writeStream,
} from './manifest.ts';
import { restorePostgres } from './postgres-dump.ts';
import { type VerifyOptions, verifyBackup } from './verify.ts';

export interface RestoreOptions extends VerifyOptions {
  /** Absolute path of DATA_DIR. */
  readonly dataDir: string;
  /** PostgreSQL, by each of its hosts; undefined: SQLite in DATA_DIR. */
  readonly urls: readonly string[] | undefined;
}

/** Restores a backup. @throws BackupFailed, StoreUnavailable, the file system's error */
export async function restoreBackup(options: RestoreOptions): Promise<Manifest> {
  const { urls, dataDir } = options;
  // The whole backup is read next, which may take an hour. On PostgreSQL the folder may be that of a restore which only
  // lacks its last step: the mark of the database says so, later.
  await refuseUnusable(options);
  if (!urls) await refuseFolder(dataDir);
  await checkTarget(options, await readManifest(options.folder));
  const manifest = await verifyBackup(options);
  if (urls) {
    const filling = { command: 'restore', setting: 'DATABASE_URL', begun: null } as const;
    // The note is the `sums` of the backup that filled the whole database.
    await whileMarked(urls, filling, async ({ note, empty }) => {
      if (note === manifest.sums && (await isWhole(options, manifest))) return;
      await fill(options, manifest, empty);
    }).catch((error: unknown) => {
      throw error instanceof FillRefused ? new BackupFailed(error.message) : error;
    });
  } else {
    await fill(options, manifest, async () => {});
  }
  return manifest;
}

/** Whether DATA_DIR has everything that an earlier restore of the backup wrote. */
async function isWhole({ dataDir }: RestoreOptions, manifest: Manifest): Promise<boolean> {
  if (existsSync(join(dataDir, UNFINISHED_RESTORE))) return false;
  if (manifest.bucket !== null) return true;
  const note = await new BodyFolder(join(dataDir, BODIES_COPY)).readNote('store-id');
  return note === manifest.store_id;
}

/** @param emptyDatabase removes what an earlier restore left in PostgreSQL */
async function fill(
  options: RestoreOptions,
  manifest: Manifest,
  emptyDatabase: () => Promise<void>,
): Promise<void> {
  const { folder, dataDir, urls } = options;
  const unlock = await takeFolder(dataDir);
  try {
    await emptyDatabase();
    await copyFiles(options, await readDigests(folder, manifest), manifest.missing);
    if (manifest.bucket === null) {
      await new BodyFolder(join(dataDir, BODIES_COPY)).writeNote('store-id', manifest.store_id);
    }
    options.onProgress('restoring the database');
    if (urls) await restorePostgres(urls, join(folder, DATABASE_COPY.postgres));
    const database = await openRestored(options);
    try {
      await database.write(async (tx) => {
        await renewSends(tx, () => renewUidvalidity(tx, Date.now()));
        await markAllShadows(tx);
        await skipIds(tx, urls ? 'postgres' : 'sqlite');
        await tx.deleteFrom('console_sessions').execute();
        await tx.deleteFrom('remembered_logins').execute();
        if (urls) await noteFilling(tx, manifest.sums);
      });
    } finally {
      await database.close();
    }
    await syncFolder(dataDir);
    await rm(join(dataDir, UNFINISHED_RESTORE));
    await syncFolder(dataDir);
  } catch (error) {
    // What cannot be removed now stays marked, and the next restore removes it.
    await emptyDatabase().catch(() => {});
    await emptyFolder(dataDir).catch(() => {});
    if (!(error instanceof BackupFailed)) throw error;
    throw new BackupFailed(`${error.message}; nothing was restored: mend that, and run it again`);
  } finally {
    unlock();
  }
}

/** Tables whose ids are known to apps, tokens and receivers. */
const KNOWN_BY_ID = ['domains', 'accounts', 'bodies', 'deliveries'];
/** More ids than a service uses between two backups. */
const IDS_SKIPPED = 1_000_000_000;

async function skipIds(tx: Queries, engine: 'postgres' | 'sqlite'): Promise<void> {
  for (const table of KNOWN_BY_ID) {
    const skip =
      engine === 'sqlite'
        ? sql`update sqlite_sequence set seq = seq + ${IDS_SKIPPED} where name = ${table}`
        : sql`select setval(one, nextval(one) + ${IDS_SKIPPED}) from pg_get_serial_sequence(${table}, 'id') as one`;
    await skip.execute(tx);
  }
}

/** @throws BackupFailed where the backup does not match the settings */
async function checkTarget({ urls, bucket }: RestoreOptions, manifest: Manifest): Promise<void> {
  const engine = urls ? 'postgres' : 'sqlite';
  if (manifest.engine !== engine) {
    const wanted = manifest.engine === 'sqlite' ? 'leave DATABASE_URL out' : 'set DATABASE_URL';
    throw new BackupFailed(
      `the backup was made on ${manifest.engine}, but the settings name another database: ${wanted}`,
    );
  }
  const newest = newestSchema(engine);
  if (manifest.schema > newest) {
    throw new BackupFailed(
      `the backup has schema version ${manifest.schema}, made by Postroom ${manifest.program}, but this program knows only versions up to ${newest}: restore it with the newer program`,
    );
  }
  if (manifest.bucket === null && bucket) {
    throw new BackupFailed(
      'the backup contains the bodies: restore it without S3_URL, then run "postroom move --bodies s3"',
    );
  }
  if (manifest.bucket !== null && (await bucket?.readNote('store-id')) !== manifest.store_id) {
    throw new BackupFailed(
      `the bodies in ${bucket?.location} do not belong to store ${manifest.store_id}: set S3_URL to the bucket of the backup, ${manifest.bucket}`,
    );
  }
}

/** Marks DATA_DIR, and removes from it what an earlier restore left. @returns releases the folder */
async function takeFolder(dataDir: string): Promise<() => void> {
  const names = await refuseFolder(dataDir);
  await ensureFolder(dataDir);
  const text = 'A restore into this folder is not complete.\n';
  const isFirst = await createDurably(join(dataDir, UNFINISHED_RESTORE), text, 0o600);
  if (!isFirst && names.length === 0) throw busy(dataDir);
  const unlock = lockDirectory(dataDir);
  if (!unlock) throw busy(dataDir);
  await removeRestored(dataDir);
  return unlock;
}

/** Writes nothing. @throws BackupFailed where DATA_DIR cannot be made or written to, or lies in the backup */
async function refuseUnusable({ folder, dataDir }: RestoreOptions): Promise<void> {
  if (`${dataDir}/`.startsWith(`${folder}/`)) {
    throw new BackupFailed(
      `DATA_DIR: ${dataDir} is in the backup, where nothing may be written: restore into another folder`,
    );
  }
  let location = dataDir;
  // Where it is missing, it is made in the first of its parents that exists.
  while (!(await isName(location))) location = dirname(location);
  try {
    await readdir(location);
    await access(location, constants.W_OK);
  } catch (error) {
    const why = error instanceof Error ? error.message : error;
    throw new BackupFailed(`DATA_DIR: ${dataDir} cannot be used: ${why}`);
  }
}

/** Whether there is something of that name, be it a link to nothing. */
async function isName(path: string): Promise<boolean> {
  // Where it cannot be told, its parent is no folder or closed to us, which is told of the parent.
  return (
    dirname(path) === path ||
    lstat(path).then(
      () => true,
      () => false,
    )
  );
}

/**
 * Writes nothing.
 *
 * @returns what is in DATA_DIR
 * @throws BackupFailed where it has anything but an unfinished restore
 */
async function refuseFolder(dataDir: string): Promise<string[]> {
  const names = await readdir(dataDir).catch(when<string[]>(isMissing, []));
  if (names.length === 0 || names.includes(UNFINISHED_RESTORE)) return names;
  const [other] = names.filter((name) => !name.startsWith(LOCK_FILE));
  // The lock would create its file where there is none; here nothing may be created.
  const unlock = names.includes(LOCK_FILE) ? lockDirectory(dataDir) : () => {};
  if (!unlock) throw busy(dataDir);
  unlock();
  if (other === undefined) return names;
  throw new BackupFailed(
    `DATA_DIR: expected an empty folder, got ${dataDir} with ${other}: restore into an empty folder`,
  );
}

function busy(dataDir: string): BackupFailed {
  return new BackupFailed(
    `DATA_DIR: a service or a command is using ${dataDir}: stop it, and restore into an empty folder`,
  );
}

/** Removes what a restore wrote, and not yet its mark. */
async function removeRestored(dataDir: string): Promise<void> {
  for (const name of await readdir(dataDir)) {
    if (name === UNFINISHED_RESTORE || name.startsWith(LOCK_FILE)) continue;
    await rm(join(dataDir, name), { recursive: true });
  }
}

/** After a restore that failed: the folder can be used for another one. */
async function emptyFolder(dataDir: string): Promise<void> {
  await removeRestored(dataDir);
  await rm(join(dataDir, UNFINISHED_RESTORE));
}

const LOCK_FILE = 'lock.sqlite';

async function copyFiles(
  { folder, dataDir, urls, onProgress }: RestoreOptions,
  digests: Digests,
  missing: readonly string[],
): Promise<void> {
  let copied = 0;
  const lost = new Set(missing.map((file) => `${BODIES_COPY}/${file}`));
  for (const [path, digest] of digests) {
    if (lost.has(path)) continue;
    const isFile = isBodyPath(path) || path === DATABASE_COPY.sqlite || path === SECRETS_COPY;
    if (urls ? !isBodyPath(path) : !isFile) continue;
    const source = await openFile(folder, path);
    if ((await writeStream(source, join(dataDir, path))) !== digest) {
      throw new BackupFailed(`${join(folder, path)} changed while it was restored`);
    }
    onProgress(`${++copied} of ${digests.size} files restored`);
  }
}

/** Opens the restored data as the service does: its schema is migrated, and its tables are checked. */
async function openRestored({ dataDir, urls }: RestoreOptions): Promise<Database> {
  const opening = urls
    ? openPostgres({ url: urls, isFilling: true })
    : openSqlite({ path: join(dataDir, DATABASE_COPY.sqlite) });
  return opening.catch(explainUnfit);
}
