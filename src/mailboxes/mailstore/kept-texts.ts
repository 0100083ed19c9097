/** Queries for what is kept of bodies for answers of IMAP, by the ids of the bodies. */
import { sql } from 'kysely';
import {
  isAmong,
  isOnSqlite,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';

/** Answers of a body, ready to be sent. */
export type ImapTexts = Omit<Row<'imap_texts'>, 'body_id'>;

export function prepareTexts(kinds: readonly (keyof ImapTexts)[]) {
  return new PreparedQuery((value: { ids: string }, queries) =>
    queries
      .selectFrom('imap_texts')
      .select(['body_id', ...kinds])
      .where(isAmong(queries, 'body_id', value.ids)),
  );
}

/** Where a text is in another one, from 1 on; 0 where it is not. */
const placeIn = (queries: Queries) => sql.raw(isOnSqlite(queries) ? 'instr' : 'strpos');

export const searchTexts = new PreparedQuery((value: { ids: string; text: string }, queries) =>
  queries
    .selectFrom('imap_texts')
    .select([
      'body_id',
      sql<string>`case when ${placeIn(queries)}(search, ${value.text}) > 0 then search else '' end`.as(
        'search',
      ),
    ])
    .where(isAmong(queries, 'body_id', value.ids)),
);

export const headersOf = new PreparedQuery((value: { ids: string }, queries) =>
  queries
    .selectFrom('imap_headers')
    .select(['body_id', 'fields'])
    .where(isAmong(queries, 'body_id', value.ids)),
);
