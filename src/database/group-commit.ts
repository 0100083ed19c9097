/**
 * Group commit: writes that arrive while the last ones are brought to the disk share one transaction
 * and so one fsync. Under load groups grow by themselves; a lone write waits for nothing but its own
 * fsync.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import type { CommitLog } from './commit-log.ts';
import type { Queries } from './engine.ts';

/**
 * Turns of the event loop in which more writes may join a group. One in which nothing happens takes
 * microseconds; under load each brings more of them, and answers to others leave meanwhile. More than
 * these bring no more.
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

/** Steps that are prepared once, since SQLite parses text anew each time; rolling back is rare. */
interface Steps {
  readonly begin: StatementSync;
  readonly commit: StatementSync;
  readonly save: StatementSync;
  readonly release: StatementSync;
}

export interface GroupCommitOptions {
  /** Kysely on the same connection. */
  readonly queries: Queries;
  readonly log: Pick<CommitLog, 'underWay' | 'sync'>;
  /** Awaited before each transaction. */
  readonly beforeBegin?: () => Promise<void>;
  /**
   * Called at once after a commit, before any writer hears of it.
   *
   * @returns whether anything was written
   */
  readonly onCommit: () => boolean;
}

export class GroupCommit {
  readonly #db: DatabaseSync;
  readonly #steps: Steps;
  readonly #options: GroupCommitOptions;
  readonly #waiting: Write[] = [];
  #running: Promise<void> | undefined;
  #isClosed = false;

  constructor(db: DatabaseSync, options: GroupCommitOptions) {
    this.#db = db;
    this.#options = options;
    this.#steps = {
      begin: db.prepare('begin immediate'),
      commit: db.prepare('commit'),
      save: db.prepare('savepoint one_write'),
      release: db.prepare('release one_write'),
    };
  }

  /**
   * Adds one write to the next group; resolves with its value once the commit is on the disk. It runs
   * again where another of the group throws: what the first run wrote is undone by then.
   */
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

  async #commit(group: Write[]): Promise<void> {
    let outcomes: readonly Outcome[] = [];
    const { log, beforeBegin, onCommit } = this.#options;
    try {
      // Nothing is under way here unless it has failed, and then nothing is written any more.
      await log.underWay;
      await beforeBegin?.();
      outcomes = (await this.#runTogether(group)) ?? (await this.#runEachAlone(group));
      this.#steps.commit.run();
      if (onCommit()) await log.sync(group.length === 1);
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

  /**
   * Runs all of them in one transaction, without a savepoint for each: two statements more, and pages
   * copied in case that they are needed. Nearly always none of them throws.
   *
   * @returns undefined where one did and has taken the others with it
   * @throws what a lone write throws, and what ends the transaction itself
   */
  async #runTogether(group: readonly Write[]): Promise<Outcome[] | undefined> {
    const outcomes: Outcome[] = [];
    this.#steps.begin.run();
    try {
      for (const { run } of group) {
        outcomes.push({ ok: true, value: await run(this.#options.queries) });
      }
      return outcomes;
    } catch (error) {
      if (group.length === 1 || !this.#db.isTransaction) throw error;
      this.#db.exec('rollback');
      return undefined;
    }
  }

  /** Runs them again, so that what throws undoes what it did alone. */
  async #runEachAlone(group: readonly Write[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    this.#steps.begin.run();
    for (const write of group) outcomes.push(await this.#attempt(write));
    return outcomes;
  }

  /** Runs one write in a savepoint, so that its failure takes nothing of the others with it. */
  async #attempt(write: Write): Promise<Outcome> {
    this.#steps.save.run();
    try {
      const value = await write.run(this.#options.queries);
      this.#steps.release.run();
      return { ok: true, value };
    } catch (error) {
      // A full disk or an I/O error can end the whole transaction: then nothing is left to undo.
      if (!this.#db.isTransaction) throw error;
      this.#db.exec('rollback to one_write');
      this.#steps.release.run();
      return { ok: false, error };
    }
  }
}
