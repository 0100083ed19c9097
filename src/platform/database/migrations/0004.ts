/**
 * The fourth migration: an index that has all that is asked of a claim when it is due. So the look for due claims passes
 * quickly over those of a user who has his share of the checks (`tenants/domains/verification/leases.ts`). It is on main,
 * and so never edited.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

const indexes = ['create index domains_due on domains (next_check_at, id, user_id, lease_until)'];

/** On PostgreSQL: the work after the transaction. */
export const laterThanFourth: Later = { indexes, checks: {} };

/** @param engine whose SQL is spoken */
export function fourth(engine: 'sqlite' | 'postgres'): Migration {
  return {
    async up(db: Kysely<unknown>) {
      if (engine === 'postgres') return;
      for (const statement of indexes) await sql.raw(statement).execute(db);
    },
  };
}
