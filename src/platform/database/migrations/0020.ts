/**
 * The twentieth migration: the fields of headers that mail programs ask for (`mailboxes/mailstore`). It is on main, and
 * so never edited; its types are in `../schema-mailboxes.ts`.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** @param engine whose SQL is spoken */
export function twentieth(engine: 'sqlite' | 'postgres'): Migration {
  const int = engine === 'sqlite' ? 'integer' : 'bigint';
  return {
    async up(db: Kysely<unknown>) {
      const statement = `create table imap_headers (
        body_id ${int} primary key references bodies (id) on delete cascade,
        fields text not null
      )`;
      await sql.raw(statement).execute(db);
    },
  };
}
