/**
 * Files and folders of the service: written completely or not at all, also after a power cut, and readable by no other
 * user.
 */
import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, open, rename, stat, statfs, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Code of a file system error such as `ENOENT`; undefined for any other error. */
export function fileErrorCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}

/** Whether an error says that a file or folder does not exist. */
export function isMissing(error: unknown): boolean {
  return fileErrorCode(error) === 'ENOENT';
}

/**
 * Makes a folder and its missing parents (mode 0700), durably.
 *
 * mkdir with `recursive` would not work: on Node 24 it never ends where a parent refuses new names with ENOENT, as
 * /proc does.
 *
 * @param within a folder above it that must exist; it and its parents are not made
 * @throws the file system's error
 */
export async function ensureFolder(path: string, within?: string): Promise<void> {
  const missing: string[] = [];
  for (let folder = path; !(await isThere(folder)); folder = dirname(folder)) {
    missing.push(folder);
    if (dirname(folder) === within) break;
  }
  for (const folder of missing.reverse()) {
    try {
      await mkdir(folder, { mode: 0o700 });
    } catch (error) {
      // Another process was faster.
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
    if (isMissing(error)) return false;
    throw error;
  }
}

/**
 * Closes a file or folder to all but its owner: a copy from a backup, or a folder that an administrator made, may be
 * open to all.
 *
 * @returns whether others can still open it, since it belongs to another user or the file system refuses
 */
export async function closeToOthers(path: string): Promise<boolean> {
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0) await chmod(path, mode & 0o700);
    return false;
  } catch (error) {
    return !isMissing(error);
  }
}

/**
 * Writes a file unless it exists. Of several writers at once, in any process, exactly one succeeds, and no reader ever
 * sees a part of the text.
 *
 * @param mode permission bits, e.g. 0o600
 * @returns whether this call wrote the file
 */
export async function createDurably(path: string, text: string, mode: number): Promise<boolean> {
  const temporary = await writeTemporary(path, text, mode);
  try {
    // Unlike rename, link fails where the name exists.
    await link(temporary, path);
  } catch (error) {
    if (fileErrorCode(error) === 'EEXIST') return false;
    throw error;
  } finally {
    await unlink(temporary);
  }
  await syncFolder(dirname(path));
  return true;
}

/** Writes a file, and replaces an existing one. */
export async function replaceDurably(path: string, text: string, mode: number): Promise<void> {
  const temporary = await writeTemporary(path, text, mode);
  try {
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary);
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Makes the names in a folder durable: fsync of a file does not cover its directory entry. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r');
  try {
    await folder.sync();
  } catch (error) {
    // Some file systems (network, FUSE) have no fsync for folders and say so.
    if (!['EINVAL', 'ENOTSUP'].includes(fileErrorCode(error) ?? '')) throw error;
  }
}

/** What the disk of a folder has free for this user. @throws the file system's error */
export async function freeBytesAt(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** Of folders those that are there, the first on each disk. */
export async function firstOnDisks(folders: readonly string[]): Promise<string[]> {
  const first = new Map<number, string>();
  for (const folder of folders) {
    const found = await stat(folder).catch(() => undefined);
    if (found && !first.has(found.dev)) first.set(found.dev, folder);
  }
  return [...first.values()];
}

async function writeTemporary(path: string, text: string, mode: number): Promise<string> {
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`;
  await using file = await open(temporary, 'wx', mode);
  try {
    await file.writeFile(text);
    await file.sync();
  } catch (error) {
    await unlink(temporary);
    throw error;
  }
  return temporary;
}
