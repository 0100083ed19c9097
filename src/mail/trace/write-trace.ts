/**
 * Writes the trace. What one transaction did with a message for one recipient is one row: its first event fills the
 * columns; those that followed are JSON in `more`.
 */
import { randomUUID } from 'node:crypto';
import { domainToASCII } from 'node:url';
import { LRUCache } from 'lru-cache';
import {
  type Database,
  type NewRow,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { entries } from '../../platform/memory/memory.ts';
import { DAY_MS, type EpochMs, HOUR_MS } from '../../platform/time/time.ts';

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
export type TraceItem = Omit<Row<'trace'>, 'more'>;

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
export function unfold({ more, ...first }: Row<'trace'>): TraceItem[] {
  if (more === null) return [first];
  const followers = JSON.parse(more) as Follower[];
  const common = { ...first, sender: null, message_id: null, client: null };
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

/* Writing them: in the transaction that they describe, or a moment later. */

export interface TraceOptions {
  readonly database: Database;
  /** 0: nothing is traced. */
  readonly keptDays: number;
  /** Whether subjects are kept. */
  readonly keepsSubjects?: boolean;
  /** Host name of this machine. */
  readonly node: string;
  readonly log: { warn(fields: object, message: string): void };
  readonly now: () => EpochMs;
}

/** The most refusals that are kept in an hour. */
export const REFUSALS = { perClient: 60, inAll: 3_000 };
/** Clients whose refusals are counted; the least recently seen is forgotten first. */
const CLIENTS_MAX = 10_000;
/** How long rows without a transaction of their own wait, and how many may wait. */
const WAIT_MS = 1_000;
const WAITING_MAX = 10_000;
/** Rows of one statement: both engines limit the number of parameters. */
const ROWS_AT_A_TIME = 500;
/** Statements are kept for up to this number of rows: enough for nearly all mail. */
const PREPARED_MAX = 8;
/** Rows that are removed in one transaction. */
const PRUNED_AT_A_TIME = 1_000;

type Values = Record<string, string | number | null>;

export class Trace {
  readonly #options: TraceOptions;
  /** By the number of rows. */
  readonly #inserts = new Map<number, PreparedQuery<Values, never>>();
  #waiting: NewRow<'trace'>[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flushing = Promise.resolve();
  /** Refusals of this hour, by client. */
  readonly #refusals = new LRUCache<string, number>(entries(CLIENTS_MAX));
  #hour = { at: 0, refusals: 0, passedOver: 0 };

  constructor(options: TraceOptions) {
    this.#options = options;
  }

  get isOn(): boolean {
    return this.#options.keptDays > 0;
  }

  /** Writes rows in the caller's transaction. */
  async write(tx: Queries, events: readonly TraceEvent[]): Promise<void> {
    await this.#insert(tx, this.rowsOf(events));
  }

  /** The rows that {@link write} writes; none where nothing is traced. */
  rowsOf(events: readonly TraceEvent[]): NewRow<'trace'>[] {
    return this.isOn ? this.#rowsOf(events) : [];
  }

  /** Writes rows of events without a transaction, within a second. */
  later(events: readonly TraceEvent[]): void {
    if (!this.isOn) return;
    const room = Math.max(WAITING_MAX - this.#waiting.length, 0);
    this.#waiting.push(...this.#rowsOf(events.slice(0, room)));
    this.#timer ??= setTimeout(() => void this.flush(), WAIT_MS).unref();
  }

  /**
   * Notes within a second that mail was refused or deferred, unless the client had too many refusals in this hour.
   *
   * @param client the key under which refusals are counted together
   */
  refused(client: string, event: TraceEvent): void {
    if (!this.isOn) return;
    const at = this.#options.now();
    if (at < this.#hour.at || at >= this.#hour.at + HOUR_MS) this.#startHour(at);
    const count = this.#refusals.get(client) ?? 0;
    if (count >= REFUSALS.perClient || this.#hour.refusals >= REFUSALS.inAll) {
      this.#hour.passedOver++;
      return;
    }
    this.#refusals.set(client, count + 1);
    this.#hour.refusals++;
    this.later([event]);
  }

  /** Writes waiting rows. If the database fails they are lost, and the log says so. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const rows = this.#waiting;
    this.#waiting = [];
    this.#flushing = this.#flushing.then(() => this.#writeAll(rows));
    await this.#flushing;
  }

  /**
   * Removes some rows that are older than TRACE_DAYS: of those with the lowest ids, which are the oldest.
   *
   * @returns how many; 0 where none is left
   */
  async prune(tx: Queries): Promise<number> {
    const before = this.#options.now() - this.#options.keptDays * DAY_MS;
    const oldest = tx
      .selectFrom('trace')
      .select(['id', 'at'])
      .orderBy('id')
      .limit(PRUNED_AT_A_TIME);
    const old = tx.selectFrom(oldest.as('oldest')).select('id').where('at', '<', before);
    const rows = await tx.deleteFrom('trace').where('id', 'in', old).returning('id').execute();
    return rows.length;
  }

  #startHour(at: number): void {
    const { passedOver } = this.#hour;
    if (passedOver > 0) {
      this.#options.log.warn(
        { passedOver, ...REFUSALS },
        'the trace is missing some refusals of the last hour: there were more than it keeps in an hour',
      );
    }
    this.#hour = { at, refusals: 0, passedOver: 0 };
    this.#refusals.clear();
  }

  async #writeAll(rows: readonly NewRow<'trace'>[]): Promise<void> {
    if (rows.length === 0) return;
    try {
      await this.#options.database.write((tx) => this.#insert(tx, rows));
    } catch (err) {
      this.#options.log.warn(
        { err, rows: rows.length },
        'rows could not be written to the trace: it is missing these refusals and deliveries',
      );
    }
  }

  #rowsOf(events: readonly TraceEvent[]): NewRow<'trace'>[] {
    const { node, now, keepsSubjects = false } = this.#options;
    return rowsOf(events, { at: now(), node, keepsSubjects });
  }

  async #insert(tx: Queries, rows: readonly NewRow<'trace'>[]): Promise<void> {
    for (let at = 0; at < rows.length; at += ROWS_AT_A_TIME) {
      const some = rows.slice(at, at + ROWS_AT_A_TIME);
      if (some.length > PREPARED_MAX) await tx.insertInto('trace').values(some).execute();
      else await this.#prepared(some.length).all(tx, valuesOf(some));
    }
  }

  #prepared(count: number): PreparedQuery<Values, never> {
    const known = this.#inserts.get(count);
    if (known) return known;
    const { read } = this.#options.database;
    const query = new PreparedQuery<Values, never>((value) =>
      read
        .insertInto('trace')
        .values(
          Array.from({ length: count }, (_, index) => {
            return traceColumns((column) => value[`${column}${index}`]);
          }),
        )
        .$castTo<never>(),
    );
    this.#inserts.set(count, query);
    return query;
  }
}

/**
 * A new id of a message: a UUID that begins with the time (RFC 9562 section 5.7), so that an index on it
 * grows at its end.
 */
export function newMailId(now: EpochMs): string {
  const time = now.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
