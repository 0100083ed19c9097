/** Reads and copies an SQLite database that another process may have open. */
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import type { ReadDatabase } from '../engine.ts';
import { kyselyOn } from './driver.ts';

/** How long the service may hold the lock, in milliseconds. */
const BUSY_TIMEOUT_MS = 30_000;

/**
 * Opens a database to read it, whether or not a service uses it. Nothing is migrated.
 *
 * @throws Error of SQLite where it does not exist
 */
export function openSqliteToRead(path: string): ReadDatabase & AsyncDisposable {
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
    async [Symbol.asyncDispose]() {
      db.close();
    },
  };
}

/**
 * Writes a durable copy of one moment of the database, while others continue to write. The copy is one file, without a
 * log. It may have commits that are not on the disk of the original yet: the service has answered no client for them,
 * and the copy is as good with them as without.
 *
 * SQLite's online backup would start again with each commit of the service. This reads in one transaction; meanwhile
 * the log of the service cannot start again, and grows by what is written.
 *
 * @param target a file that does not exist yet
 */
export function copySqlite(path: string, target: string): void {
  {
    using db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
    db.prepare('vacuum into ?').run(target);
  }
  const file = openSync(target, 'r+');
  fsyncSync(file);
  closeSync(file);
}

/** Checks the whole file; returns what is wrong with it, empty where it is intact. */
export function findDamage(path: string): string[] {
  using db = new DatabaseSync(path, { readOnly: true });
  try {
    const rows = db.prepare('pragma integrity_check(10)').all();
    return rows.map((row) => String(row.integrity_check)).filter((line) => line !== 'ok');
  } catch (error) {
    return [String(error)];
  }
}
