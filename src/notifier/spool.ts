/**
 * The files that a mail server's processes append lines to.
 *
 * In storage: `events`, which is written now, and `events.<milliseconds>`, which were renamed at
 * that time because they had grown large. A writer that opened a file before it was renamed still
 * writes to it, so each file is read on from where it was left, and removed only long after.
 *
 * Positions go by inode, which a rename keeps. A position is forgotten, durably, before a new file
 * could get the same inode: `prepare` and `rotate`, which make files, come after that.
 */
import { type FileHandle, link, open, readdir, rename, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** How far each file has been read, in bytes, by its inode. */
export type Positions = Readonly<Record<string, number>>;

/** What one look at the spool brought. */
export interface SpoolShare {
  /** Lines without the newline, oldest first; blank ones are left out. */
  readonly lines: readonly string[];
  /** Where to go on. */
  readonly positions: Positions;
  /** Bytes in which there was no newline, passed over. */
  readonly passedOver: number;
}

export interface SpoolOptions {
  readonly directory: string;
  /** Bytes at which the file is changed for a new one. */
  readonly rotateBytes?: number;
  /** How long a writer may take from opening a file to writing its line, in milliseconds. */
  readonly graceMs?: number;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

interface SpoolFile {
  readonly path: string;
  readonly inode: string;
  readonly size: number;
  /** Undefined for the one that is written now. */
  readonly rotatedAt: number | undefined;
}

const ACTIVE = 'events';
const ROTATED = /^events\.(\d{13})$/;
const ROTATE_BYTES = 8 * 1_048_576;
const GRACE_MS = 600_000;
/** Bytes of one look: bounds memory, and the batch made of them. */
const SHARE_BYTES = 1_048_576;
/** Only the mail server's own user writes and reads, where nobody set it otherwise. */
const MODE = 0o600;

const NEWLINE = 0x0a;

export class Spool {
  readonly #directory: string;
  readonly #rotateBytes: number;
  readonly #graceMs: number;
  readonly #now: () => number;

  constructor({ directory, rotateBytes, graceMs, now }: SpoolOptions) {
    this.#directory = directory;
    this.#rotateBytes = rotateBytes ?? ROTATE_BYTES;
    this.#graceMs = graceMs ?? GRACE_MS;
    this.#now = now ?? Date.now;
  }

  /** The positions of files that are still there; keep the answer before `prepare`. */
  async known(positions: Positions): Promise<Positions> {
    const files = await this.#files();
    return Object.fromEntries(files.map(({ inode }) => [inode, positions[inode] ?? 0]));
  }

  /** Makes the file that is written, so that missing rights show at the start. */
  async prepare(): Promise<void> {
    const path = join(this.#directory, ACTIVE);
    await (await open(path, 'a', MODE)).close();
    // A process that died between the two steps of `rotate` left two names of one file.
    const files = await this.#files();
    const active = files.find(({ rotatedAt }) => rotatedAt === undefined);
    for (const file of files) {
      if (file.rotatedAt !== undefined && file.inode === active?.inode) await unlink(file.path);
    }
  }

  /** Reads what was appended since, at most a share of it. */
  async read(positions: Positions): Promise<SpoolShare> {
    const next: Record<string, number> = {};
    const lines: string[] = [];
    let passedOver = 0;
    let budget = SHARE_BYTES;
    for (const file of await this.#files()) {
      const known = positions[file.inode] ?? 0;
      // Somebody emptied it.
      const from = known <= file.size ? known : 0;
      next[file.inode] = from;
      if (file.size === from || budget === 0) continue;
      const found = await readLines(
        file,
        from,
        Math.min(budget, file.size - from),
        this.#isOver(file),
      );
      budget -= found.bytes;
      lines.push(...found.lines);
      passedOver += found.passedOver;
      next[file.inode] = from + found.bytes;
    }
    return { lines, positions: next, passedOver };
  }

  /**
   * Removes files that were read to their end long ago.
   *
   * @returns the positions of the others; keep them before `rotate`
   */
  async removeOld(positions: Positions): Promise<Positions> {
    const kept = { ...positions };
    for (const file of await this.#files()) {
      if (!this.#isOver(file) || (positions[file.inode] ?? 0) < file.size) continue;
      await unlink(file.path);
      delete kept[file.inode];
    }
    return kept;
  }

  /**
   * Begins a new file in place of a large one, with its rights. There is a file at every moment:
   * else a writer could make one of its own, with rights of its own.
   */
  async rotate(): Promise<void> {
    const path = join(this.#directory, ACTIVE);
    const { size, mode } = await stat(path);
    if (size < this.#rotateBytes) return;
    const fresh = await open(`${path}.new`, 'w', MODE);
    try {
      // Unlike the mode of `open`, not cut by the umask.
      await fresh.chmod(mode & 0o777);
    } finally {
      await fresh.close();
    }
    await link(path, `${path}.${this.#now()}`);
    await rename(`${path}.new`, path);
  }

  #isOver({ rotatedAt }: SpoolFile): boolean {
    return rotatedAt !== undefined && this.#now() - rotatedAt > this.#graceMs;
  }

  /** Oldest first. */
  async #files(): Promise<SpoolFile[]> {
    const names = await readdir(this.#directory);
    const rotated = names.filter((name) => ROTATED.test(name)).sort();
    const files: SpoolFile[] = [];
    for (const name of [...rotated, ACTIVE]) {
      const path = join(this.#directory, name);
      const found = await stat(path, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined;
        throw error;
      });
      if (!found) continue;
      const at = ROTATED.exec(name)?.[1];
      const rotatedAt = at === undefined ? undefined : Number(at);
      files.push({ path, inode: String(found.ino), size: Number(found.size), rotatedAt });
    }
    return files;
  }
}

/** Reads whole lines; passes over what has no newline and, full or old, will get none. */
async function readLines(file: SpoolFile, from: number, length: number, isOver: boolean) {
  const buffer = Buffer.allocUnsafe(length);
  const handle = await open(file.path, 'r');
  let read: number;
  try {
    read = await fill(handle, buffer, from);
  } finally {
    await handle.close();
  }
  const bytes = buffer.subarray(0, read).lastIndexOf(NEWLINE) + 1;
  if (bytes === 0) {
    const isAll = from + read === file.size;
    const passedOver = read === SHARE_BYTES || (isOver && isAll) ? read : 0;
    return { lines: [], bytes: passedOver, passedOver };
  }
  const lines = buffer.toString('utf8', 0, bytes).split('\n');
  return { lines: lines.filter((line) => line !== ''), bytes, passedOver: 0 };
}

async function fill(handle: FileHandle, buffer: Buffer, from: number): Promise<number> {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await handle.read(buffer, filled, buffer.length - filled, from + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}
