/** Parts of queries that several folders need: pages, counts that end early, lists, rows made of other rows. */
import { type RawBuilder, type SelectQueryBuilder, SqliteAdapter, sql } from 'kysely';
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

/** A page of a list that begins with the newest rows. */
export interface NewestPage {
  /** Only rows with a lower id. */
  readonly before?: number | undefined;
  readonly limit: number;
}

export function newestFirst<Tables, Table extends keyof Tables, Selected>(
  query: SelectQueryBuilder<Tables, Table, Selected>,
  { before, limit }: NewestPage,
): SelectQueryBuilder<Tables, Table, Selected> {
  return pageById(query, { limit, offset: 0, after: before, isNewestFirst: true });
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

/** A row of which what is null is absent. */
type Present<Row> = {
  [Name in keyof Row as null extends Row[Name] ? never : Name]: Row[Name];
} & { [Name in keyof Row as null extends Row[Name] ? Name : never]?: NonNullable<Row[Name]> };

/** A row without what is null in it. */
export function withoutNulls<Row extends object>(row: Row): Present<Row> {
  const present = Object.entries(row).filter(([, value]) => value !== null);
  return Object.fromEntries(present) as Present<Row>;
}

/** A list in pieces, each for one statement: both engines limit the number of parameters. */
export function* chunks<T>(items: readonly T[], most = 500): Generator<T[]> {
  for (let at = 0; at < items.length; at += most) yield items.slice(at, at + most);
}

/** An insert whose values may be expressions on what is selected from. */
export function insertFrom(table: string, row: object, from: string): RawBuilder<unknown> {
  const columns = Object.keys(row).map((column) => sql.ref(column));
  return sql`insert into ${sql.table(table)} (${sql.join(columns)})
    select ${sql.join(Object.values(row))} from ${sql.raw(from)}`;
}

/** Whether queries are for SQLite: for those that are no part of a {@link Database}, which names its engine. */
export function isOnSqlite(queries: Queries): boolean {
  return queries.getExecutor().adapter instanceof SqliteAdapter;
}

/**
 * Whether a column is one of some integers: a condition whose text is the same for any number of them, so that a
 * {@link PreparedQuery} can have it.
 *
 * @param column its name, or an expression
 * @param json the integers, as JSON: `[1,2]`
 */
export function isAmong(
  queries: Queries,
  column: string | RawBuilder<unknown>,
  json: string,
): RawBuilder<boolean> {
  const left = typeof column === 'string' ? sql.ref(column) : column;
  return isOnSqlite(queries)
    ? sql`${left} in (select value from json_each(${json}))`
    : sql`${left} = any(translate(${json}, '[]', '{}')::bigint[])`;
}
