/**
 * The twelfth migration: what the operators' list of messages needs (`mail/trace/messages.ts`). The trace has the domain of
 * each message, and its subject where that is kept. Its indexes have the first rows of each message alone, by time and by
 * domain, and what rarely happens; the one of deliveries has those that were not delivered, the newest last. It is on
 * main, and so never edited.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

/**
 * None ends with the id alone: PostgreSQL would then read the primary key backwards, and look at all rows. `trace_by_event` is used where a query has one of its terms; for `in`, SQLite would want the same words in the query.
 */
const indexes = [
  'create index trace_openings on trace (at, id) where sender is not null',
  'create index trace_by_domain on trace (domain, at, id) where domain is not null',
  "create index trace_by_event on trace (event, at, id) where event = 'refused' or event = 'deferred' or event = 'bounced' or event = 'dropped' or event = 'cancelled'",
  "create index deliveries_undelivered on deliveries (status, created_at, id) where status <> 'delivered'",
];

/** On PostgreSQL: the change that locks the table for a moment; it may run twice. */
export const beforeTwelfth: readonly string[] = [
  'alter table if exists trace add column if not exists domain text, add column if not exists subject text',
];

/** On PostgreSQL: the work after the transaction. */
export const laterThanTwelfth: Later = { indexes, checks: {} };

const ofSqlite = [
  'alter table trace add column domain text',
  'alter table trace add column subject text',
  ...indexes,
];

/** Whether {@link beforeTwelfth} changed the table: not where a migration of this transaction has made it. */
async function isChanged(db: Kysely<unknown>): Promise<boolean> {
  const { rows } = await sql`select 1 from pg_attribute
    where attrelid = 'trace'::regclass and attname = 'subject'`.execute(db);
  return rows.length > 0;
}

/** @param engine whose SQL is spoken */
export function twelfth(engine: 'sqlite' | 'postgres'): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const isSqlite = engine === 'sqlite';
      const changes = isSqlite ? ofSqlite : (await isChanged(db)) ? [] : beforeTwelfth;
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
