/** Rows of `trace`: as they are written, and as operators read them. */
import type { NewRow, Queries, Row } from '../database/database.ts';

/** One thing that happened to a message. */
export interface TraceEvent {
  /** What the client was answered that brought the message. */
  readonly mailId: string;
  /** `received`, `submitted`, `refused`, `deferred`, `stored`, `queued`, `<kind>_attempt`, `bounced` ... */
  readonly event: string;
  /** Reverse-path, `''` for the null sender. */
  readonly sender?: string | undefined;
  readonly recipient?: string | null | undefined;
  /** Of the header, with angle brackets. */
  readonly messageId?: string | undefined;
  readonly deliveryId?: number | undefined;
  /** UUID that the receiver knows the delivery by. */
  readonly webhookId?: string | undefined;
  /** In one word, or a reply code. */
  readonly status?: string | undefined;
  /** For people. */
  readonly detail?: string | undefined;
  /** Address of who brought it. */
  readonly client?: string | undefined;
}

/** The columns that are written, in their order. */
export const columns = [
  'at',
  'mail_id',
  'event',
  'sender',
  'recipient',
  'message_id',
  'delivery_id',
  'webhook_id',
  'status',
  'detail',
  'node',
  'client',
] as const;

/** Characters that are kept: of an address (RFC 5321 section 4.5.3.1), a Message-ID, and a detail. */
const ADDRESS_MAX = 320;
const MESSAGE_ID_MAX = 255;
const DETAIL_MAX = 500;

/** Text of strangers as it is kept: PostgreSQL takes no NUL, and no half of a character. */
function clean(text: string | null | undefined, most: number): string | null {
  if (text === undefined || text === null) return null;
  return text.slice(0, most).toWellFormed().replaceAll('\0', '');
}

export function rowOf(
  event: TraceEvent,
  { at, node }: { readonly at: number; readonly node: string },
): NewRow<'trace'> {
  return {
    at,
    mail_id: event.mailId,
    event: event.event,
    sender: clean(event.sender?.toLowerCase(), ADDRESS_MAX),
    recipient: clean(event.recipient?.toLowerCase(), ADDRESS_MAX),
    message_id: clean(event.messageId, MESSAGE_ID_MAX),
    delivery_id: event.deliveryId ?? null,
    webhook_id: event.webhookId ?? null,
    status: event.status ?? null,
    detail: clean(event.detail, DETAIL_MAX),
    node,
    client: event.client ?? null,
  };
}

export type TraceItem = Row<'trace'>;

/** A row in the order of time: the next page begins behind it. */
export type TracePosition = Pick<TraceItem, 'at' | 'id'>;

/** What operators look for; what is left out does not matter. */
export interface TraceRequest {
  readonly mailId?: string | undefined;
  readonly recipient?: string | undefined;
  readonly sender?: string | undefined;
  /** With or without angle brackets. */
  readonly messageId?: string | undefined;
  /** Milliseconds since 1970. */
  readonly since?: number | undefined;
  /** The same, not included. */
  readonly until?: number | undefined;
  readonly limit: number;
  readonly before?: TracePosition | undefined;
}

/** Rows that are read at once where several filters have to fit, and in all. */
const READ_AT_A_TIME = 1_000;
const READ_MAX = 10_000;

/**
 * Rows that fit, the newest first. One filter is looked up in its index. Where there are more, the rows that it
 * finds are read one after the other, 10,000 at most: then a page may have fewer rows than asked for, or none,
 * and a position to go on from.
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

/** The one first that the fewest rows fit. */
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

/** The rows of a message that are told of it. */
const TIME_LINE_MAX = 1_000;

/** What happened to one message, the oldest first; of very much the first 1,000. */
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
