/**
 * The eighteenth migration: what the IMAP server keeps (`mailboxes/mailstore`). It is on main, and so never edited; its
 * types are in `../schema.ts`.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** On PostgreSQL: changes that lock tables of running nodes for a moment; each may run twice. */
export const beforeEighteenth: readonly string[] = [
  'alter table mailboxes add column if not exists keywords text, add column if not exists recent_uid bigint not null default 1',
  // A reference locks the table that it names.
  ...tables('bigint'),
];

const ofSqlite = [
  'alter table mailboxes add column keywords text',
  'alter table mailboxes add column recent_uid integer not null default 1',
  ...tables('integer'),
];

function tables(int: 'bigint' | 'integer'): string[] {
  return [
    `create table if not exists subscriptions (
      account_id ${int} not null references accounts (id) on delete cascade,
      name text not null,
      is_on ${int} not null,
      primary key (account_id, name)
    )`,
    `create table if not exists imap_texts (
      body_id ${int} primary key references bodies (id) on delete cascade,
      envelope text not null,
      structure text not null,
      search text not null
    )`,
  ];
}

/**
 * @param engine whose SQL is spoken
 * @param isBegun whether {@link beforeEighteenth} was done
 */
export function eighteenth(engine: 'sqlite' | 'postgres', isBegun = false): Migration {
  const changes = engine === 'sqlite' ? ofSqlite : isBegun ? [] : beforeEighteenth;
  return {
    async up(db: Kysely<unknown>) {
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
