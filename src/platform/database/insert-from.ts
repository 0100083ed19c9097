/** Rows that one statement writes from what another part of it selects or has written. */
import { type RawBuilder, sql } from 'kysely';

/** An insert whose values may be expressions on what is selected from. */
export function insertFrom(table: string, row: object, from: string): RawBuilder<unknown> {
  const columns = Object.keys(row).map((column) => sql.ref(column));
  return sql`insert into ${sql.table(table)} (${sql.join(columns)})
    select ${sql.join(Object.values(row))} from ${sql.raw(from)}`;
}
