/**
 * The twenty-fourth migration: messages whose bodies could not be read are indexed later (`mailboxes/search`). It is on
 * main, and so never edited; its types are in `../schema.ts`.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** @param engine whose SQL is spoken */
export function twentyFourth(engine: 'sqlite' | 'postgres'): Migration {
  const int = engine === 'sqlite' ? 'integer' : 'bigint';
  return {
    async up(db: Kysely<unknown>) {
      const statements = [
        `create table search_unread (
          account_id ${int} not null,
          body_id ${int} not null,
          next_at ${int} not null,
          primary key (account_id, body_id)
        )`,
        'create index search_unread_due on search_unread (next_at)',
      ];
      for (const statement of statements) await sql.raw(statement).execute(db);
    },
  };
}
