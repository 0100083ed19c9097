/** Pages of rows in the order of their ids, counts that end early, and lists for several statements. */
import { type SelectQueryBuilder, sql } from 'kysely';
import type { Queries } from './engine.ts';

/** One page: the oldest rows first, or the newest. */
export interface IdPage {
  readonly limit: number;
  readonly offset: number;
  /** Only rows that come after this id in the order of the list. */
  readonly after?: number | undefined;
  readonly isNewestFirst?: boolean | undefined;
}

/** The rows of a query that are on a page. */
export function pageById<Tables, Table extends keyof Tables, Selected>(
  query: SelectQueryBuilder<Tables, Table, Selected>,
  { limit, offset, after, isNewestFirst = false }: IdPage,
): SelectQueryBuilder<Tables, Table, Selected> {
  const id = sql.ref<number>('id');
  const behind = isNewestFirst ? sql<boolean>`${id} < ${after}` : sql<boolean>`${id} > ${after}`;
  return query
    .$if(after !== undefined, (all) => all.where(behind))
    .orderBy(id, isNewestFirst ? 'desc' : 'asc')
    .limit(limit)
    .offset(offset);
}

/** How many rows a query has; `most` stands for as many or more, since no further one is read. */
export async function countUpTo<Tables, Table extends keyof Tables, Selected>(
  queries: Queries,
  rows: SelectQueryBuilder<Tables, Table, Selected>,
  most: number,
): Promise<number> {
  const counted = sql<{
    count: number;
  }>`select count(*) as count from (${rows.limit(most)}) counted`;
  const [first] = (await counted.execute(queries)).rows;
  return Number(first?.count);
}

/** A list in pieces, each for one statement: both engines limit the number of parameters. */
export function* chunks<T>(items: readonly T[], most = 500): Generator<T[]> {
  for (let at = 0; at < items.length; at += most) yield items.slice(at, at + most);
}
