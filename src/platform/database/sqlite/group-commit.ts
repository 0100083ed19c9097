/**
 * Group commit: writes that arrive while the last ones are synced to the disk share one transaction and so one fsync.
 * Under load groups grow by themselves; a single write waits only for its own fsync. A write that fails does not
 * affect the others. And single reads, which see only what is on the disk.
 */

import { close, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type CommitNotices, collectNotices, type Queries } from '../engine.ts';
import { LOG_LOST } from '../failures.ts';
import type { Checkpoints } from './checkpoints.ts';
import { type ConnectionOptions, kyselyOn } from './driver.ts';

/**
 * Turns of the event loop in which more writes may join a group. A turn without work takes microseconds; under load
 * each turn brings more writes, and answers to others are sent meanwhile. More turns than these bring no more writes.
 */
const TURNS = 4;
/** Milliseconds of work after which others have a turn: reads, which see nothing of the group yet. */
const STEP_MS = 10;
/** Limits how long one group keeps its writers waiting, and how many writes one failed commit fails. */
const GROUP_MAX = 64;

interface Write {
  run(tx: Queries): Promise<unknown>;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

type CommitOutcome =
  | { ok: true; value: unknown; notices: ReadonlySet<string> }
  | { ok: false; error: unknown };

export interface GroupCommitOptions {
  /** Kysely on the same connection. */
  readonly queries: Queries;
  readonly log: Pick<CommitLog, 'underWay' | 'sync'>;
  /** Held at the last durable state while a commit is under way. */
  readonly readers?: Pick<ReadTurns, 'hold' | 'renew'>;
  /**
   * Called for each transaction: milliseconds from its begin until it was durable, and those of the sync; undefined
   * where it wrote nothing.
   */
  readonly onCommit?: ((report: { ms: number; syncMs: number | undefined }) => void) | undefined;
  /** Called with what fails a whole transaction. */
  readonly onError?: ConnectionOptions['onError'];
  /** Told what a write tells, once it is durable. */
  readonly notices?: Pick<CommitNotices, 'tell'>;
  /** Asked before each transaction. */
  readonly checkpoints?: Pick<Checkpoints, 'beforeCommit'>;
}

export class GroupCommit {
  readonly #db: DatabaseSync;
  /** Prepared once, since SQLite parses a text each time; rolling back is rare. */
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

