/**
 * How far the notifier is: what it read of the spool, and the batch made of it that is not accepted
 * yet. Both lie in one file, replaced in one step, so that wherever the process ends, each line is
 * either still to be read or in a batch that keeps its event ids.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, replaceDurably } from '../files/files.ts';
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
    if (isMissing(error)) return undefined;
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
  await replaceDurably(join(directory, FILE), JSON.stringify(progress), 0o600);
}
