/**
 * The fourteenth migration, for the console: the trace has the size of each message (`mail/trace`), and the audit log an index of
 * what was changed (`tenants/audit`). It is on main, and so never edited; its types are in `../schema.ts`.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

const byTarget = 'create index audit_by_target on audit (target, id)';

/** On PostgreSQL: the change that locks the table for a moment; it may run twice. */
export const beforeFourteenth: readonly string[] = [
  'alter table if exists trace add column if not exists size bigint',
];

/** On PostgreSQL: the work after the transaction. */
export const laterThanFourteenth: Later = { indexes: [byTarget], checks: {} };

const ofSqlite = ['alter table trace add column size integer', byTarget];

/** Whether {@link beforeFourteenth} changed the table: not where a migration of this transaction has made it. */
async function isChanged(db: Kysely<unknown>): Promise<boolean> {
  const { rows } = await sql`select 1 from pg_attribute
    where attrelid = 'trace'::regclass and attname = 'size'`.execute(db);
  return rows.length > 0;
}

/** @param engine whose SQL is spoken */
export function fourteenth(engine: 'sqlite' | 'postgres'): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const isSqlite = engine === 'sqlite';
      const changes = isSqlite ? ofSqlite : (await isChanged(db)) ? [] : beforeFourteenth;
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
