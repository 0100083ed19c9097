/**
 * Which mail server events were taken in the last day: the table `mailserver_events`.
 *
 * A row for each event is the simple way, and the one on PostgreSQL, where several nodes ask at
 * once. But ids are random, so that on SQLite nearly every row would rewrite a page: some 20
 * microseconds an event, all on the one thread. There, what is known is looked up in memory and the
 * rows, one for each slice of a batch, are read at the start alone.
 */
import type { Database } from '../database/database.ts';
import { PackedEvents } from './mailserver-events-packed.ts';
import { EventRows } from './mailserver-events-rows.ts';

/** Remembers events for a day, durably; where an add fails, nothing of it is remembered. */
export interface SeenEvents {
  /** Answers for each event whether it was not known before; repeats are known. */
  add(eventIds: readonly string[]): Promise<readonly boolean[]>;
  /** Forgets what is older than a day, in small steps, until it is done. */
  prune(stopping: () => boolean): Promise<void>;
}

/** @param memoryMax on SQLite, events known in memory: some 30 bytes each */
export function openSeenEvents(
  database: Database,
  now: () => number,
  memoryMax = 2_000_000,
): SeenEvents {
  const rows = new EventRows(database, now);
  return database.engine === 'sqlite' ? new PackedEvents(database, rows, now, memoryMax) : rows;
}
