/**
 * The twenty-third migration: what was kept of bodies for answers of IMAP is made again when a program asks for it
 * (`servers/imap/texts.ts`), since faults in it were mended: names in UTF-8 were cut, and encoded messages lacked the form
 * of one. A node of before may keep a few more of these while it still runs. It is on main, and so never edited.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Neither reads the rows: of a million, `delete` takes seconds. */
const EMPTY = {
  sqlite: [
    'drop table imap_texts',
    `create table imap_texts (
      body_id integer primary key references bodies (id) on delete cascade,
      envelope text not null,
      structure text not null,
      search text not null
    )`,
  ],
  postgres: ['truncate imap_texts'],
};

/** @param engine whose SQL is spoken */
export function twentyThird(engine: 'sqlite' | 'postgres'): Migration {
  return {
    async up(db: Kysely<unknown>) {
      for (const statement of EMPTY[engine]) await sql.raw(statement).execute(db);
    },
  };
}
