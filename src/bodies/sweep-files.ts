/** Clears away files that no row names: what a crash left between writing a body and committing it. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../database/database.ts';
import type { BodyFolder } from './body-folder.ts';

/**
 * Files younger than this are spared: their message may be about to be committed, here or on another
 * node. A message is never on its way for that long.
 */
export const SPARED_MS = 86_400_000;

/** Between batches of files, in milliseconds: a sweep of millions goes on beside everything else. */
const PAUSE_MS = 5;

export interface Swept {
  /** Files that no row names, moved to quarantine. */
  quarantined: number;
  /** Files in quarantine that a row names, moved back. */
  restored: number;
  /** Files whose time in quarantine was over. */
  removed: number;
}

/**
 * Looks through all files once. The caller has made sure that the folder is the database's.
 *
 * @param signal ends it early
 */
export async function sweepFiles(
  database: Database,
  folder: BodyFolder,
  now: number,
  signal: AbortSignal,
): Promise<Swept> {
  const swept = { quarantined: 0, restored: 0, removed: 0 };
  for await (const names of folder.listQuarantine()) {
    if (signal.aborted) return swept;
    const named = await findNamed(database, names);
    for (const name of names) {
      if (!named.has(name)) swept.removed += Number(await folder.expire(name, now));
      else swept.restored += Number(await folder.restore(name));
    }
    await pause(PAUSE_MS);
  }
  for await (const names of folder.list()) {
    if (signal.aborted) return swept;
    const named = await findNamed(database, names);
    for (const name of names) {
      if (named.has(name) || ((await folder.age(name, now)) ?? 0) < SPARED_MS) continue;
      swept.quarantined += Number(await folder.quarantine(name, now));
    }
    await pause(PAUSE_MS);
  }
  return swept;
}

/** Which of these files a row names. */
async function findNamed(
  { read }: Database,
  names: readonly string[],
): Promise<Set<string | null>> {
  const rows = await read.selectFrom('bodies').select('file').where('file', 'in', names).execute();
  return new Set(rows.map(({ file }) => file));
}
