/** Keeps a second process off the same data folder. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/**
 * Takes the folder for this process, until it ends or calls the answer. SQLite's own file lock is
 * used for it: the system drops it when the process dies, however it dies.
 *
 * @returns undefined where another process has the folder
 */
export function lockDirectory(directory: string): (() => void) | undefined {
  const lock = new DatabaseSync(join(directory, 'lock.sqlite'), { timeout: 0 });
  try {
    lock.exec('begin exclusive');
    return () => lock.close();
  } catch (error) {
    lock.close();
    if (error instanceof Error && /locked/.test(error.message)) return undefined;
    throw error;
  }
}
