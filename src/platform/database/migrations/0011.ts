/**
 * The eleventh migration: what operators ask about the queue (`mail/queue/receivers.ts`): from whom a message is, the URL of a
 * webhook, and the reason of the last failed attempt as a short text that many deliveries share. A delivery that succeeds at once is in no
 * index more than before, except that of the last success at a receiver. It is on main, and so never edited.
 *
 * `deliveries_queued` has what `deliveries_due` had, which it replaces, for older programs too.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Later } from '../postgres/online.ts';

const indexes = [
  "create index deliveries_queued on deliveries (destination, domain_id, kind, next_attempt_at, id, sender, mail_from, created_at) where status = 'queued'",
  "create index deliveries_troubled on deliveries (status, destination, reason, domain_id, kind, sender, mail_from, next_attempt_at, created_at, updated_at, id) where status <> 'delivered' and (status <> 'queued' or reason is not null)",
  "create index deliveries_succeeded on deliveries (destination, finished_at) where status = 'delivered'",
];

/** On PostgreSQL: the changes that lock the table for a moment; each may run twice. */
export const beforeEleventh: readonly string[] = [
  'alter table deliveries add column if not exists mail_from text, add column if not exists reason text, add column if not exists url text',
  'drop index if exists deliveries_due',
];

/** On PostgreSQL: the work after the transaction. */
export const laterThanEleventh: Later = { indexes, checks: {} };

const ofSqlite = [
  'alter table deliveries add column mail_from text',
  'alter table deliveries add column reason text',
  'alter table deliveries add column url text',
  'drop index deliveries_due',
  ...indexes,
];

/**
 * @param engine whose SQL is spoken
 * @param isBegun whether {@link beforeEleventh} was done
 */
export function eleventh(engine: 'sqlite' | 'postgres', isBegun = false): Migration {
  const changes = engine === 'sqlite' ? ofSqlite : isBegun ? [] : beforeEleventh;
  return {
    async up(db: Kysely<unknown>) {
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
