/** What tests leave running is ended when all tests of the process have ended: see `test/run-files.ts`. */
import { after } from 'node:test';

const cleanups: (() => Promise<void> | void)[] = [];

/** Runs something when all tests of the process have ended, before what was opened earlier is closed. */
export function atEnd(cleanup: () => Promise<void> | void): void {
  cleanups.push(cleanup);
}

after(async () => {
  // Last opened, first closed: a database is closed before its server drops it.
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});
