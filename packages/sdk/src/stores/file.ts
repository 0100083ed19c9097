/// <reference types="node" />
/**
 * `@postroom/sdk/file`: the copy in memory, with a file that it is read from: for Node without SQLite, and small
 * mailboxes.
 *
 * The file is a log: a line for each transaction, with a checksum, so that a crash leaves whole transactions alone. At
 * twice its size it is written anew. Each line says how much of the file was known to be on the disk before it. So a
 * line that is broken and was not is a torn tail, which is cut; one that was is damage, which is refused.
 */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { MemoryStore } from '../mail/memory-store.ts';
import {
  type Change,
  type Durability,
  type Key,
  type Store,
  TABLES,
  type TableName,
} from '../mail/store.ts';
import { LockFile } from './lock-file.ts';
import { readRow, writeRow } from './row-text.ts';

const HEADER = 'postroom mail copy, version 1';
/** A smaller file is never written anew. */
const SMALLEST = 256 * 1024;
/** Rows in one line of a file that is written anew. */
const ROWS_AT_A_TIME = 500;

/**
 * Opens the file, or makes it, readable by its owner alone.
 *
 * @throws Error where another process has it open, or it is damaged, or is not one of this store
 */
export function fileStore(path: string): Store {
  return new FileStore(path);
}

class FileStore extends MemoryStore implements Store {
  onLost?: (reason: Error) => void;
  readonly #path: string;
  readonly #lock: LockFile;
  #file: number;
  /** Octets of the file, and how many of them are known to be on the disk. */
  #size = 0;
  #synced = 0;
  /** Octets that it had when it was written anew. */
  #compacted = 0;
  #lost: Error | undefined;
  /** By name: when those are over that came before. */
  readonly #locks = new Map<string, Promise<void>>();

