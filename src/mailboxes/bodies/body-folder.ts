/** The store of bodies that is a folder of this machine (`body-store.ts` has its layout). */

import {
  type FileHandle,
  open,
  readdir,
  readFile,
  rename,
  stat,
  unlink,
  utimes,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { when } from '../../platform/errors/errors.ts';
import {
  ensureFolder,
  freeBytesAt,
  isMissing,
  replaceDurably,
  syncFolder,
} from '../../platform/files/files.ts';
import {
  BodyLost,
  type BodyStore,
  isBodyName,
  isLost,
  type NewBody,
  type Note,
  newBodyName,
  QUARANTINE,
  type WantedBytes,
} from './body-store.ts';

/**
 * Bytes read at a time. A decoder's result stays below 128 KiB, from which malloc fetches memory from the kernel
 * for each buffer; that takes longer than decoding.
 */
const READ_CHUNK = 128 * 1024;

const SUBFOLDER = /^[0-9a-f]{2}$/;

export class BodyFolder implements BodyStore {
  readonly isRemote = false;
  /** Absolute path. */
  readonly location: string;
  readonly #made = new Set<string>();

  constructor(path: string) {
    this.location = path;
  }

  async create(name = newBodyName()): Promise<NewBody> {
    const path = join(this.location, name);
    const handle = await this.#inFolderOf(name, () => open(path, 'wx', 0o600));
    return new NewFile(name, path, handle);
  }

  /** Its file is opened before the first piece is yielded, and stays readable when it is removed meanwhile. */
  async *read(name: string, { start, end }: WantedBytes): AsyncGenerator<Uint8Array> {
    const handle = await this.#open(name);
    try {
      yield* readRange(handle, start, end);
    } finally {
      await handle.close();
    }
  }

  async #open(name: string): Promise<FileHandle> {
    // The first folder once more: a sweep may move the body back between the two.
    for (const folder of ['', QUARANTINE, '']) {
      const path = join(this.location, folder, name);
      const handle = await open(path).catch(when(isMissing, undefined));
      if (handle) return handle;
    }
    throw new BodyLost(`${join(this.location, name)} is missing`);
  }

  async has(name: string): Promise<boolean> {
    const handle = await this.#open(name).catch(when(isLost, undefined));
    await handle?.close();
    return handle !== undefined;
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) await removeFile(join(this.location, name));
  }

  freeBytes(): Promise<number> {
    return freeBytesAt(this.location).catch((error: unknown) => {
      // The folder is created when the first large body comes.
      if (isMissing(error)) return freeBytesAt(dirname(this.location));
      throw error;
    });
  }

  async readNote(note: Note): Promise<string> {
    const text = await readFile(join(this.location, note), 'utf8').catch(when(isMissing, ''));
    return text.trim();
  }

  async writeNote(note: Note, text: string): Promise<void> {
    await ensureFolder(this.location);
    await replaceDurably(join(this.location, note), `${text}\n`, 0o600);
  }

  async removeNote(note: Note): Promise<void> {
    await removeFile(join(this.location, note));
    await syncFolder(this.location);
  }

  async isEmpty(): Promise<boolean> {
    const names = await listFolder(this.location);
    return !names.some((name) => name === QUARANTINE || SUBFOLDER.test(name));
  }

  list(): AsyncGenerator<string[]> {
    return listBodies(this.location);
  }

  async *listQuarantined(before: number): AsyncGenerator<string[]> {
    for await (const names of listBodies(join(this.location, QUARANTINE))) {
      const due: string[] = [];
      for (const name of names) {
        const age = await ageOf(join(this.location, QUARANTINE, name), before);
        if (age !== undefined && age > 0) due.push(name);
      }
      yield due;
    }
  }

  age(name: string, now: number): Promise<number | undefined> {
    return ageOf(join(this.location, name), now);
  }

  async quarantine(names: readonly string[], now: number): Promise<number> {
    let moved = 0;
    for (const name of names) moved += Number(await this.#quarantine(name, now));
    return moved;
  }

  /** @returns false where it does not exist */
  async #quarantine(name: string, now: number): Promise<boolean> {
    const path = join(this.location, name);
    // Before the move: after a crash in between the file looks younger, never older.
    const marked = utimes(path, now / 1000, now / 1000).then(() => true);
    const isThere = await marked.catch(when(isMissing, false));
    return isThere && this.#move(name, join(QUARANTINE, name));
  }

  /** @returns false where the file does not exist */
  #move(from: string, to: string): Promise<boolean> {
    const [old, path] = [join(this.location, from), join(this.location, to)];
    const moved = this.#inFolderOf(to, () => rename(old, path)).then(() => true);
    return moved.catch(when(isMissing, false));
  }

  async restore(name: string): Promise<boolean> {
    const isMoved = await this.#move(join(QUARANTINE, name), name);
    if (isMoved) await syncFolder(dirname(join(this.location, name)));
    return isMoved;
  }

  async removeQuarantined(names: readonly string[]): Promise<void> {
    for (const name of names) await removeFile(join(this.location, QUARANTINE, name));
  }

  /** An unfinished file looks like any other: the sweep finds it as one that no row names. */
  async sweepUnfinished(): Promise<void> {}

  close(): void {}

  /** Does what needs the folder of a body, which is made again where an operator has removed it. */
  async #inFolderOf<T>(name: string, act: () => Promise<T>): Promise<T> {
    await this.#makeFolderOf(name);
    try {
      return await act();
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#made.delete(dirname(name));
      await this.#makeFolderOf(name);
      return act();
    }
  }

  /** A file is only as durable as the folder entries on the way to it. */
  async #makeFolderOf(name: string): Promise<void> {
    const folder = dirname(name);
    if (this.#made.has(folder)) return;
    // Where the store's own folder is gone, a new one would take bodies that nobody finds again.
    await ensureFolder(join(this.location, folder), this.location);
    this.#made.add(folder);
  }
}

