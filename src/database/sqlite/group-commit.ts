/**
 * Group commit: writes that arrive while the last ones are brought to the disk share one transaction
 * and so one fsync. Under load groups grow by themselves; a lone write waits for nothing but its own
 * fsync. A write that fails takes nothing of the others with it.
 */

import { close, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Queries } from '../engine.ts';
import { LOG_LOST } from '../failures.ts';

/**
 * Turns of the event loop in which more writes may join a group. A turn in which nothing happens takes
 * microseconds; under load each turn brings more writes, and answers to others leave meanwhile. More
 * turns than these bring no more writes.
 */
const TURNS = 4;
/** Bounds how long one group can hold the thread, and how much one failed commit takes with it. */
const GROUP_MAX = 64;

interface Write {
  run(tx: Queries): Promise<unknown>;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

type Outcome = { ok: true; value: unknown } | { ok: false; error: unknown };

export interface GroupCommitOptions {
  /** Kysely on the same connection. */
  readonly queries: Queries;
  readonly log: Pick<CommitLog, 'underWay' | 'sync'>;
  /**
   * Told of each transaction: milliseconds from its begin until it was durable, and of those for the disk;
   * undefined where it wrote nothing.
   */
  readonly onCommit?: ((report: { ms: number; syncMs: number | undefined }) => void) | undefined;
  /** Awaited before each transaction. */
  readonly beforeBegin?: () => Promise<void>;
}

export class GroupCommit {
  readonly #db: DatabaseSync;
  /** Prepared once, since SQLite parses a text anew each time; rolling back is rare. */
  readonly #steps: Record<'begin' | 'commit' | 'save' | 'release' | 'changes', StatementSync>;
  readonly #options: GroupCommitOptions;
  readonly #waiting: Write[] = [];
  #running: Promise<void> | undefined;
  #isClosed = false;
  /** Rows that the connection had written at the last commit. */
  #changes = 0;

  constructor(db: DatabaseSync, options: GroupCommitOptions) {
    this.#db = db;
    this.#options = options;
    this.#steps = {
      begin: db.prepare('begin immediate'),
      commit: db.prepare('commit'),
      save: db.prepare('savepoint one_write'),
      release: db.prepare('release one_write'),
      changes: db.prepare('select total_changes() as rows'),
    };
  }

  /** Adds one write to the next group; resolves with its value once the commit is on the disk. */
  write<T>(work: (tx: Queries) => Promise<T>): Promise<T> {
    if (this.#isClosed) return Promise.reject(new Error('the database is closed'));
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ run: work, resolve: (value) => resolve(value as T), reject });
      this.#running ??= this.#run();
    });
  }

  /** Resolves when no write is left; there are none from then on. */
  async close(): Promise<void> {
    while (this.#running) await this.#running;
    this.#isClosed = true;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      for (let turns = 0; turns < TURNS; turns++) await turn();
      await this.#commit(this.#waiting.splice(0, GROUP_MAX));
    }
    this.#running = undefined;
  }

  async #commit(group: readonly Write[]): Promise<void> {
    const outcomes: Outcome[] = [];
    const { log, beforeBegin } = this.#options;
    try {
      // A sync that is still under way here has failed: nothing is written any more.
      await log.underWay;
      await beforeBegin?.();
      const begunAt = performance.now();
      this.#steps.begin.run();
      for (const write of group) outcomes.push(await this.#attempt(write));
      this.#steps.commit.run();
      const committedAt = performance.now();
      const hasWritten = this.#hasWritten();
      if (hasWritten) await log.sync(group.length === 1);
      const durableAt = performance.now();
      const syncMs = hasWritten ? durableAt - committedAt : undefined;
      this.#options.onCommit?.({ ms: durableAt - begunAt, syncMs });
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('rollback');
      for (const write of group) write.reject(error);
      return;
    }
    for (const [index, write] of group.entries()) {
      const outcome = outcomes[index];
      if (outcome?.ok) write.resolve(outcome.value);
      else write.reject(outcome?.error);
    }
  }

  /** Runs one write in a savepoint, so that its failure undoes what it did, and that alone. */
  async #attempt(write: Write): Promise<Outcome> {
    this.#steps.save.run();
    try {
      const value = await write.run(this.#options.queries);
      this.#steps.release.run();
      return { ok: true, value };
    } catch (error) {
      // A full disk or an I/O error may end the whole transaction: then nothing is left to undo.
      if (!this.#db.isTransaction) throw error;
      this.#db.exec('rollback to one_write');
      this.#steps.release.run();
      return { ok: false, error };
    }
  }

  /** Whether rows were written since the last commit: a commit without any leaves nothing in the log. */
  #hasWritten(): boolean {
    const before = this.#changes;
    this.#changes = Number(this.#steps.changes.get()?.rows);
    return this.#changes !== before;
  }
}

/*
 * The write-ahead log of SQLite, and when what is committed to it is on the disk.
 *
 * SQLite would sync it within each commit (synchronous=FULL) and hold the thread meanwhile: half of the
 * time that a commit takes on a good disk, nearly all of it on others. So SQLite is told not to
 * (synchronous=NORMAL), and the log is synced here, by a thread of Node's pool. Nobody hears of a commit
 * before that: neither who wrote it nor a reader, so that what was once seen is there after a power cut.
 */

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
