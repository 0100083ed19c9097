/**
 * The data folder: there, ours alone, and writable, before any part relies on it.
 */
import { randomBytes } from 'node:crypto';
import { unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ensureFolder } from '../files/files.ts';
import { ConfigError, explainFileError, problemLine, quote } from './config-error.ts';

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
