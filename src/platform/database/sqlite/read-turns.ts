/**
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
import type { DatabaseSync, StatementSync } from 'node:sqlite';

/** Milliseconds of a turn at most: a transaction that stays open keeps the log from starting again. */
const TURN_MS = 10;

export class ReadTurns {
  readonly #db: DatabaseSync;
  readonly #begin: StatementSync;
  readonly #look: StatementSync;
  readonly #commit: StatementSync;
  readonly #settling: () => Promise<void> | undefined;
  #end: NodeJS.Timeout | undefined;
  #isHeld = false;
  /** Of the open transaction. */
  #waits: Promise<void> | undefined;

  /**
   * @param db the reading connection
   * @param settling settles when everything that can be read now is on the disk; undefined while it is
   */
  constructor(db: DatabaseSync, settling: () => Promise<void> | undefined) {
    this.#db = db;
    this.#settling = settling;
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
  enter(): Promise<void> | undefined {
    if (!this.#db.isTransaction) this.#open();
    return this.#waits;
  }

  #open(): void {
    this.#begin.run();
    this.#waits = this.#settling();
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
