/**
 * Whether a database and a folder of bodies belong together.
 *
 * Both carry the same store id, made at the first start: the database in `settings`, the folder in
 * the file `store-id`. A folder that lies beside a foreign database has files that no row names and
 * that are good mail all the same, so nothing is removed unless the ids are equal.
 */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Database, settingStore } from '../database/database.ts';
import { ensureFolder, isMissing, replaceDurably } from '../files/files.ts';
import type { BodyFolder } from './body-folder.ts';

const FILE = 'store-id';

/**
 * Compares the two ids. A database without one is given one; a folder without one is given the
 * database's where both are new.
 *
 * @param folder made where both are new
 * @param isNew whether nothing has been set up in the database yet
 * @returns what is wrong and what to do about it, in one line; undefined where the ids are equal
 */
export async function findMismatch(
  database: Database,
  folder: BodyFolder,
  isNew: boolean,
): Promise<string | undefined> {
  const store = settingStore(database, 'store_id');
  const ours = (await store.read()) ?? (await store.create(randomUUID()));
  const path = join(folder.path, FILE);
  const theirs = await readId(path);
  if (theirs === ours) return undefined;
  if (theirs === '' && isNew && (await folder.isEmpty())) {
    await ensureFolder(folder.path);
    await replaceDurably(path, `${ours}\n`, 0o600);
    return undefined;
  }
  const found = theirs === '' ? 'has no store-id' : `is of store ${theirs}`;
  return (
    `the database is of store ${ours}, the folder ${folder.path} ${found}: they do not belong together, ` +
    'so no mail is taken and no file is removed. Stop, put back the one that is missing, and start. ' +
    `Only if both are the right ones: write ${ours} to ${path}, and start`
  );
}

/** @returns `''` where the folder has none */
async function readId(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if (isMissing(error)) return '';
    throw error;
  }
}
