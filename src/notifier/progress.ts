/**
 * How far the notifier is: what it read of the spool, and the batch made of it that is not accepted
 * yet. Both lie in one file, replaced in one step, so that wherever the process ends, each line is
 * either still to be read or in a batch that keeps its event ids.
 */
import { open, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { MailboxEvent } from './merge-lines.ts';
import type { Positions } from './spool.ts';

export interface Progress {
  readonly positions: Positions;
  /** Events to be posted before anything else is read; none: all are accepted. */
  readonly batch: readonly MailboxEvent[];
}

const FILE = 'notifier.json';

/**
 * Reads what was kept.
 *
 * @returns undefined where there is nothing, or nothing to make sense of: everything in the spool
 *   is then told again, which costs apps a sync and loses nothing
 */
export async function readProgress(directory: string): Promise<Progress | undefined> {
  let text: string;
  try {
    text = await readFile(join(directory, FILE), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const value: unknown = JSON.parse(text);
    return isProgress(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Nobody but this process writes the file, and always whole: its outline is enough. */
function isProgress(value: unknown): value is Progress {
  if (typeof value !== 'object' || value === null) return false;
  const { positions, batch } = value as Record<string, unknown>;
  return typeof positions === 'object' && positions !== null && Array.isArray(batch);
}

/** Writes it in place of what was kept; on the disk when this returns. */
export async function keepProgress(directory: string, progress: Progress): Promise<void> {
  const temporary = join(directory, `${FILE}.new`);
  const file = await open(temporary, 'w', 0o600);
  try {
    await file.writeFile(JSON.stringify(progress));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, join(directory, FILE));
  // fsync of a file does not cover its name.
  const folder = await open(dirname(temporary), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
