/** A SQLite database that another process may have open: read as it is, and copied. */
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import type { ReadDatabase } from '../engine.ts';
import { kyselyOn } from './driver.ts';

/** How long the service may hold the lock, in milliseconds. */
const BUSY_TIMEOUT_MS = 30_000;

/**
 * Opens a database to read it, beside a service or without one. Nothing is migrated.
 *
 * @throws Error of SQLite where there is none
 */
export function openSqliteToRead(path: string): ReadDatabase {
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  const read = kyselyOn(db);
  return {
    engine: 'sqlite',
    read,
    async snapshot(work) {
      db.exec('begin');
      try {
        return await work(read);
      } finally {
        db.exec('rollback');
      }
    },
    async close() {
      db.close();
    },
  };
}

/**
 * Writes a copy that is one moment of the database, durably, while others write on. The copy is one file, without
 * a log. What the copy has may be a moment newer than what is on the disk of the original: the service tells
 * nobody of a commit before that, and the copy is as good with it as without.
 *
 * The online backup of SQLite would begin anew with each commit of the service. This reads in one transaction;
 * meanwhile the log of the service cannot start anew, and grows by what is written.
 *
 * @param target a file that is not there yet
 */
export function copySqlite(path: string, target: string): void {
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  try {
    db.prepare('vacuum into ?').run(target);
  } finally {
    db.close();
  }
  const file = openSync(target, 'r+');
  fsyncSync(file);
  closeSync(file);
}

/** Looks through the whole file; what is wrong with it, nothing where it is well. */
export function findDamage(path: string): string[] {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    const rows = db.prepare('pragma integrity_check(10)').all();
    return rows.map((row) => String(row.integrity_check)).filter((line) => line !== 'ok');
  } catch (error) {
    return [String(error)];
  } finally {
    db.close();
  }
}