  /** Adds one write to the next group; resolves with its value when the commit is on the disk. */
  readonly write = <T>(work: (tx: Queries) => Promise<T>): Promise<T> => {
    if (this.#isClosed) return Promise.reject(new Error('the database is closed'));
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ run: work, resolve: (value) => resolve(value as T), reject });
      this.#running ??= this.#run();
    });
  };

  /** Resolves when all writes are done; no new ones are accepted. */
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
    const outcomes: CommitOutcome[] = [];
    const { log, readers, checkpoints } = this.#options;
    try {
      // A sync that is still under way here has failed: nothing more may be written.
      await log.underWay;
      await checkpoints?.beforeCommit();
      const begunAt = performance.now();
      this.#steps.begin.run();
      let turnAt = begunAt + STEP_MS;
      for (const write of group) {
        if (performance.now() > turnAt) {
          await turn();
          turnAt = performance.now() + STEP_MS;
        }
        outcomes.push(await this.#attempt(write));
      }
      const hasWritten = this.#hasWritten();
      if (hasWritten) readers?.hold();
      this.#steps.commit.run();
      const committedAt = performance.now();
      if (hasWritten) await log.sync(group.length === 1);
      const durableAt = performance.now();
      const syncMs = hasWritten ? durableAt - committedAt : undefined;
      this.#options.onCommit?.({ ms: durableAt - begunAt, syncMs });
    } catch (error) {
      this.#options.onError?.(error);
      if (this.#db.isTransaction) this.#db.exec('rollback');
      for (const write of group) write.reject(error);
      return;
    } finally {
      // Before any writer is answered: what it wrote is in its next read.
      readers?.renew();
    }
    for (const [index, write] of group.entries()) {
      const outcome = outcomes[index];
      if (outcome?.ok) {
        this.#options.notices?.tell(outcome.notices);
        write.resolve(outcome.value);
      } else write.reject(outcome?.error);
    }
  }

  /** Runs one write in a savepoint, so that its failure undoes only its own changes. */
  async #attempt(write: Write): Promise<CommitOutcome> {
    this.#steps.save.run();
    const notices = collectNotices(this.#options.queries);
    try {
      const value = await write.run(this.#options.queries);
      this.#steps.release.run();
      return { ok: true, value, notices };
    } catch (error) {
      // A full disk or an I/O error may end the whole transaction: then there is nothing to undo.
      if (!this.#db.isTransaction) throw error;
      this.#db.exec('rollback to one_write');
      this.#steps.release.run();
      return { ok: false, error };
    }
  }

  /** Whether rows were written since it was asked last: without any, a commit writes nothing to the log. */
  #hasWritten(): boolean {
    const before = this.#changes;
    this.#changes = Number(this.#steps.changes.get()?.rows);
    return this.#changes !== before;
  }
}

/*
 * The write-ahead log of SQLite, and when its commits are on the disk.
 *
 * With synchronous=FULL, SQLite would sync the log within each commit and block the thread meanwhile: half of the time
 * of a commit on a good disk, nearly all of it on others. So it runs with synchronous=NORMAL, and the log is synced
 * here, by a thread of Node's pool. Until the sync is done, the writer waits, and nothing of the commit is returned to a
 * reader, so that everything that was ever returned is still there after a power cut.
 */

const syncFile = promisify(fdatasync);
const closeFile = promisify(close);

/** Milliseconds: a faster sync is made at once, without another thread. */
const QUICK_MS = 1;

export class CommitLog {
  readonly #file: number;
  readonly #onLost: (error: Error) => void;
  #underWay: Promise<void> | undefined;
  #lastMs = 0;

  /**
   * @param path of the log: one file for as long as a connection is open
   * @param onLost called when a sync has failed
   */
  constructor(path: string, onLost: (error: Error) => void = () => {}) {
    // SQLite's locks are on the other files: opening and closing this one does not release them.
    this.#file = openSync(path, 'r+');
    this.#onLost = onLost;
  }

  /** Settles when all that is committed is on the disk; undefined while it is. */
  get underWay(): Promise<void> | undefined {
    return this.#underWay;
  }

  /**
   * Syncs the log. After a failed fsync the contents of the disk are unknown, and a second try would not show it: the
   * kernel drops what it could not write. Every later call fails as well; the next start recovers the commits from the
   * log (see sqlite.ts).
   *
   * @param isAlone no other work waits for the thread: where the disk is quick, it syncs here
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

/*
 * Single reads on SQLite: those of one turn share one read transaction, so that only the first of them takes SQLite's
 * lock, which costs twice as much as a short query.
 *
 * A commit is visible to other connections before it is on the disk. So the reading connection is held at the last
 * durable state from just before a commit until its sync is done. Reads wait for no sync then, and return nothing that
 * a power cut could take back.
 *
 * Every commit of this process ends the turn. What others write into the file, such as an SQLite shell, is seen in the
 * next one.
 */

/** Milliseconds of a turn at most: a transaction that stays open keeps the log from starting again. */
const TURN_MS = 10;

export class ReadTurns {
  /** Kysely on the reading connection. */
  readonly queries: Queries;
  readonly #db: DatabaseSync;
  readonly #begin: StatementSync;
  readonly #look: StatementSync;
  readonly #commit: StatementSync;
  readonly #log: Pick<CommitLog, 'underWay'>;
  #end: NodeJS.Timeout | undefined;
  #isHeld = false;
  /** Of the open transaction. */
  #waits: Promise<void> | undefined;

  /**
   * @param db the reading connection
   * @param log says when everything that can be read now is on the disk
   */
  constructor(
    db: DatabaseSync,
    log: Pick<CommitLog, 'underWay'>,
    onError?: ConnectionOptions['onError'],
  ) {
    this.queries = kyselyOn(db, { ...(onError && { onError }), enter: () => this.#enter() });
    this.#db = db;
    this.#log = log;
    this.#begin = db.prepare('begin');
    this.#commit = db.prepare('commit');
    // SQLite takes the state of the database at the first read of a transaction, not at its begin.
    this.#look = db.prepare('select 1 from sqlite_schema limit 1');
  }

  /**
   * Called before each read.
   *
   * @returns what its result has to wait for: a commit under way, where the connection was not held when it was made
   *   (an error of the disk ends a transaction)
   */
  #enter(): Promise<void> | undefined {
    if (!this.#db.isTransaction) this.#open();
    return this.#waits;
  }

  #open(): void {
    this.#begin.run();
    this.#waits = this.#log.underWay;
    this.#end ??= setTimeout(() => {
      this.#end = undefined;
      if (!this.#isHeld) this.renew();
    }, TURN_MS);
  }

  /**
   * Keeps the newest state until {@link renew}. The transaction begins anew, since one from before the last checkpoint
   * would keep the log from starting again.
   */
  hold(): void {
    this.renew();
    this.#open();
    this.#look.get();
    this.#isHeld = true;
  }

  /** Ends the open transaction: the next read sees the newest state. */
  renew(): void {
    this.#isHeld = false;
    if (this.#db.isTransaction) this.#commit.run();
  }

  close(): void {
    clearTimeout(this.#end);
    this.#db.close();
  }
}
