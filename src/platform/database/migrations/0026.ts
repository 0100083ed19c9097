/**
 * The twenty-sixth migration: kept answers and suppressed addresses are no longer removed by the statement that deletes
 * their account or domain, for which everybody waited, but afterwards and some at a time; and a list of suppressed addresses
 * reads no more than its page. It is on main, and so never edited.
 *
 * Suppressed addresses of a domain that a program of before deletes meanwhile stay, and nothing finds them.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

const indexes = ['create index suppressions_in_order on suppressions (domain_id, id)'];

/** On PostgreSQL: each locks two tables for a moment, and may run twice. */
export const beforeTwentySixth: readonly string[] = [
  'alter table if exists idempotency_keys drop constraint if exists idempotency_keys_account_id_fkey',
  'alter table if exists suppressions drop constraint if exists suppressions_domain_id_fkey',
];

/** On PostgreSQL: the work after the transaction. */
export const laterThanTwentySixth: Later = { indexes, checks: {} };

/** SQLite cannot drop a reference: the tables are made again. */
const ofSqlite = [
  `create table idempotency_keys_next (id integer primary key autoincrement, account_id integer, scope text,
    key text not null, request_hash text, status integer, answer text, started_at integer not null)`,
  `insert into idempotency_keys_next (id, account_id, scope, key, request_hash, status, answer, started_at)
    select id, account_id, scope, key, request_hash, status, answer, started_at from idempotency_keys`,
  'drop table idempotency_keys',
  'alter table idempotency_keys_next rename to idempotency_keys',
  'create unique index idempotency_keys_by_key on idempotency_keys (account_id, key)',
  'create index idempotency_keys_by_time on idempotency_keys (started_at)',
  'create unique index idempotency_keys_by_scope on idempotency_keys (scope, key) where scope is not null',
  `create table suppressions_next (id integer primary key autoincrement, domain_id integer not null, address text not null,
    detail text not null, created_at integer not null)`,
  `insert into suppressions_next (id, domain_id, address, detail, created_at)
    select id, domain_id, address, detail, created_at from suppressions`,
  'drop table suppressions',
  'alter table suppressions_next rename to suppressions',
  'create unique index suppressions_by_address on suppressions (domain_id, address)',
  ...indexes,
];

/** Whether a reference is there: a database of an older release has had its tables only in this transaction. */
async function hasReferences(db: Kysely<unknown>): Promise<boolean> {
  const { rows } = await sql`select 1 from pg_constraint
    where conname in ('idempotency_keys_account_id_fkey', 'suppressions_domain_id_fkey')
    and connamespace = current_schema()::regnamespace`.execute(db);
  return rows.length > 0;
}

/** @param engine whose SQL is spoken */
export function twentySixth(engine: 'sqlite' | 'postgres'): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const ofPostgres = async () => ((await hasReferences(db)) ? beforeTwentySixth : []);
      const changes = engine === 'sqlite' ? ofSqlite : await ofPostgres();
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
