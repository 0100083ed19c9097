/**
 * The sixth migration: requests below /v2 have an `Idempotency-Key`, too. Such a request belongs to no account: its row has a
 * scope instead. It is on main, and so never edited.
 *
 * An older program knows only rows with an account, and uses the index `idempotency_keys_by_key`, which stays.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

const indexes = [
  'create unique index idempotency_keys_by_scope on idempotency_keys (scope, key) where scope is not null',
];

/** On PostgreSQL: the change that locks the table for a moment; it may run twice. A database of 0.2.0 has no such table yet. */
export const beforeSixth: readonly string[] = [
  'alter table if exists idempotency_keys alter column account_id drop not null, add column if not exists scope text',
];

/** On PostgreSQL: the work after the transaction. */
export const laterThanSixth: Later = { indexes, checks: {} };

/** SQLite cannot drop `not null`: the table is made again. It has the requests of a day. */
const ofSqlite = [
  `create table idempotency_keys_next (id integer primary key autoincrement,
    account_id integer references accounts (id) on delete cascade, scope text, key text not null, request_hash text,
    status integer, answer text, started_at integer not null)`,
  `insert into idempotency_keys_next (id, account_id, key, request_hash, status, answer, started_at)
    select id, account_id, key, request_hash, status, answer, started_at from idempotency_keys`,
  'drop table idempotency_keys',
  'alter table idempotency_keys_next rename to idempotency_keys',
  'create unique index idempotency_keys_by_key on idempotency_keys (account_id, key)',
  'create index idempotency_keys_by_time on idempotency_keys (started_at)',
  ...indexes,
];

/** Whether {@link beforeSixth} changed the table: not where a migration of this transaction has made it. */
async function isChanged(db: Kysely<unknown>): Promise<boolean> {
  const { rows } = await sql`select 1 from pg_attribute
    where attrelid = 'idempotency_keys'::regclass and attname = 'scope'`.execute(db);
  return rows.length > 0;
}

/** @param engine whose SQL is spoken */
export function sixth(engine: 'sqlite' | 'postgres'): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const isSqlite = engine === 'sqlite';
      const changes = isSqlite ? ofSqlite : (await isChanged(db)) ? [] : beforeSixth;
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
