/**
 * The twenty-second migration: the words of a message may be queued with it (`mailboxes/search`). It is on main, and so
 * never edited; its types are in `../schema-mailboxes.ts`.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** On PostgreSQL: locks the table of running nodes for a moment, and may run twice. */
export const beforeTwentySecond: readonly string[] = [
  'alter table search_queue add column if not exists terms text compression lz4, add column if not exists date bigint',
];

const ofSqlite = [
  'alter table search_queue add column terms text',
  'alter table search_queue add column date integer',
];

/**
 * @param engine whose SQL is spoken
 * @param isBegun whether {@link beforeTwentySecond} was done
 */
export function twentySecond(engine: 'sqlite' | 'postgres', isBegun = false): Migration {
  const changes = engine === 'sqlite' ? ofSqlite : isBegun ? [] : beforeTwentySecond;
  return {
    async up(db: Kysely<unknown>) {
      for (const statement of changes) await sql.raw(statement).execute(db);
    },
  };
}
