/**
 * The write-ahead log of SQLite, and when what is committed to it is on the disk.
 *
 * SQLite would sync it within each commit (synchronous=FULL) and hold the thread meanwhile: half of the
 * time that a commit takes on a good disk, nearly all of it on others. So SQLite is told not to
 * (synchronous=NORMAL), and the log is synced here, by a thread of Node's pool. Nobody hears of a commit
 * before that: neither who wrote it nor a reader, so that what was once seen is there after a power cut.
 */
import { close, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import { LOG_LOST } from '../failures.ts';

const syncFile = promisify(fdatasync);
const closeFile = promisify(close);

/** Milliseconds: what a disk takes less than is waited for rather than handed to another thread. */
const QUICK_MS = 1;

export class CommitLog {
  readonly #file: number;
  readonly #onLost: (error: Error) => void;
  #underWay: Promise<void> | undefined;
  #lastMs = 0;

  /**
   * @param path of the log: one file for as long as a connection is open
   * @param onLost told when a sync has failed
   */
  constructor(path: string, onLost: (error: Error) => void = () => {}) {
    // SQLite's locks are on the other files: a descriptor of this one may come and go.
    this.#file = openSync(path, 'r+');
    this.#onLost = onLost;
  }

  /** Settles once all that is committed is on the disk; undefined while it is. */
  get underWay(): Promise<void> | undefined {
    return this.#underWay;
  }

  /**
   * Brings to the disk what is committed. After a failure nobody knows what is there, and a second
   * try would not tell: the kernel forgets what it could not write. All who ask are told the same from
   * then on, until a start writes all that the log has anew (see sqlite.ts).
   *
   * @param isAlone nobody else has work for the thread: where the disk is quick, it waits
   * @throws Error what the file system says
   */
  sync(isAlone: boolean): Promise<void> {
    if (isAlone && this.#lastMs < QUICK_MS) return this.#syncHere();
    const since = performance.now();
    this.#underWay = syncFile(this.#file).then(() => {
      this.#underWay = undefined;
      this.#lastMs = performance.now() - since;
    }, this.#throwLost);
    return this.#underWay;
  }

  close(): Promise<void> {
    return closeFile(this.#file);
  }

  #syncHere(): Promise<void> {
    const since = performance.now();
    try {
      fdatasyncSync(this.#file);
    } catch (error) {
      this.#underWay = Promise.reject(error).catch(this.#throwLost);
      return this.#underWay;
    }
    this.#lastMs = performance.now() - since;
    return Promise.resolve();
  }

  readonly #throwLost = (cause: unknown): never => {
    const lost = new Error('what was written to the database may not be on the disk', { cause });
    Object.assign(lost, { code: LOG_LOST });
    this.#onLost(lost);
    throw lost;
  };
}
