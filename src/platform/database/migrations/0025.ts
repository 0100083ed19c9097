/**
 * The twenty-fifth migration: numbers of messages that never change, by which IMAP finds and orders them
 * (`mailboxes/mailstore`). It is on main, and so never edited; its types are in `../schema-mailboxes.ts`.
 */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

const types = {
  sqlite: { int: 'integer', octets: 'blob' },
  postgres: { int: 'bigint', octets: 'bytea' },
};

function table(engine: 'sqlite' | 'postgres'): string {
  const { int, octets } = types[engine];
  return `create table if not exists imap_numbers (
    mailbox_id ${int} not null references mailboxes (id) on delete cascade,
    kind ${int} not null,
    span ${int} not null,
    numbers ${octets} not null,
    primary key (mailbox_id, kind, span)
  )`;
}

/** On PostgreSQL: its reference locks the table of running nodes for a moment; it may run twice. */
export const beforeTwentyFifth: readonly string[] = [table('postgres')];

/**
 * @param engine whose SQL is spoken
 * @param isBegun whether {@link beforeTwentyFifth} was done
 */
export function twentyFifth(engine: 'sqlite' | 'postgres', isBegun = false): Migration {
  return {
    async up(db: Kysely<unknown>) {
      if (!isBegun) await sql.raw(table(engine)).execute(db);
    },
  };
}
