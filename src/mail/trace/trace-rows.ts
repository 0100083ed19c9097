/**
 * The rows of `trace`: what one transaction did with a message for one recipient is one row. Its first event fills the
 * columns; those that followed are JSON in `more`.
 */
import { domainToASCII } from 'node:url';
import type { NewRow, Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** One event of a message. */
export interface TraceEvent {
  /** The id in the answer to the client that brought the message. */
  readonly mailId: string;
  /** `received`, `submitted`, `refused`, `deferred`, `stored`, `queued`, `<kind>_attempt`, `bounced` ... */
  readonly event: string;
  /** Reverse-path, `''` for the null sender. */
  readonly sender?: string | undefined;
  readonly recipient?: string | null | undefined;
  /** Of the header, with angle brackets. */
  readonly messageId?: string | undefined;
  /** Of the header; kept only with TRACE_SUBJECTS. */
  readonly subject?: string | undefined;
  /** Octets of its source. */
  readonly size?: number | undefined;
  readonly deliveryId?: number | undefined;
  /** UUID of the delivery for its receiver. */
  readonly webhookId?: string | undefined;
  /** In one word, or a reply code. */
  readonly status?: string | undefined;
  /** For people. */
  readonly detail?: string | undefined;
  /** Address of the client that brought it. */
  readonly client?: string | undefined;
}

/** An event as it is read. */
export type TraceItem = Omit<Row<'trace'>, 'more' | 'domain' | 'subject' | 'size'>;

/** Characters that are kept: of a Message-ID, of an address (RFC 5321 section 4.5.3.1), of a subject and of a detail. */
export const MESSAGE_ID_MAX = 255;
const ADDRESS_MAX = 320;
const SUBJECT_MAX = 255;
const DETAIL_MAX = 500;

/** The columns that are written, in their order. */
const columns = [
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
  'more',
  'domain',
  'subject',
  'size',
] as const;

/** What an event that follows has of its own. */
const ownColumns = ['event', 'delivery_id', 'webhook_id', 'status', 'detail'] as const;
type Follower = Partial<Pick<TraceItem, (typeof ownColumns)[number]>>;

interface About {
  readonly at: EpochMs;
  readonly node: string;
  readonly keepsSubjects: boolean;
}

/** The rows of events of one instant. An event without a sender of its own follows the one of its message and recipient. */
export function rowsOf(events: readonly TraceEvent[], about: About): NewRow<'trace'>[] {
  const rows: NewRow<'trace'>[] = [];
  const byRecipient = new Map<string, { readonly row: NewRow<'trace'>; more: Follower[] }>();
  for (const event of events) {
    const row = rowOf(event, about);
    const key = `${row.mail_id} ${row.recipient ?? ''}`;
    const first = byRecipient.get(key);
    if (first && row.sender === null && row.message_id === null && row.client === null) {
      first.more.push(followerOf(row));
      first.row.more = JSON.stringify(first.more);
    } else {
      rows.push(row);
      byRecipient.set(key, { row, more: [] });
    }
  }
  return rows;
}

/** The events of a row, the oldest first. */
export function unfold({
  more,
  domain: _,
  subject: __,
  size: ___,
  ...first
}: Row<'trace'>): TraceItem[] {
  if (more === null) return [first];
  const followers = JSON.parse(more) as Follower[];
  const { id, at, mail_id, recipient, node } = first;
  const common = { id, at, mail_id, recipient, node, sender: null, message_id: null, client: null };
  const empty = { event: '', delivery_id: null, webhook_id: null, status: null, detail: null };
  return [first, ...followers.map((own) => ({ ...common, ...empty, ...own }))];
}

/** The columns of a new row. @param read gives the value of one */
export function traceColumns(read: (column: (typeof columns)[number]) => unknown) {
  return Object.fromEntries(
    columns.map((column) => [column, read(column)]),
  ) as unknown as NewRow<'trace'>;
}

export function valuesOf(rows: readonly NewRow<'trace'>[]): Record<string, string | number | null> {
  const values: Record<string, string | number | null> = {};
  for (const [index, row] of rows.entries()) {
    for (const column of columns) values[`${column}${index}`] = row[column] ?? null;
  }
  return values;
}

function followerOf(row: NewRow<'trace'>): Follower {
  return Object.fromEntries(
    ownColumns.flatMap((column) => {
      const value = row[column] ?? null;
      return value === null ? [] : [[column, value]];
    }),
  );
}

function rowOf(event: TraceEvent, { at, node, keepsSubjects }: About): NewRow<'trace'> {
  const sender = clean(event.sender?.toLowerCase(), ADDRESS_MAX);
  const recipient = clean(event.recipient?.toLowerCase(), ADDRESS_MAX);
  return {
    at,
    mail_id: event.mailId,
    event: event.event,
    sender,
    recipient,
    message_id: clean(event.messageId, MESSAGE_ID_MAX),
    delivery_id: event.deliveryId ?? null,
    webhook_id: event.webhookId ?? null,
    status: event.status ?? null,
    detail: clean(event.detail, DETAIL_MAX),
    node,
    client: event.client ?? null,
    more: null,
    domain: sender === null ? null : domainOf(event.event === 'submitted' ? sender : recipient),
    subject: keepsSubjects ? clean(event.subject, SUBJECT_MAX) : null,
    size: event.size ?? null,
  };
}

/** As claims have it: IDNA-encoded. */
function domainOf(address: string | null): string | null {
  if (!address?.includes('@')) return null;
  const domain = address.slice(address.lastIndexOf('@') + 1);
  return (/^[\x20-\x7e]*$/.test(domain) ? domain : domainToASCII(domain)) || null;
}

/** Text from outside in the form that is stored: PostgreSQL accepts no NUL, and no half of a character. */
function clean(text: string | null | undefined, most: number): string | null {
  if (text === undefined || text === null) return null;
  return text.slice(0, most).toWellFormed().replaceAll('\0', '');
}