  constructor(path: string) {
    super();
    this.#path = path;
    this.#lock = new LockFile(`${path}.lock`);
    try {
      const isNew = !existsSync(path);
      const octets = isNew ? Buffer.alloc(0) : readFileSync(path);
      this.#file = openSync(path, 'a', 0o600);
      const header = writeLine(0, HEADER);
      // A program that died while it made the file left a beginning of its first line.
      if (octets.length < header.length && header.subarray(0, octets.length).equals(octets)) {
        ftruncateSync(this.#file);
        this.#append(HEADER, 'strict');
      } else this.#read(octets);
      if (isNew) syncFolder(path);
    } catch (error) {
      this.#lock.release();
      throw error;
    }
  }

  /** Nobody else has the file than the clients of this program. */
  async lock(name: string, signal: AbortSignal, held: () => Promise<void>): Promise<void> {
    const turn = Promise.resolve(this.#locks.get(name)).then(() => {
      signal.throwIfAborted();
      return held();
    });
    this.#locks.set(
      name,
      turn.catch(() => undefined),
    );
    await turn;
  }

  override async close(): Promise<void> {
    if (this.#lost) return;
    this.#lost = new Error(`${this.#path} was closed`);
    fdatasyncSync(this.#file);
    closeSync(this.#file);
    this.#lock.release();
  }

  /** The file first: memory never has what a crash could take back, where it is strict. */
  protected override commit(changes: readonly Change[], durability: Durability): void {
    if (changes.length === 0) return;
    this.#append(changes.map(writeChange), durability);
    this.apply(changes);
    if (this.#size > 2 * Math.max(this.#compacted, SMALLEST)) this.#compact();
  }

  #append(content: unknown, durability: Durability): void {
    if (this.#lost) throw this.#lost;
    try {
      const octets = writeLine(this.#synced, content);
      writeAll(this.#file, octets);
      this.#size += octets.length;
    } catch (error) {
      // A disk that is full: what is there of the line would be damage in the middle later.
      this.#orLose(() => ftruncateSync(this.#file, this.#size));
      throw error;
    }
    if (durability === 'strict') this.#sync();
  }

  #sync(): void {
    // After a failed fsync nobody knows what the disk has.
    this.#orLose(() => fdatasyncSync(this.#file));
    this.#synced = this.#size;
  }

  #orLose(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#lost = new Error(`${this.#path} cannot be written any more`, { cause: error });
      this.#lock.release();
      this.onLost?.(this.#lost);
      throw this.#lost;
    }
  }

  #read(octets: Buffer): void {
    let at = 0;
    while (at < octets.length) {
      const end = octets.indexOf(10, at);
      const line = end < 0 ? undefined : readLine(octets.subarray(at, end));
      if (!line) {
        if (wasOnDisk(octets, at)) {
          const place = `the line at octet ${at} was changed after it was written`;
          throw new Error(`${this.#path} is damaged: ${place}. Remove it to sync anew`);
        }
        break;
      }
      if (at > 0) this.apply((line.content as WrittenChange[]).map(readChange));
      else if (line.content !== HEADER) break;
      at = end + 1;
    }
    // A file that begins with anything else is somebody's: it stays as it is.
    if (at === 0)
      throw new Error(`${this.#path} is not a file of this store, or of another version`);
    if (at < octets.length) ftruncateSync(this.#file, at);
    this.#size = at;
    this.#compacted = at;
    this.#sync();
  }

  #compact(): void {
    let anew: { readonly file: number; readonly size: number };
    try {
      anew = this.#writeAnew(`${this.#path}.new`);
    } catch {
      // The old file is whole, and goes on growing.
      this.#compacted = this.#size;
      return;
    }
    closeSync(this.#file);
    this.#file = anew.file;
    this.#size = anew.size;
    this.#synced = anew.size;
    this.#compacted = anew.size;
    this.#orLose(() => syncFolder(this.#path));
  }

  /** Writes all rows into another file, which then takes the place of this one. */
  #writeAnew(path: string): { readonly file: number; readonly size: number } {
    rmSync(path, { force: true });
    // To append, as the other: after a disk that was full, the next line begins where the file ends.
    const file = openSync(path, 'ax', 0o600);
    let size = 0;
    const write = (content: unknown) => {
      const octets = writeLine(size, content);
      writeAll(file, octets);
      size += octets.length;
    };
    try {
      write(HEADER);
      for (const table of Object.keys(TABLES) as TableName[]) {
        const rows = this.look({ table, prefix: [] });
        for (let at = 0; at < rows.length; at += ROWS_AT_A_TIME) {
          const some = rows.slice(at, at + ROWS_AT_A_TIME);
          write(some.map((row) => writeChange({ put: table, row })));
        }
      }
      fsyncSync(file);
      renameSync(path, this.#path);
      return { file, size };
    } catch (error) {
      closeSync(file);
      rmSync(path, { force: true });
      throw error;
    }
  }
}

/** `[table, row as text]`, or `[table, key]` for one that is removed. */
type WrittenChange = readonly [TableName, string | Key];

function writeChange(change: Change): WrittenChange {
  if ('put' in change) return [change.put, writeRow(change.put, change.row)];
  return [change.remove, change.key];
}

function readChange([table, content]: WrittenChange): Change {
  if (typeof content === 'string') return { put: table, row: readRow(table, content) };
  return { remove: table, key: content };
}

/** `checksum [synced, content]`, with a line end. */
function writeLine(synced: number, content: unknown): Buffer {
  const text = JSON.stringify([synced, content]);
  return Buffer.from(`${checksum(text)} ${text}\n`);
}

interface Line {
  /** Octets of the file that were on the disk before it was written. */
  readonly synced: number;
  /** The header in the first one, else changes. */
  readonly content: unknown;
}

/** undefined for a line that is not as it was written. */
function readLine(octets: Buffer): Line | undefined {
  const text = octets.toString('utf8', 9);
  if (octets.toString('latin1', 0, 9) !== `${checksum(text)} `) return undefined;
  const [synced, content] = JSON.parse(text) as [number, unknown];
  return { synced, content };
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}

/** Whether a later line says that what is at `at` was on the disk. */
function wasOnDisk(octets: Buffer, at: number): boolean {
  for (let start = octets.indexOf(10, at) + 1; start > 0; start = octets.indexOf(10, start) + 1) {
    const end = octets.indexOf(10, start);
    const line = end < 0 ? undefined : readLine(octets.subarray(start, end));
    if (line && line.synced > at) return true;
  }
  return false;
}

function writeAll(file: number, octets: Buffer): void {
  for (let at = 0; at < octets.length; ) at += writeSync(file, octets, at);
}

/** A new name of a file is on the disk once its folder is. */
function syncFolder(path: string): void {
  // Windows cannot open a folder, and keeps names without this.
  if (process.platform === 'win32') return;
  const folder = openSync(dirname(path), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