class NewFile implements NewBody {
  readonly name: string;
  readonly #path: string;
  readonly #handle: FileHandle;

  constructor(name: string, path: string, handle: FileHandle) {
    this.name = name;
    this.#path = path;
    this.#handle = handle;
  }

  /** At the end of what was written before. */
  write(chunk: Uint8Array): Promise<void> {
    return this.#handle.writeFile(chunk);
  }

  async finish(): Promise<void> {
    await this.#handle.sync();
    await this.#handle.close();
    await syncFolder(dirname(this.#path));
  }

  async abandon(): Promise<void> {
    await this.#handle.close().catch(() => {});
    await unlink(this.#path).catch(() => {});
  }
}

/** Streams the bytes of a file from `start` up to but not including `end`. */
export async function* readRange(
  handle: FileHandle,
  start: number,
  end: number,
): AsyncGenerator<Uint8Array> {
  let position = start;
  while (position < end) {
    const chunk = Buffer.allocUnsafe(Math.min(READ_CHUNK, end - position));
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) throw new BodyLost('the file is shorter than its row says');
    position += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

/** Files in one batch: the names in one query. */
const BATCH = 500;

/** Names of the bodies below a folder. */
async function* listBodies(root: string): AsyncGenerator<string[]> {
  for (const folder of await listFolder(root)) {
    if (!SUBFOLDER.test(folder)) continue;
    const files = (await listFolder(join(root, folder))).map((file) => `${folder}/${file}`);
    const names = files.filter(isBodyName);
    for (let at = 0; at < names.length; at += BATCH) yield names.slice(at, at + BATCH);
  }
}

function listFolder(path: string): Promise<string[]> {
  return readdir(path).catch(when(isMissing, []));
}

async function ageOf(path: string, now: number): Promise<number | undefined> {
  const found = await stat(path).catch(when(isMissing, undefined));
  return found && now - found.mtimeMs;
}

/** A file that is not there counts as removed. */
function removeFile(path: string): Promise<void> {
  return unlink(path).catch(when(isMissing, undefined));
}
