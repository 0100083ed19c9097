/**
 * The files that a mail server's processes append lines to.
 *
 * In storage: `events`, which is written now, and `events.<milliseconds>`, which were renamed at that time because
 * they had become large. A writer that opened a file before it was renamed still writes to it, so each file is read
 * on from its last position, and removed only long after.
 *
 * Positions belong to inodes, which a rename keeps. A position is forgotten, durably, before a new file could get the
 * same inode: `prepare` and `rotate`, which create files, come after that.
 */
import { createReadStream } from 'node:fs';
import { link, open, readdir, rename, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { when } from '../../platform/errors/errors.ts';
import { isMissing } from '../../platform/files/files.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** How far each file has been read, in bytes, by its inode. */
export type Positions = Readonly<Record<string, number>>;

/** The result of one read of the spool. */
export interface SpoolShare {
  /** Lines without the newline, oldest first; blank ones are left out. */
  readonly lines: readonly string[];
  /** Where the next read continues. */
  readonly positions: Positions;
  /** Bytes without a newline that were skipped. */
  readonly passedOver: number;
}

export interface SpoolOptions {
  readonly directory: string;
  /** Others than {@link LIMITS}. */
  readonly limits?: Partial<SpoolLimits>;
  readonly now?: () => EpochMs;
}

const LIMITS = {
  /** From which the file is rotated. */
  rotateBytes: 8 * 1_048_576,
  /** How long a writer may take from opening a file to writing its line. */
  graceMs: 600_000,
};
export type SpoolLimits = typeof LIMITS;

interface SpoolFile {
  readonly path: string;
  readonly inode: string;
  readonly size: number;
  /** Undefined for the file that is written now. */
  readonly rotatedAt: number | undefined;
}

const ACTIVE = 'events';
const ROTATED = /^events\.(\d{13})$/;
/** The most bytes of one read: limits memory, and the batch. */
const SHARE_BYTES = 1_048_576;
/** By default only the mail server's own user writes and reads. */
const MODE = 0o600;

const NEWLINE = 0x0a;

export class Spool {
  readonly #directory: string;
  readonly #limits: SpoolLimits;
  readonly #now: () => number;

  constructor({ directory, limits, now }: SpoolOptions) {
    this.#directory = directory;
    this.#limits = { ...LIMITS, ...limits };
    this.#now = now ?? Date.now;
  }

  /** The positions of files that still exist; store the result before `prepare`. */
  async known(positions: Positions): Promise<Positions> {
    const files = await this.#files();
    return Object.fromEntries(files.map(({ inode }) => [inode, positions[inode] ?? 0]));
  }

  /** Creates the file to write, so that missing permissions show at the start. */
  async prepare(): Promise<void> {
    const path = join(this.#directory, ACTIVE);
    await (await open(path, 'a', MODE)).close();
    // A process that died between the two steps of `rotate` left two names for one file.
    const files = await this.#files();
    const active = files.find(({ rotatedAt }) => rotatedAt === undefined);
    for (const file of files) {
      if (file.rotatedAt !== undefined && file.inode === active?.inode) await unlink(file.path);
    }
  }

  /** Reads what was appended since, at most one share. */
  async read(positions: Positions): Promise<SpoolShare> {
    const next: Record<string, number> = {};
    let lines: string[] = [];
    let passedOver = 0;
    let budget = SHARE_BYTES;
    for (const file of await this.#files()) {
      const known = positions[file.inode] ?? 0;
      // Somebody truncated it.
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
      lines = lines.concat(found.lines);
      passedOver += found.passedOver;
      next[file.inode] = from + found.bytes;
    }
    return { lines, positions: next, passedOver };
  }

  /**
   * Removes files that were read to their end long ago.
   *
   * @returns the positions of the others; store them before `rotate`
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
   * Begins a new file in place of a large one, with the same permissions. A file exists at every moment: otherwise a
   * writer could create one with permissions of its own.
   */
  async rotate(): Promise<void> {
    const path = join(this.#directory, ACTIVE);
    const { size, mode } = await stat(path);
    if (size < this.#limits.rotateBytes) return;
    const fresh = await open(`${path}.new`, 'w', MODE);
    try {
      // Unlike the mode of `open`, the umask does not change it.
      await fresh.chmod(mode & 0o777);
    } finally {
      await fresh.close();
    }
    await link(path, `${path}.${this.#now()}`);
    await rename(`${path}.new`, path);
  }

  #isOver({ rotatedAt }: SpoolFile): boolean {
    return rotatedAt !== undefined && this.#now() - rotatedAt > this.#limits.graceMs;
  }

  /** Oldest first. */
  async #files(): Promise<SpoolFile[]> {
    const names = await readdir(this.#directory);
    const rotated = names.filter((name) => ROTATED.test(name)).sort();
    const files: SpoolFile[] = [];
    for (const name of [...rotated, ACTIVE]) {
      const path = join(this.#directory, name);
      const found = await stat(path, { bigint: true }).catch(when(isMissing, undefined));
      if (!found) continue;
      const at = ROTATED.exec(name)?.[1];
      const rotatedAt = at === undefined ? undefined : Number(at);
      files.push({ path, inode: String(found.ino), size: Number(found.size), rotatedAt });
    }
    return files;
  }
}

/** Reads whole lines; skips text without a newline that, in a full share or an old file, will get none. */
async function readLines(file: SpoolFile, from: number, length: number, isOver: boolean) {
  const read = await buffer(createReadStream(file.path, { start: from, end: from + length - 1 }));
  const bytes = read.lastIndexOf(NEWLINE) + 1;
  if (bytes === 0) {
    const isAll = from + read.length === file.size;
    const passedOver = read.length === SHARE_BYTES || (isOver && isAll) ? read.length : 0;
    return { lines: [], bytes: passedOver, passedOver };
  }
  const lines = read.toString('utf8', 0, bytes).split('\n');
  return { lines: lines.filter((line) => line !== ''), bytes, passedOver: 0 };
}
