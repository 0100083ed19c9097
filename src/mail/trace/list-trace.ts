/** Reads the rows of `trace` for operators. */
import type { Queries, Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** Characters of a Message-ID that are kept. */
export const MESSAGE_ID_MAX = 255;

export type TraceItem = Row<'trace'>;

/** A row in the order of time: the next page begins after it. */
export type TracePosition = Pick<TraceItem, 'at' | 'id'>;

/** The filters of operators; a filter that is left out matches all. */
export interface TraceRequest {
  readonly mailId?: string | undefined;
  readonly recipient?: string | undefined;
  readonly sender?: string | undefined;
  /** With or without angle brackets. */
  readonly messageId?: string | undefined;
  readonly since?: EpochMs | undefined;
  /** The same, not included. */
  readonly until?: number | undefined;
  readonly limit: number;
  readonly before?: TracePosition | undefined;
}

/** Rows that are read at once where several filters must match, and the most in all. */
const READ_AT_A_TIME = 1_000;
const READ_MAX = 10_000;

/**
 * Rows that match, the newest first. A single filter is looked up in its index. With several, the rows that one of
 * them finds are read one after the other, 10,000 at most: then a page may have fewer rows than requested, or none,
 * and a position to continue from.
 *
 * @returns the rows, and where the next page begins; undefined where there is none
 */
export async function listTrace(
  queries: Queries,
  request: TraceRequest,
): Promise<{ readonly items: TraceItem[]; readonly next: TracePosition | undefined }> {
  const [first, ...others] = filtersOf(request);
  const { limit } = request;
  const most = others.length > 0 ? READ_AT_A_TIME : limit + 1;
  const items: TraceItem[] = [];
  let last = request.before;
  for (let read = 0; read < READ_MAX; read += most) {
    const rows = await readPage(queries, { ...request, before: last, limit: most }, first);
    for (const row of rows) {
      if (items.length === limit) return { items, next: last };
      if (others.every(([column, value]) => row[column] === value)) items.push(row);
      last = { at: row.at, id: row.id };
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
    const inner = messageId.replace(/^<|>$/g, '');
    filters.push(['message_id', `<${inner}>`.slice(0, MESSAGE_ID_MAX)]);
  }
  if (sender !== undefined) filters.push(['sender', sender.toLowerCase()]);
  if (recipient !== undefined) filters.push(['recipient', recipient.toLowerCase()]);
  return filters;
}

async function readPage(
  queries: Queries,
  request: Pick<TraceRequest, 'since' | 'until' | 'before' | 'limit'>,
  filter: Filter | undefined,
): Promise<TraceItem[]> {
  return pageQuery(queries, request, filter).execute();
}

export function pageQuery(
  queries: Queries,
  { since, until, before, limit }: Pick<TraceRequest, 'since' | 'until' | 'before' | 'limit'>,
  filter: Filter | undefined,
) {
  let query = queries.selectFrom('trace').selectAll();
  if (filter) query = query.where(filter[0], '=', filter[1]);
  if (since !== undefined) query = query.where('at', '>=', since);
  if (until !== undefined) query = query.where('at', '<', until);
  if (before) {
    query = query.where((eb) => eb(eb.refTuple('at', 'id'), '<', eb.tuple(before.at, before.id)));
  }
  return query.orderBy('at', 'desc').orderBy('id', 'desc').limit(limit);
}

/** The most rows of a message that are returned. */
const TIME_LINE_MAX = 1_000;

/** The events of one message, the oldest first; the first 1,000 where there are more. */
export function timeLine(queries: Queries, mailId: string): Promise<TraceItem[]> {
  return queries
    .selectFrom('trace')
    .selectAll()
    .where('mail_id', '=', mailId.toLowerCase())
    .orderBy('at')
    .orderBy('id')
    .limit(TIME_LINE_MAX)
    .execute();
}
