/**
 * The progress of the notifier: the positions that it has read in the spool, and the batch of these lines that is not
 * accepted yet. Both are in one file, which is replaced in one step, so that wherever the process ends, each line is
 * either still unread or in a batch that keeps its event ids.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { when } from '../../platform/errors/errors.ts';
import { isMissing, replaceDurably } from '../../platform/files/files.ts';
import type { MailboxEvent } from './merge-lines.ts';
import type { Positions } from './spool.ts';

export interface SpoolProgress {
  readonly positions: Positions;
  /** Events to post before anything else is read; empty: all are accepted. */
  readonly batch: readonly MailboxEvent[];
}

const FILE = 'notifier.json';

/**
 * Reads the stored progress.
 *
 * @returns undefined where there is none, or an unreadable one: then everything in the spool is posted again, which
 *   costs apps a sync and loses nothing
 */
export async function readProgress(directory: string): Promise<SpoolProgress | undefined> {
  const text = await readFile(join(directory, FILE), 'utf8').catch(when(isMissing, ''));
  try {
    const value: unknown = JSON.parse(text);
    return isProgress(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Only this process writes the file, and always completely: so only its outline is checked. */
function isProgress(value: unknown): value is SpoolProgress {
  if (typeof value !== 'object' || value === null) return false;
  const { positions, batch } = value as Record<string, unknown>;
  return typeof positions === 'object' && positions !== null && Array.isArray(batch);
}

/** Replaces the stored progress; durable when this returns. */
export async function keepProgress(directory: string, progress: SpoolProgress): Promise<void> {
  await replaceDurably(join(directory, FILE), JSON.stringify(progress), 0o600);
}
