/**
 * The thirteenth migration: mail of accounts and domains by the hour (`tenants/usage`), and held deliveries by their sender
 * (`mail/queue`). It is on main, and so never edited; its types are in `../schema.ts`.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

const held =
  "create index deliveries_held on deliveries (kind, sender, updated_at) where status = 'held'";

/** On PostgreSQL: the work after the transaction. */
export const laterThanThirteenth: Later = { indexes: [held], checks: {} };

function statements(engine: 'sqlite' | 'postgres'): string[] {
  const int = engine === 'sqlite' ? 'integer' : 'bigint';
  const key = 'hour, domain_id, account_id';
  return [
    `create table usage_hours (
      hour ${int} not null,
      domain_id ${int} not null,
      account_id ${int} not null,
      messages_in ${int} not null default 0,
      messages_out ${int} not null default 0,
      bounced ${int} not null default 0,
      refused ${int} not null default 0,
      primary key (${key})
    )`,
    `create index usage_hours_bounced on usage_hours (${key}) where bounced > 0`,
    ...(engine === 'sqlite' ? [held] : []),
  ];
}

/** @param engine whose SQL is spoken */
export function thirteenth(engine: 'sqlite' | 'postgres'): Migration {
  return {
    async up(db: Kysely<unknown>) {
      for (const statement of statements(engine)) await sql.raw(statement).execute(db);
    },
  };
}
