/**
 * The seventh migration: what the last look for a DNS record found, and whether a claim could send when it was evaluated last
 * (`tenants/domains/`). The indexes are for the filters of the operator's list of domains and for the metric. It is on main,
 * and so never edited.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

const indexes = [
  "create index dns_records_unsigned on dns_records (domain_id) where purpose = 'dkim' and key_state is null and status <> 'verified'",
  "create index dns_records_failed on dns_records (purpose, domain_id) where status = 'failed' and key_state is null",
];

/** On PostgreSQL: the changes that lock a table for a moment; each may run twice. */
export const beforeSeventh: readonly string[] = [
  'alter table dns_records add column if not exists last_check text',
  'alter table domains add column if not exists could_send bigint, add column if not exists could_send_since bigint',
];

/** On PostgreSQL: the work after the transaction. */
export const laterThanSeventh: Later = { indexes, checks: {} };

const ofSqlite = [
  'alter table dns_records add column last_check text',
  'alter table domains add column could_send integer',
  'alter table domains add column could_send_since integer',
  ...indexes,
];

/**
 * @param engine whose SQL is spoken
 * @param isBegun whether {@link beforeSeventh} was done
 */
export function seventh(engine: 'sqlite' | 'postgres', isBegun = false): Migration {
  const changes = engine === 'sqlite' ? ofSqlite : isBegun ? [] : beforeSeventh;
  return {
    async up(db: Kysely<unknown>) {
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
