/**
 * Files that are there whole or not at all, also after a power cut.
 */
import { randomBytes } from 'node:crypto';
import { link, open, rename, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileErrorCode } from './config-error.ts';

/**
 * Writes a file unless there is one already. Of several writers at once, in any process, exactly
 * one succeeds, and no reader ever sees a part of the text.
 *
 * @param mode permission bits, e.g. 0o600
 * @returns whether this call wrote the file
 */
export async function createDurably(path: string, text: string, mode: number): Promise<boolean> {
  const temporary = await writeTemporary(path, text, mode);
  try {
    // Unlike rename, link fails where the name is taken.
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

/** Writes a file over the one that is there, if any. */
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
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } catch (error) {
    // Some file systems (network, FUSE) have no fsync for folders and say so.
    if (!['EINVAL', 'ENOTSUP'].includes(fileErrorCode(error) ?? '')) throw error;
  } finally {
    await folder.close();
  }
}

async function writeTemporary(path: string, text: string, mode: number): Promise<string> {
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`;
  const file = await open(temporary, 'wx', mode);
  try {
    await file.writeFile(text);
    await file.sync();
  } catch (error) {
    await unlink(temporary);
    throw error;
  } finally {
    await file.close();
  }
  return temporary;
}
