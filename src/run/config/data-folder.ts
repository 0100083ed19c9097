/**
 * The data folder: it must exist, be closed to other users, and be writable before any part uses it; and it must
 * stay the same while the service runs.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, rename, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  closeToOthers,
  ensureFolder,
  fileErrorCode,
  isMissing,
  replaceDurably,
  syncFolder,
} from '../../platform/files/files.ts';
import { Repeat } from '../../platform/time/time.ts';
import { ConfigError, explainFileError, problemLine, quote } from './config-error.ts';

/** The file of SQLite. */
export function databaseFile(dataDir: string): string {
  return join(dataDir, 'postroom.sqlite');
}

/** What only the owner may open; everything else in the folder is made with mode 0600 or 0700. */
const PRIVATE = [
  '',
  'postroom.sqlite',
  'postroom.sqlite-wal',
  'postroom.sqlite-shm',
  'lock.sqlite',
  'secrets.json',
  'bodies',
  'tls',
  join('tls', 'key.pem'),
];

/**
 * Creates the folder where it is missing (mode 0700, with its parents), writes to it once, and closes its content to
 * other users.
 *
 * @param path DATA_DIR as an absolute path
 * @returns files and folders that other users can still open
 * @throws ConfigError when it cannot be created or written to, or a restore has not filled it
 */
export async function ensureDataDir(path: string): Promise<string[]> {
  if (existsSync(join(path, UNFINISHED_RESTORE))) throw restoreUnfinished(path);
  try {
    await ensureFolder(path);
    // Permission bits are not enough: root bypasses them, read-only mounts and quotas ignore them.
    const probe = join(path, `.writable.${randomBytes(8).toString('hex')}.tmp`);
    await writeFile(probe, 'x', { flag: 'wx', mode: 0o600 }).catch(passFullDisk);
    await unlink(probe).catch(passMissing);
  } catch (error) {
    throw dataDirError(path, error);
  }
  const open: string[] = [];
  for (const name of PRIVATE) {
    if (await closeToOthers(join(path, name))) open.push(join(path, name));
  }
  return open;
}

/** The file that marks a data folder which a restore has not filled yet. */
export const UNFINISHED_RESTORE = 'restore-unfinished';

function restoreUnfinished(path: string): ConfigError {
  return new ConfigError([
    `DATA_DIR: a restore into ${quote(path)} is running or was interrupted; if it was interrupted, run "postroom restore" again: it starts from the beginning`,
  ]);
}

/** A move of a data folder to PostgreSQL, as the folder remembers it. */
export interface FolderMove {
  /** UUID of the move; the database that it fills has it too. */
  readonly id: string;
  /** Of the database that is moved. */
  readonly storeId: string;
  /** The database that it is moved to: its URL without the password. */
  readonly to: string;
  /** Where the bodies are moved to; null: they stay where they are. */
  readonly bodies: string | null;
  /** ISO 8601. */
  readonly begunAt: string;
}

/** The file of a move that is under way. Any other program that opens the database removes it: it may change rows. */
const BEGUN_MOVE = 'move-unfinished.json';
/** The file of a move that is complete: the database in this folder is the old one. */
const MOVED = 'moved.json';

/** Remembers a move; from {@link completeMove} on, no service starts on the database in this folder. */
export async function beginMove(dataDir: string, move: FolderMove): Promise<void> {
  await replaceDurably(join(dataDir, BEGUN_MOVE), `${JSON.stringify(move, undefined, 2)}\n`, 0o600);
}

/** Needs no space on the disk, which may be full. */
export async function completeMove(dataDir: string): Promise<void> {
  await rename(join(dataDir, BEGUN_MOVE), join(dataDir, MOVED));
  await syncFolder(dataDir);
}

/** What is moved again begins again. */
export async function forgetMove(dataDir: string): Promise<void> {
  await unlink(join(dataDir, BEGUN_MOVE)).catch(passMissing);
}

/** The last move of this folder; undefined where there was none, or somebody used the database since. */
export async function readMove(
  dataDir: string,
): Promise<(FolderMove & { readonly isComplete: boolean }) | undefined> {
  for (const name of [MOVED, BEGUN_MOVE]) {
    const path = join(dataDir, name);
    try {
      return { ...JSON.parse(await readFile(path, 'utf8')), isComplete: name === MOVED };
    } catch (error) {
      if (isMissing(error)) continue;
      const found = error instanceof SyntaxError ? 'no JSON' : explainFileError(error);
      throw new ConfigError([problemLine(path, 'what a move has written', found)], {
        cause: error,
      });
    }
  }
  return undefined;
}

/** @throws ConfigError where the database in the folder is the old one, after a move to PostgreSQL */
export async function refuseMoved(dataDir: string): Promise<void> {
  const move = await readMove(dataDir);
  if (!move?.isComplete) return;
  const isBucket = move.bodies?.startsWith('http');
  const bucket = isBucket ? `, and S3_URL to ${move.bodies}` : '';
  const bodiesFirst = isBucket
    ? 'bring the bodies back with these settings (`postroom move --bodies folder`), then '
    : '';
  throw new ConfigError([
    `DATA_DIR: the data in ${quote(dataDir)} was moved to ${move.to}, and is out of date here: set DATABASE_URL to that database${bucket}. ` +
      `To go back to the old data, ${bodiesFirst}drop that database, with all mail that came since, and remove ${join(dataDir, MOVED)}`,
  ]);
}

/** Milliseconds between two checks of the data folder. */
const LOOK_EVERY_MS = 2_000;

/**
 * Checks every two seconds whether files and folders are still the same: a folder that was renamed, removed or mounted
 * over still accepts writes, but nobody finds them again.
 *
 * @param paths those that exist now are watched
 * @param onGone called once, with the first that is not the same any more; nothing is watched after that
 * @returns stops it, available after all were checked for the first time
 */
export async function watchPaths(
  paths: readonly string[],
  onGone: (path: string) => void,
): Promise<() => void> {
  const known = new Map<string, string>();
  for (const path of paths) {
    const identity = await identityOf(path);
    if (identity !== undefined) known.set(path, identity);
  }
  const task = async (signal: AbortSignal) => {
    for (const [path, identity] of known) {
      const found = await identityOf(path);
      if (signal.aborted) return;
      if (found === identity) continue;
      void watch.stop();
      onGone(path);
      return;
    }
  };
  const watch = new Repeat({ everyMs: LOOK_EVERY_MS, task });
  watch.start();
  return () => void watch.stop();
}

/** Device and inode; undefined where they cannot be read. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev} ${ino}`;
  } catch {
    return undefined;
  }
}

/** A disk without free space still serves what is on it: mail is deferred, everything else can be read. */
function passFullDisk(error: unknown): void {
  if (!['ENOSPC', 'EDQUOT'].includes(fileErrorCode(error) ?? '')) throw error;
}

function passMissing(error: unknown): void {
  if (fileErrorCode(error) !== 'ENOENT') throw error;
}

/** The error of a start where DATA_DIR, or a file in it, cannot be written. @param key another setting of a folder */
export function dataDirError(path: string, error: unknown, key = 'DATA_DIR'): ConfigError {
  const found = `${quote(path)} (${explainFileError(error)})`;
  return new ConfigError([problemLine(key, 'a writable folder', found)], { cause: error });
}
