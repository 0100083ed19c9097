/**
 * The data folder: there, ours alone, and writable, before any part relies on it; and still the same
 * while the service runs.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { closeToOthers, ensureFolder, fileErrorCode } from '../files/files.ts';
import { ConfigError, explainFileError, problemLine, quote } from './config-error.ts';

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
 * Makes the folder where it is missing (mode 0700, with its parents), writes to it once, and closes
 * what is in it to other users.
 *
 * @param path DATA_DIR as an absolute path
 * @returns files and folders that other users can still open
 * @throws ConfigError when it cannot be made or written to, or a restore has not filled it
 */
export async function ensureDataDir(path: string): Promise<string[]> {
  if (existsSync(join(path, UNFINISHED_RESTORE))) throw restoreUnfinished(path);
  try {
    await ensureFolder(path);
    // Permission bits do not tell: root passes them, read-only mounts and quotas ignore them.
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

/** In a data folder that a restore has not filled yet. */
export const UNFINISHED_RESTORE = 'restore-unfinished';

function restoreUnfinished(path: string): ConfigError {
  return new ConfigError([
    `DATA_DIR: a restore into ${quote(path)} is running or was interrupted; if it was interrupted, run "postroom restore" again: it starts from the beginning`,
  ]);
}

/** Milliseconds between two looks at the data folder. */
const LOOK_EVERY_MS = 2_000;

/**
 * Looks every two seconds whether files and folders are still the ones that they were: a folder that
 * was renamed, removed or mounted over still takes what is written, and nobody finds it again.
 *
 * @param paths those that are there now are looked after
 * @param onGone told once, of the first that is not the same any more; nothing is looked at after that
 * @returns what ends it, once all have been looked at for the first time
 */
export async function watchPlaces(
  paths: readonly string[],
  onGone: (path: string) => void,
): Promise<() => void> {
  const known = new Map<string, string>();
  for (const path of paths) {
    const identity = await identityOf(path);
    if (identity !== undefined) known.set(path, identity);
  }
  let isEnded = false;
  const look = async () => {
    for (const [path, identity] of known) {
      const found = await identityOf(path);
      if (isEnded) return;
      if (found !== identity) return onGone(path);
    }
    setTimeout(() => void look(), LOOK_EVERY_MS).unref();
  };
  setTimeout(() => void look(), LOOK_EVERY_MS).unref();
  return () => {
    isEnded = true;
  };
}

/** Device and inode; undefined where it cannot be looked at. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev} ${ino}`;
  } catch {
    return undefined;
  }
}

/** A disk without free space still serves what is on it: mail is put off, all else can be read. */
function passFullDisk(error: unknown): void {
  if (!['ENOSPC', 'EDQUOT'].includes(fileErrorCode(error) ?? '')) throw error;
}

function passMissing(error: unknown): void {
  if (fileErrorCode(error) !== 'ENOENT') throw error;
}

/** What a start says when DATA_DIR, or a file of ours in it, cannot be written. */
export function dataDirError(path: string, error: unknown): ConfigError {
  const found = `${quote(path)} (${explainFileError(error)})`;
  return new ConfigError([problemLine('DATA_DIR', 'a writable folder', found)], { cause: error });
}
