/**
 * Checkpoints: committed pages move from the log (WAL) of SQLite into its file, and the log starts again from its
 * beginning.
 *
 * By default SQLite does that within some commit and holds the thread for the time of all pages (40 ms and more; 1.7 s
 * where a reader had let the log grow to 600 MB). So automatic checkpoints are off on every connection, and another
 * thread makes them while commits continue.
 *
 * The log can start again only when all of it was moved. While commits continue there is always a little more; so the
 * commit after a first checkpoint waits for a second one, which has little to do.
 *
 * A checkpoint whose write or sync fails ends the process, as a failed sync of the log does: the kernel drops pages
 * that it could not write, so a second try would seem to work and lose them. The log still has all of them, and the
 * next start moves them again. A full disk is no such failure: nothing was dropped, and it is tried again later.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { AskedThread } from '../../threads/threads.ts';
import { LOG_LOST } from '../failures.ts';

const LIMITS = {
  /** Bytes of the log from which a checkpoint is made. */
  longLog: 32 * 1024 * 1024,
  /** Commits between two checks of the log's length: one check takes SQLite as long as a row. */
  commitsPerCheck: 8,
};
export type CheckpointLimits = typeof LIMITS;
/** From this many times that length on, the operator is told that the log cannot start again. */
const TOO_LONG = 8;

/** Milliseconds that the thread may take: commits may wait for it. */
const ANSWER_MS = 30_000;

/**
 * Primary result codes (https://sqlite.org/rescode.html) after which the next checkpoint may work, and nothing is
 * lost meanwhile: BUSY, LOCKED, NOMEM, FULL, CANTOPEN.
 */
const PASSING = new Set([5, 6, 7, 13, 14]);

/** `close` closes the thread's connection; if it is the last one, SQLite moves the rest. */
export type CheckpointRequest = 'move' | 'close';

/** The thread's answer when it is done; how much was moved is read from the database. */
export interface CheckpointAnswer {
  readonly failure?: { readonly message: string; readonly errcode: number };
}

/** In pages. */
interface LogState {
  readonly length: number;
  readonly moved: number;
}

/** A pino Logger fits. */
export interface WarningLog {
  warn(fields: object, message: string): void;
}

export interface CheckpointsOptions {
  /** Starts a thread that answers each {@link CheckpointRequest} by a {@link CheckpointAnswer}. */
  readonly start: () => Worker;
  /** Called when a checkpoint failed for good. */
  readonly onLost?: ((error: Error) => void) | undefined;
  readonly log?: WarningLog | undefined;
  /** Others than {@link LIMITS}. */
  readonly limits?: Partial<CheckpointLimits> | undefined;
}

/** Starts the thread for the database at `path`. */
export function startThread(path: string): Worker {
  return new Worker(new URL('./checkpoint-thread.ts', import.meta.url), { workerData: path });
}

export class Checkpoints {
  readonly #look: StatementSync;
  readonly #options: CheckpointsOptions;
  readonly #pageSize: number;
  /** In pages, as all lengths below. */
  readonly #longLog: number;
  readonly #commitsPerCheck: number;
  #thread: AskedThread<CheckpointRequest> | undefined;
  #state: 'idle' | 'moving' | 'moved' = 'idle';
  #dueAt: number;
  #tellAt: number;
  #commits = 0;
  /** The last one failed, and the next one waits until the log has grown as much again. */
  #isPutOff = false;
  #underWay: Promise<void> | undefined;
  #lost: Error | undefined;

  /** @param db the writing connection */
  constructor(db: DatabaseSync, options: CheckpointsOptions) {
    this.#pageSize = Number(db.prepare('pragma page_size').get()?.page_size);
    const { longLog, commitsPerCheck } = { ...LIMITS, ...options.limits };
    this.#longLog = Math.ceil(longLog / this.#pageSize);
    this.#commitsPerCheck = commitsPerCheck;
    this.#options = options;
    this.#dueAt = this.#longLog;
    this.#tellAt = TOO_LONG * this.#longLog;
    this.#look = db.prepare('pragma wal_checkpoint(noop)');
  }

  /**
   * Called before each commit, which waits for it.
   *
   * @throws Error where a checkpoint has failed: nothing may be committed any more
   */
  async beforeCommit(): Promise<void> {
    if (this.#lost) throw this.#lost;
    if (this.#state === 'moved') {
      await this.#move('idle');
      if (this.#lost) throw this.#lost;
      this.#lookBack(this.#readLog());
    } else if (this.#state === 'idle' && ++this.#commits % this.#commitsPerCheck === 0) {
      const { length } = this.#readLog();
      if (this.#isPutOff) this.#dueAt = this.#longLog + length;
      this.#isPutOff = false;
      if (length >= this.#dueAt) void this.#move('moved');
    }
  }

  /** Moves the rest of a long log; called before other connections are closed. */
  async finish(): Promise<void> {
    await this.#underWay;
    if (!this.#lost && this.#readLog().length >= this.#longLog) await this.#move('idle');
  }

  /** Ends the thread; its connection is the last one, so SQLite moves the rest there. */
  async close(): Promise<void> {
    await this.#thread?.ask('close').catch(() => {});
    await this.#thread?.end();
  }

  #move(next: 'idle' | 'moved'): Promise<void> {
    this.#state = 'moving';
    this.#underWay = this.#askThread().then((isDone) => {
      this.#state = isDone ? next : 'idle';
      // How long the log is by then, SQLite tells only outside of a transaction: a group of writes may have one open now.
      this.#isPutOff = !isDone;
    });
    return this.#underWay;
  }

  /** @returns whether the thread did what it could */
  async #askThread(): Promise<boolean> {
    try {
      this.#thread ??= new AskedThread(this.#options.start(), { answerMs: ANSWER_MS });
      const { failure } = await this.#thread.ask<CheckpointAnswer>('move');
      if (!failure) return true;
      if (!PASSING.has(failure.errcode & 0xff)) this.#lose(failure.message);
      else this.#tell(failure.message);
    } catch (error) {
      // The thread has ended, for lack of memory, for example. The next time another one is started.
      this.#thread = undefined;
      this.#tell(String(error));
    }
    return false;
  }

  #lookBack({ length, moved }: LogState): void {
    const startsAnew = moved === length;
    this.#dueAt = this.#longLog + (startsAnew ? 0 : length);
    if (startsAnew) this.#tellAt = TOO_LONG * this.#longLog;
    else if (length >= this.#tellAt) {
      this.#tellAt = 2 * length;
      this.#options.log?.warn(
        { bytes: length * this.#pageSize },
        'the write-ahead log of the database keeps growing and fills the disk: another process, such as a backup or an SQLite shell, holds an old read transaction open; end that process',
      );
    }
  }

  #tell(failure: string): void {
    this.#options.log?.warn(
      { failure },
      'the write-ahead log could not be copied into the database file; the log grows until a later checkpoint succeeds',
    );
  }

  #lose(message: string): void {
    const lost = new Error('a checkpoint of the database failed', { cause: message });
    this.#lost = Object.assign(lost, { code: LOG_LOST });
    this.#options.onLost?.(lost);
  }

  #readLog(): LogState {
    const { log, checkpointed } = this.#look.get() ?? {};
    return { length: Number(log), moved: Number(checkpointed) };
  }
}
