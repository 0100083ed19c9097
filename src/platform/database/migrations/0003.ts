/**
 * The third migration: whose delivery a row is, so that each sender has his share of the places (`mail/queue/lanes.ts`).
 * It is on main, and so never edited; its types are in `../schema.ts`. The index `deliveries_due` is used by older
 * programs and by the operator's lists.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

const indexes = [
  "create index deliveries_lanes on deliveries (kind, sender, destination, next_attempt_at, id) where status = 'queued'",
];

/** On PostgreSQL: the change that locks the table for a moment; it may run twice. */
export const beforeThird: readonly string[] = [
  "alter table deliveries add column if not exists sender text not null default ''",
];

/** On PostgreSQL: the work after the transaction. */
export const laterThanThird: Later = { indexes, checks: {} };

/**
 * @param engine whose SQL is spoken
 * @param isBegun whether {@link beforeThird} was done
 */
export function third(engine: 'sqlite' | 'postgres', isBegun = false): Migration {
  const ofSqlite = [
    "alter table deliveries add column sender text not null default ''",
    ...indexes,
  ];
  const changes = engine === 'sqlite' ? ofSqlite : isBegun ? [] : beforeThird;
  return {
    async up(db: Kysely<unknown>) {
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
