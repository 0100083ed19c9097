/**
 * The twenty-first migration: without the index by receiver (`mail/queue`). Since operators' lists read the indexes of
 * the eleventh migration, it served nothing but the last error of a group, which is found by an id now, and each delivery
 * wrote it. It is on main, and so never edited.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** On PostgreSQL: locks the table for a moment, and may run twice. In a new database the index does not exist. */
export const beforeTwentyFirst: readonly string[] = ['drop index if exists deliveries_by_receiver'];

export const twentyFirst: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of beforeTwentyFirst) await sql.raw(statement).execute(db);
  },
};
