import { type RawBuilder, sql } from 'kysely';
import type { Engine } from './engine.ts';

/**
 * Whether a column is one of some integers: a condition whose text is the same for any number of them, so that a
 * {@link PreparedQuery} can have it.
 *
 * @param json the integers, as JSON: `[1,2]`
 */
export function isAmong(engine: Engine, column: string, json: string): RawBuilder<boolean> {
  return engine === 'sqlite'
    ? sql`${sql.ref(column)} in (select value from json_each(${json}))`
    : sql`${sql.ref(column)} = any(translate(${json}, '[]', '{}')::bigint[])`;
}
