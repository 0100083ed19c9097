/**
 * Bodies that are files: `<folder>/<xx>/<uuid>`, each written once and never changed.
 *
 * A file that no row of the database names is not removed at once: it goes to `<folder>/quarantine`
 * under the same name, and from there after {@link QUARANTINED_MS}. A row that names a file in
 * quarantine (a newer database was put back) gets it back when the body is read or swept over. Files
 * that a crash left unnamed are swept, as long as folder and database belong together.
 */
import { randomUUID } from 'node:crypto';
import {
  type FileHandle,
  open,
  readdir,
  readFile,
  rename,
  stat,
  statfs,
  unlink,
  utimes,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type Database, settingStore } from '../database/database.ts';
import { ensureFolder, isMissing, replaceDurably, syncFolder } from '../files/files.ts';

/** How long a file stays in quarantine, in milliseconds. */
const QUARANTINED_MS = 7 * 86_400_000;

/**
 * Octets read at a time. What a decoder makes of them stays below the 128 KiB from which on malloc
 * fetches memory from the kernel for each buffer, which takes longer than decoding.
 */
const READ_CHUNK = 128 * 1024;

const QUARANTINE = 'quarantine';
const SUBFOLDER = /^[0-9a-f]{2}$/;
const FILE = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export class BodyFolder {
  /** Absolute path. */
  readonly path: string;
  readonly #made = new Set<string>();

  constructor(path: string) {
    this.path = path;
  }

  /** Begins a new file. */
  async create(): Promise<NewFile> {
    const id = randomUUID();
    const name = `${id.slice(0, 2)}/${id}`;
    await this.#makeFolderOf(name);
    return NewFile.open(name, join(this.path, name));
  }

  /**
   * Opens a file, and takes it out of quarantine first where it is there.
   *
   * @throws the file system's error; ENOENT where the file is gone
   */
  async open(name: string): Promise<FileHandle> {
    try {
      return await open(join(this.path, name));
    } catch (error) {
      if (!isMissing(error) || !(await this.restore(name))) throw error;
      return open(join(this.path, name));
    }
  }

  /** Removes a file that nothing refers to any more; none there is fine. */
  async remove(name: string): Promise<void> {
    await unlinkIfThere(join(this.path, name));
  }

  /** Bytes that are free on its disk. */
  async freeBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.path).catch((error: unknown) => {
      // It is made when the first large body comes.
      if (isMissing(error)) return statfs(dirname(this.path));
      throw error;
    });
    return bavail * bsize;
  }

  /** Whether no body was ever kept here; what others put here does not count. */
  async isEmpty(): Promise<boolean> {
    const names = await listFolder(this.path);
    return !names.some((name) => name === QUARANTINE || SUBFOLDER.test(name));
  }

  /** Names of the files in batches; files of other names are nobody's business here. */
  async *list(): AsyncGenerator<string[]> {
    yield* listBodies(this.path);
  }

  /** Names of the files in quarantine, likewise. */
  async *listQuarantine(): AsyncGenerator<string[]> {
    yield* listBodies(join(this.path, QUARANTINE));
  }

  /** Milliseconds since a file was last written, or undefined where it is gone. */
  age(name: string, now: number): Promise<number | undefined> {
    return ageOf(join(this.path, name), now);
  }

  /** Moves a file to quarantine; the time there begins `now`. */
  async quarantine(name: string, now: number): Promise<boolean> {
    await this.#makeFolderOf(join(QUARANTINE, name));
    const path = join(this.path, name);
    try {
      // Before the move: a crash in between makes the file look younger, never older.
      await utimes(path, now / 1000, now / 1000);
      await rename(path, join(this.path, QUARANTINE, name));
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }

  /** Moves a file back from quarantine. @returns false where it is not there */
  async restore(name: string): Promise<boolean> {
    try {
      await this.#makeFolderOf(name);
      await rename(join(this.path, QUARANTINE, name), join(this.path, name));
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
    await syncFolder(dirname(join(this.path, name)));
    return true;
  }

  /** Removes a file from quarantine if it has been there for its time. */
  async expire(name: string, now: number): Promise<boolean> {
    const path = join(this.path, QUARANTINE, name);
    const age = await ageOf(path, now);
    if (age === undefined || age < QUARANTINED_MS) return false;
    await unlinkIfThere(path);
    return true;
  }

  /** A file is only as durable as the folder entries on the way to it. */
  async #makeFolderOf(name: string): Promise<void> {
    const folder = dirname(name);
    if (this.#made.has(folder)) return;
    await ensureFolder(join(this.path, folder));
    this.#made.add(folder);
  }
}

/** A body on its way into a file. */
export class NewFile {
  readonly name: string;
  readonly #path: string;
  readonly #handle: FileHandle;

  private constructor(name: string, path: string, handle: FileHandle) {
    this.name = name;
    this.#path = path;
    this.#handle = handle;
  }

  static async open(name: string, path: string): Promise<NewFile> {
    return new NewFile(name, path, await open(path, 'wx', 0o600));
  }

  async write(chunk: Uint8Array): Promise<void> {
    let written = 0;
    while (written < chunk.length) {
      written += (await this.#handle.write(chunk, written)).bytesWritten;
    }
  }

  /** Ends the file; it is on the disk when this returns. */
  async finish(): Promise<void> {
    await this.#handle.sync();
    await this.#handle.close();
    await syncFolder(dirname(this.#path));
  }

  /** Best effort: the sweep finds what stays. */
  async abandon(): Promise<void> {
    await this.#handle.close().catch(() => {});
    await unlink(this.#path).catch(() => {});
  }
}

/**
 * Streams the bytes of a file from `start` up to but not including `end`.
 *
 * @param reuse reads every piece into the same memory
 */
export async function* readRange(
  handle: FileHandle,
  start: number,
  end: number,
  reuse: boolean,
): AsyncGenerator<Uint8Array> {
  let position = start;
  let memory: Buffer | undefined;
  while (position < end) {
    const chunk: Buffer = memory ?? Buffer.allocUnsafe(Math.min(READ_CHUNK, end - position));
    if (reuse) memory = chunk;
    const wanted = Math.min(chunk.length, end - position);
    const { bytesRead } = await handle.read(chunk, 0, wanted, position);
    if (bytesRead === 0) throw new Error('a body file is shorter than its row says');
    position += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

/** Files in one batch: the names in one query. */
const BATCH = 500;

async function* listBodies(root: string): AsyncGenerator<string[]> {
  for (const folder of await listFolder(root)) {
    if (!SUBFOLDER.test(folder)) continue;
    const files = (await listFolder(join(root, folder))).filter((file) => FILE.test(file));
    for (let at = 0; at < files.length; at += BATCH) {
      yield files.slice(at, at + BATCH).map((file) => `${folder}/${file}`);
    }
  }
}

async function listFolder(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

async function ageOf(path: string, now: number): Promise<number | undefined> {
  try {
    return now - (await stat(path)).mtimeMs;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function unlinkIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/*
 * Whether a database and a folder of bodies belong together.
 *
 * Both carry the same store id, made at the first start: the database in `settings`, the folder in
 * the file `store-id`. A folder that lies beside a foreign database has files that no row names and
 * that are good mail all the same, so nothing is removed unless the ids are equal.
 */

const ID_FILE = 'store-id';

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
  const path = join(folder.path, ID_FILE);
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

/* Clears away files that no row names: what a crash left between writing a body and committing it. */

/**
 * Files younger than this are spared: their message may be about to be committed, here or on another
 * node. A message is never on its way for that long.
 */
const SPARED_MS = 86_400_000;

/** Between batches of files, in milliseconds: a sweep of millions goes on beside everything else. */
const PAUSE_MS = 5;

export interface Swept {
  /** Files that no row names, moved to quarantine. */
  quarantined: number;
  /** Files in quarantine that a row names, moved back. */
  restored: number;
  /** Files whose time in quarantine was over. */
  removed: number;
}

/**
 * Looks through all files once. The caller has made sure that the folder is the database's.
 *
 * @param signal ends it early
 */
export async function sweepFiles(
  database: Database,
  folder: BodyFolder,
  now: number,
  signal: AbortSignal,
): Promise<Swept> {
  const swept = { quarantined: 0, restored: 0, removed: 0 };
  for await (const names of folder.listQuarantine()) {
    if (signal.aborted) return swept;
    const named = await findNamed(database, names);
    for (const name of names) {
      if (!named.has(name)) swept.removed += Number(await folder.expire(name, now));
      else swept.restored += Number(await folder.restore(name));
    }
    await pause(PAUSE_MS);
  }
  for await (const names of folder.list()) {
    if (signal.aborted) return swept;
    const named = await findNamed(database, names);
    for (const name of names) {
      if (named.has(name) || ((await folder.age(name, now)) ?? 0) < SPARED_MS) continue;
      swept.quarantined += Number(await folder.quarantine(name, now));
    }
    await pause(PAUSE_MS);
  }
  return swept;
}

/** Which of these files a row names. */
async function findNamed(
  { read }: Database,
  names: readonly string[],
): Promise<Set<string | null>> {
  const rows = await read.selectFrom('bodies').select('file').where('file', 'in', names).execute();
  return new Set(rows.map(({ file }) => file));
}
