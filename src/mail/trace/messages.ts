/**
 * What the operators' list of messages reads of the trace. A message has one row for each recipient that begins it: it was
 * received, submitted, refused or deferred. Only these have a sender. Each way to find them has an index, and a page reads a
 * bounded number of rows.
 */
import { sql } from 'kysely';
import type { Queries, Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type TraceItem, unfold } from './write-trace.ts';

/** What rarely happens; such rows have an index of their own. */
export type RareEvent = 'refused' | 'deferred' | 'bounced' | 'dropped' | 'cancelled';

/** A way to find messages, each by an index. */
export type TraceWay =
  | { readonly by: 'time' }
  | { readonly by: 'domain' | 'sender' | 'recipient' | 'message_id'; readonly value: string }
  | { readonly by: 'event'; readonly value: RareEvent };

const columns = [
  'id',
  'at',
  'mail_id',
  'event',
  'sender',
  'recipient',
  'message_id',
  'client',
  'node',
  'domain',
  'subject',
] as const;

/** A row that names a message; one without a sender does not begin it. */
export type TraceRow = Pick<Row<'trace'>, (typeof columns)[number]>;

export interface TraceSpan {
  readonly since?: EpochMs | undefined;
  /** Not included. */
  readonly until?: EpochMs | undefined;
}

/** Rows with lower ids, and at no later time, come next. */
export interface TraceRowPosition {
  readonly at: EpochMs;
  readonly id: number;
}

/** Reads rows of one way, the newest first, after a place. */
export function readWay(queries: Queries, way: TraceWay, request: WayRequest): Promise<TraceRow[]> {
  return wayQuery(queries, way, request).execute();
}

export interface WayRequest {
  readonly span: TraceSpan;
  readonly after: TraceRowPosition | undefined;
  readonly limit: number;
}

export function wayQuery(
  queries: Queries,
  way: TraceWay,
  { span: { since, until }, after, limit }: WayRequest,
) {
  let query = queries.selectFrom('trace').select(columns).limit(limit);
  if (since !== undefined) query = query.where('at', '>=', since);
  if (until !== undefined) query = query.where('at', '<', until);
  if (after) {
    query = query.where((eb) => eb(eb.refTuple('at', 'id'), '<', eb.tuple(after.at, after.id)));
  }
  if (way.by === 'time') query = query.where('sender', 'is not', null);
  // A partial index is used only where its condition is in the text of the query.
  else if (way.by === 'event') query = query.where('event', '=', sql.lit(way.value));
  else query = query.where(way.by, '=', way.value);
  return query.orderBy('at', 'desc').orderBy('id', 'desc');
}

/** Whether a row is one that a way finds. */
export function isOnWay(way: TraceWay, row: Pick<TraceRow, Exclude<keyof TraceRow, 'subject'>>) {
  if (way.by === 'event') return row.event === way.value;
  return row.sender !== null && (way.by === 'time' || row[way.by] === way.value);
}

/** The most rows of one message that are read. */
export const ROWS_MAX = 1_000;

/** The events of messages by their ids, each message's oldest first; those of its first 1,000 rows where there are more. */
export async function readEvents(
  queries: Queries,
  mailIds: readonly string[],
): Promise<Map<string, TraceItem[]>> {
  if (mailIds.length === 0) return new Map();
  const parts = mailIds.map(
    (id, index) =>
      sql`select * from (select * from trace where mail_id = ${id} order by at, id limit ${sql.lit(ROWS_MAX)}) as ${sql.id(`m${index}`)}`,
  );
  const { rows } = await sql<Row<'trace'>>`${sql.join(parts, sql` union all `)}`.execute(queries);
  rows.sort((a, b) => a.at - b.at || a.id - b.id);
  const events = new Map<string, TraceItem[]>(mailIds.map((id) => [id, []]));
  for (const row of rows) events.get(row.mail_id)?.push(...unfold(row));
  return events;
}
