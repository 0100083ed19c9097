/**
 * The eighteenth migration: what the IMAP server keeps (`mailboxes/mailstore`). It is on main, and so never edited; its
 * types are in `../schema.ts`.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

function statements(engine: 'sqlite' | 'postgres'): string[] {
  const int = engine === 'sqlite' ? 'integer' : 'bigint';
  return [
    'alter table mailboxes add column keywords text',
    `alter table mailboxes add column recent_uid ${int} not null default 1`,
    `create table subscriptions (
      account_id ${int} not null references accounts (id) on delete cascade,
      name text not null,
      is_on ${int} not null,
      primary key (account_id, name)
    )`,
    `create table imap_texts (
      body_id ${int} primary key references bodies (id) on delete cascade,
      envelope text not null,
      structure text not null,
      search text not null
    )`,
  ];
}

/** @param engine whose SQL is spoken */
export function eighteenth(engine: 'sqlite' | 'postgres'): Migration {
  return {
    async up(db: Kysely<unknown>) {
      for (const statement of statements(engine)) await sql.raw(statement).execute(db);
    },
  };
}
