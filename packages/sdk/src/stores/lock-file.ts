/**
 * A file that one process has: it names the process, so that the lock of one that died can be taken. Processes of other
 * machines and containers are not known here: each needs a folder of its own.
 */
import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Those that this process has. */
const own = new Set<string>();

export class LockFile {
  readonly #path: string;

  /** @throws Error where another process has it, or this one already does */
  constructor(path: string) {
    this.#path = join(realpathSync(dirname(path)), basename(path));
    if (own.has(this.#path)) throw new Error(`${path}: this process has the file open already`);
    for (let attempt = 1; !this.#make(); attempt++) {
      const holder = readHolder(this.#path);
      if (holder !== undefined && (isAlive(holder) || attempt > 3)) {
        throw new Error(
          `${path}: process ${holder} has the file open; if there is no such program, remove the lock file`,
        );
      }
      if (holder !== undefined) this.#takeFrom(holder);
    }
    own.add(this.#path);
  }

  release(): void {
    if (own.delete(this.#path)) rmSync(this.#path, { force: true });
  }

  /** Makes it whole at once: a reader never finds it empty. */
  #make(): boolean {
    const made = `${this.#path}.${randomUUID()}`;
    writeFileSync(made, String(process.pid), { mode: 0o600 });
    try {
      linkSync(made, this.#path);
      return true;
    } catch (error) {
      if (isCode(error, 'EEXIST')) return false;
      throw error;
    } finally {
      rmSync(made, { force: true });
    }
  }

  /** Several may try: each moves the file away, and puts it back if another one's is in its place by then. */
  #takeFrom(dead: number): void {
    const moved = `${this.#path}.${randomUUID()}`;
    try {
      renameSync(this.#path, moved);
    } catch (error) {
      if (isCode(error, 'ENOENT')) return;
      throw error;
    }
    try {
      if (readHolder(moved) !== dead) linkSync(moved, this.#path);
    } finally {
      rmSync(moved, { force: true });
    }
  }
}

function readHolder(path: string): number | undefined {
  try {
    return Number(readFileSync(path, 'utf8'));
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** A process of this number: in a container that started again it may be ourselves. */
function isAlive(pid: number): boolean {
  if (pid === process.pid || !(pid > 0)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isCode(error, 'EPERM');
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
