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
import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import {
  type Database,
  type NewRow,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';
import { entries } from '../../platform/memory/memory.ts';
import { DAY_MS, type EpochMs, HOUR_MS } from '../../platform/time/time.ts';
import { rowsOf, type TraceEvent, traceColumns, valuesOf } from './trace-rows.ts';

export { listTrace, messageIdOf, type TraceRequest, timeLine } from './list-trace.ts';
export {
  isOnWay,
  type MessageEvent,
  type RareEvent,
  ROWS_MAX,
  readEvents,
  readWay,
  type TraceRow,
  type TraceWay,
} from './messages.ts';
export { type TraceEvent, type TraceItem, traceColumns } from './trace-rows.ts';

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
