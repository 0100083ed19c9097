/**
 * The fifth migration: a row of the trace holds all that one transaction did with a message for a recipient, and the index
 * by time goes, since ids are in the order of time (`mail/trace/`). A program of before 0.4.0 that still runs beside this
 * one reads the first event of such a row, and lists without a filter slowly. It is on main, and so never edited.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Both lock the one table for a moment, and write no row. */
const changes = ['alter table trace add column more text', 'drop index trace_by_time'];

export const fifth: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of changes) await sql.raw(statement).execute(db);
  },
};
