/**
 * Checkpoints: what is committed moves from the log of SQLite into its file, and the log starts anew.
 *
 * SQLite would do that within some commit, and hold the thread for the time of all its pages (40 ms and
 * more). Here another thread does it while commits go on. They never leave it the last word, and the log
 * starts anew only when all of it was moved: so the commit that follows waits for the little that came
 * meanwhile, and the event loop for nothing.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';

/** Octets in the log from which on they are moved. */
const LONG_LOG = 32 * 1024 * 1024;
/** Commits from one look at the length of the log to the next: SQLite takes as long for it as for a row. */
const COMMITS_A_LOOK = 8;
/**
 * Times the length at which SQLite moves them itself after all: a transaction may be large, and where
 * there is nobody else to do it that is the usual length.
 */
const LAST_RESORT = 4;

/** Milliseconds that the thread may take: commits may wait for it. */
const ANSWER_MS = 30_000;

/** What the thread says when it is done; what was moved, the database knows. */
export interface CheckpointAnswer {
  readonly failure: string | undefined;
}

interface LogState {
  /** Pages in the log. */
  readonly length: number;
  /** Those that were moved. */
  readonly moved: number;
}

export interface CheckpointsOptions {
  /** Starts a thread that answers by {@link CheckpointAnswer}. */
  readonly start: () => Worker;
  /** In pages; for tests. */
  readonly longLog?: number;
  /** For tests. */
  readonly commitsALook?: number;
}

/** Starts the thread for the database at `path`. */
export function startThread(path: string): Worker {
  return new Worker(new URL('./checkpoint-thread.ts', import.meta.url), { workerData: path });
}

export class Checkpoints {
  readonly #db: DatabaseSync;
  readonly #look: StatementSync;
  readonly #options: Required<CheckpointsOptions>;
  #thread: MovingThread | undefined;
  #state: 'idle' | 'moving' | 'moved' | 'without a thread' = 'idle';
  #dueAt: number;
  #commits = 0;
  #underWay: Promise<void> | undefined;

  /** @param db the writing connection */
  constructor(db: DatabaseSync, options: CheckpointsOptions) {
    const pageSize = Number(db.prepare('pragma page_size').get()?.page_size);
    const longLog = Math.ceil(LONG_LOG / pageSize);
    db.exec(`pragma wal_autocheckpoint = ${LAST_RESORT * longLog}`);
    this.#options = { longLog, commitsALook: COMMITS_A_LOOK, ...options };
    this.#dueAt = this.#options.longLog;
    this.#db = db;
    this.#look = db.prepare('pragma wal_checkpoint(noop)');
  }

  /** Called before each commit, which waits for it. */
  async tend(): Promise<void> {
    if (this.#state === 'moved') {
      this.#start('idle');
      await this.#underWay;
      const { length, moved } = this.#readLog();
      // A reader may hold on to a part of the log; that is tried again when there is more of it.
      this.#dueAt = this.#options.longLog + (moved === length ? 0 : length);
    } else if (this.#state === 'idle' && ++this.#commits % this.#options.commitsALook === 0) {
      if (this.#readLog().length >= this.#dueAt) this.#start('moved');
    }
  }

  /** Ends the thread, once it has done what it is at. */
  async close(): Promise<void> {
    await this.#underWay;
    await this.#thread?.end();
  }

  #start(next: 'idle' | 'moved'): void {
    this.#state = 'moving';
    this.#underWay = this.#move().then(
      () => {
        this.#state = next;
      },
      (error: unknown) => {
        this.#state = 'without a thread';
        this.#db.exec(`pragma wal_autocheckpoint = ${this.#options.longLog}`);
        process.emitWarning(`the database moves its log without a thread: ${String(error)}`);
      },
    );
  }

  async #move(): Promise<void> {
    this.#thread ??= new MovingThread(this.#options.start());
    const { failure } = await this.#thread.move();
    if (failure) process.emitWarning(`the database could not move its log: ${failure}`);
  }

  #readLog(): LogState {
    const { log, checkpointed } = this.#look.get() ?? {};
    return { length: Number(log), moved: Number(checkpointed) };
  }
}

/** The thread, which may end at any time: without memory, say. */
class MovingThread {
  readonly #worker: Worker;
  #asked: PromiseWithResolvers<CheckpointAnswer> | undefined;
  #fault: Error | undefined;

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.unref();
    worker.on('message', (answer: CheckpointAnswer) => this.#asked?.resolve(answer));
    worker.on('error', (error) => this.#fail(error));
    worker.once('exit', (code) => this.#fail(new Error(`the thread ended with ${code}`)));
  }

  /** @throws Error where the thread has ended, ends, or does not answer */
  async move(): Promise<CheckpointAnswer> {
    if (this.#fault) throw this.#fault;
    const asked = Promise.withResolvers<CheckpointAnswer>();
    this.#asked = asked;
    const late = () => this.#fail(new Error(`the thread did not answer in ${ANSWER_MS} ms`));
    const deadline = setTimeout(late, ANSWER_MS);
    // Only while it has work must it keep the process from ending.
    this.#worker.ref();
    try {
      this.#worker.postMessage('move');
      return await asked.promise;
    } finally {
      clearTimeout(deadline);
      this.#worker.unref();
    }
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #fail(fault: Error): void {
    this.#fault ??= fault;
    this.#asked?.reject(fault);
    void this.end();
  }
}
