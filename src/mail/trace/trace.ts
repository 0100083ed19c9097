/**
 * The trace: what happened to each message, for operators who search for one. Owns table `trace`: a row for
 * what one transaction did with a message for one recipient, kept TRACE_DAYS. Every row has the id that the client got (`250 2.0.0 Accepted
 * as <id>`), which the Received field, the log, deliveries and webhooks have as well.
 *
 * Crashes: {@link Trace.write} is part of the transaction that it describes, so there is no mail without its rows, and
 * no row for something that did not happen. {@link Trace.later} and {@link Trace.refused} are for events without a
 * transaction of their own: their rows wait in memory, for a second at most, and are written together, so that no
 * message waits for them. A killed process loses those of its last second.
 *
 * Limits: anybody can cause refusals. Of one client {@link REFUSALS.perClient} refusals an hour are kept, of all
 * {@link REFUSALS.inAll}: at 30 days that is 2.2 million rows, about 600 MB. One log line an hour says how many were
 * left out.
 */

import { sql } from 'kysely';
import type { Queries, Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { MESSAGE_ID_MAX, type TraceItem, unfold } from './write-trace.ts';

export {
  newMailId,
  REFUSALS,
  Trace,
  type TraceEvent,
  type TraceItem,
  traceColumns,
} from './write-trace.ts';

/* Reads the table `trace` for operators. */

/** An event in the order of time: the next page begins after it. */
export interface TracePosition {
  /** The row that has it. */
  readonly at: EpochMs;
  readonly id: number;
  /** How many events of that row were listed. */
  readonly listed: number;
}

/** The filters of operators; a filter that is left out matches all. */
export interface TraceRequest {
  readonly mailId?: string | undefined;
  readonly recipient?: string | undefined;
  readonly sender?: string | undefined;
  /** With or without angle brackets. */
  readonly messageId?: string | undefined;
  readonly since?: EpochMs | undefined;
  /** The same, not included. */
  readonly until?: EpochMs | undefined;
  readonly limit: number;
  readonly before?: TracePosition | undefined;
}

/** Rows that are read at once where several filters must match, and the most in all. */
const READ_AT_A_TIME = 1_000;
const READ_MAX = 10_000;

/**
 * Events that match, the newest first. A single filter is looked up in its index. With several, the rows that one of
 * them finds are read one after the other, 10,000 at most: then a page may have fewer events than requested, or none,
 * and a position to continue from.
 *
 * @returns the events, and where the next page begins; undefined where there is none
 */
export async function listTrace(
  queries: Queries,
  request: TraceRequest,
): Promise<{ readonly items: TraceItem[]; readonly next: TracePosition | undefined }> {
  const filters = filtersOf(request);
  const [first] = filters;
  const { limit, since, until } = request;
  const span = first ? { since, until } : await findSpan(queries, { since, until });
  const most = filters.length > 1 ? READ_AT_A_TIME : limit + 1;
  const items: TraceItem[] = [];
  let last = request.before;
  for (let read = 0; read < READ_MAX; read += most) {
    const rows = await pageQuery(queries, { ...span, before: last, limit: most }, first).execute();
    for (const row of rows) {
      const { at, id } = row;
      const events = unfold(row).reverse();
      let listed = id === last?.id ? last.listed : 0;
      for (const item of events.slice(listed)) {
        if (items.length === limit) return { items, next: { at, id, listed } };
        if (filters.every(([column, value]) => item[column] === value)) items.push(item);
        listed++;
      }
      last = { at, id, listed: events.length };
    }
    if (rows.length < most) return { items, next: undefined };
  }
  return { items, next: last };
}

type Filter = readonly ['mail_id' | 'message_id' | 'sender' | 'recipient', string];

/** The filters, first the one that the fewest rows match. */
function filtersOf({ mailId, messageId, sender, recipient }: TraceRequest): Filter[] {
  const filters: Filter[] = [];
  if (mailId !== undefined) filters.push(['mail_id', mailId.toLowerCase()]);
  if (messageId !== undefined) {
    filters.push(['message_id', messageIdOf(messageId)]);
  }
  if (sender !== undefined) filters.push(['sender', sender.toLowerCase()]);
  if (recipient !== undefined) filters.push(['recipient', recipient.toLowerCase()]);
  return filters;
}

/** A Message-ID as the trace has it, with or without its angle brackets. */
export function messageIdOf(text: string): string {
  return `<${text.replace(/^<|>$/g, '')}>`.slice(0, MESSAGE_ID_MAX);
}

/** Rows between two instants; without a filter also between two ids. */
interface Span extends Pick<TraceRequest, 'since' | 'until'> {
  readonly fromId?: number;
  readonly toId?: number;
}

/** Clocks of nodes may differ so much, and rows without a transaction are written so much later. */
const SLACK_MS = 300_000;

/** Ids are given in the order of time, so they find a span without an index on the time. */
async function findSpan(queries: Queries, span: Pick<Span, 'since' | 'until'>): Promise<Span> {
  const { since, until } = span;
  if (since === undefined && until === undefined) return span;
  const [fromId, toId] = await Promise.all([
    since === undefined ? undefined : findId(queries, since - SLACK_MS),
    until === undefined ? undefined : findId(queries, until + SLACK_MS),
  ]);
  return { ...span, ...(fromId !== undefined && { fromId }), ...(toId !== undefined && { toId }) };
}

/** @returns an id such that rows of before that instant have lower ones, by halves: some twenty reads of one row */
async function findId(queries: Queries, at: number): Promise<number> {
  const rows = queries.selectFrom('trace').select(['id', 'at']).limit(1);
  const [first, last] = await Promise.all([
    rows.orderBy('id').executeTakeFirst(),
    rows.orderBy('id', 'desc').executeTakeFirst(),
  ]);
  let [low, high] = [first?.id ?? 0, (last?.id ?? 0) + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const row = await rows.where('id', '>=', middle).orderBy('id').executeTakeFirst();
    if (row && row.at < at) low = row.id + 1;
    else high = middle;
  }
  return low;
}

export function pageQuery(
  queries: Queries,
  {
    since,
    until,
    fromId,
    toId,
    before,
    limit,
  }: Span &
    Pick<TraceRequest, 'limit'> & { readonly before?: Omit<TracePosition, 'listed'> | undefined },
  filter: Filter | undefined,
) {
  let query = queries.selectFrom('trace').selectAll().limit(limit);
  if (since !== undefined) query = query.where('at', '>=', since);
  if (until !== undefined) query = query.where('at', '<', until);
  if (!filter) {
    if (fromId !== undefined) query = query.where('id', '>=', fromId);
    if (toId !== undefined) query = query.where('id', '<', toId);
    if (before) query = query.where('id', '<=', before.id);
    return query.orderBy('id', 'desc');
  }
  query = query.where(filter[0], '=', filter[1]);
  if (before) {
    query = query.where((eb) => eb(eb.refTuple('at', 'id'), '<=', eb.tuple(before.at, before.id)));
  }
  return query.orderBy('at', 'desc').orderBy('id', 'desc');
}

/*
 * What the operators' list of messages reads of the trace. A message has one row for each recipient that begins it: it was
 * received, submitted, refused or deferred. Only these have a sender. Each way to find them has an index, and a page reads a
 * bounded number of rows.
 */

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
