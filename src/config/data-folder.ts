/**
 * The data folder: there, ours alone, and writable, before any part relies on it.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, stat, unlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  ConfigError,
  explainFileError,
  fileErrorCode,
  problemLine,
  quote,
} from './config-error.ts';
import { syncFolder } from './write-durably.ts';

/**
 * Makes the folder where it is missing (mode 0700, with its parents) and writes to it once.
 *
 * @param path DATA_DIR as an absolute path
 * @throws ConfigError when it cannot be made or written to
 */
export async function ensureDataDir(path: string): Promise<void> {
  try {
    await ensureFolder(path);
    // Permission bits do not tell: root passes them, read-only mounts and quotas ignore them.
    const probe = join(path, `.writable.${randomBytes(8).toString('hex')}.tmp`);
    await writeFile(probe, 'x', { flag: 'wx', mode: 0o600 });
    await unlink(probe);
  } catch (error) {
    throw dataDirError(path, error);
  }
}

/** What a start says when DATA_DIR, or a file of ours in it, cannot be written. */
export function dataDirError(path: string, error: unknown): ConfigError {
  const found = `${quote(path)} (${explainFileError(error)})`;
  return new ConfigError([problemLine('DATA_DIR', 'a writable folder', found)], { cause: error });
}

/**
 * Makes a folder and its missing parents (mode 0700).
 *
 * mkdir with `recursive` would not do: on Node 24 it never ends where a parent refuses new names
 * with ENOENT, as /proc does.
 *
 * @throws the file system's error
 */
export async function ensureFolder(path: string): Promise<void> {
  const missing: string[] = [];
  for (let folder = path; !(await isThere(folder)); folder = dirname(folder)) missing.push(folder);
  for (const folder of missing.reverse()) {
    try {
      await mkdir(folder, { mode: 0o700 });
    } catch (error) {
      // Another process was quicker.
      if (fileErrorCode(error) !== 'EEXIST') throw error;
    }
    await syncFolder(dirname(folder));
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return false;
    throw error;
  }
}
