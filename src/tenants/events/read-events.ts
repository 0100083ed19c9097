/**
 * Reads events in the order of commits, from a position on.
 *
 * On SQLite there is one writer, so ids are in that order. On PostgreSQL an id is given when a row is inserted, and the
 * transactions commit in any order: a reader that goes by ids alone would pass over a row whose transaction commits late.
 * There the order is (`xid`, id), where `xid` is the number of the event's transaction or a later one that had ended
 * when the event was written (`write-events.ts`). Only rows are read whose `xid` is below all transactions that are still
 * open (`pg_snapshot_xmin`): nothing can appear before them any more, as what an open one writes has its number or a higher
 * one. So a reader is behind by the longest open write, also of the server's other databases.
 *
 * So what happened to one account or domain is told in the order in which it happened, also where two wanted to change it at
 * once. Messages that come into one mailbox at the same moment may be told in another order than that of their UIDs: one
 * statement stores a plain message, and its number is older than the lock on the mailbox.
 *
 * A cursor names the event that was read last, by its id, its transaction and its time. An event that is not there any
 * more was pruned, or was lost by a restore or a failover, after which ids are given again: in both cases something may be
 * missing, and the reader is told so (`cursor_expired`). The newest event is never pruned, so that a quiet system has no
 * old cursors.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { type RawBuilder, sql } from 'kysely';
import {
  countUpTo,
  type Database,
  type Queries,
  type Row,
  withoutNulls,
} from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { EventType } from './write-events.ts';

/** Whose events, and which. */
export interface EventScope {
  readonly userId: string;
  /** Only those of domains that were claimed with it. */
  readonly organizationId: string | undefined;
  /** All where left out. */
  readonly types?: readonly EventType[] | undefined;
}

export interface Event {
  /** Its position in the stream; no other event has it. */
  readonly cursor: string;
  readonly type: EventType;
  readonly at: EpochMs;
  readonly data: Readonly<Record<string, unknown>>;
}

/** An event as the API and hooks tell it. */
export function describeEvent({ cursor, type, at, data }: Event) {
  return { cursor, type, timestamp: new Date(at).toISOString(), data };
}

export interface EventPage {
  readonly events: readonly Event[];
  /** From where the next page is read. */
  readonly cursor: string;
  readonly hasMore: boolean;
  /** There are later events, which wait for an open transaction: they can be read within moments. */
  readonly isHeld: boolean;
}

interface Position {
  readonly id: number;
  readonly xid: number;
  readonly created_at: number;
}

/** Before all events. */
export const OLDEST_CURSOR = '0';
const START: Position = { id: 0, xid: -1, created_at: 0 };

const CURSOR = /^([0-9a-z]{1,10})-([0-9a-z]{1,12})-([0-9a-z]{1,10})$/;

const writeCursor = ({ id, xid, created_at }: Position) =>
  id === 0 ? OLDEST_CURSOR : [id, xid, created_at].map((part) => part.toString(36)).join('-');

function readCursor(field: string, text: string): Position {
  if (text === OLDEST_CURSOR) return START;
  const [, ...parts] = CURSOR.exec(text) ?? [];
  const [id = 0, xid = 0, created_at = 0] = parts.map((part) => Number.parseInt(part, 36));
  const position = { id, xid, created_at };
  // One that is written in another way was not made here.
  if (writeCursor(position) === text && id > 0) return position;
  throw invalidField(field, 'must be the cursor of an event or of an answer, or 0 for the oldest');
}

/**
 * Events of a user that one reading looks at where only some types are asked for, or one organization: of those there may be
 * one among a million.
 */
const LOOKED_AT_MAX = 10_000;
/** Rows that are removed in one transaction. */
const PRUNED_AT_A_TIME = 1_000;
const RENUMBERED_AT_A_TIME = 10_000;

/**
 * Removes some events that are older than an instant: of those with the lowest ids, which are the oldest. The newest one
 * stays.
 *
 * @returns how many; 0 where none is left
 */
export async function pruneEvents(tx: Queries, before: EpochMs): Promise<number> {
  const oldest = tx
    .selectFrom('events')
    .select(['id', 'created_at'])
    .orderBy('id')
    .limit(PRUNED_AT_A_TIME);
  const old = tx
    .selectFrom(oldest.as('oldest'))
    .select('id')
    .where('created_at', '<', before)
    .where('id', '<', ({ selectFrom }) =>
      selectFrom('events').select(({ fn }) => fn.max('id').as('newest')),
    );
  const rows = await tx.deleteFrom('events').where('id', 'in', old).returning('id').execute();
  return rows.length;
}

export class Events {
  readonly #database: Database;
  /** The transactions that have all ended, on PostgreSQL. */
  readonly #isSettled;
  /** Numbers that this server has not given yet. */
  readonly #isForeign;
  /** Whether an event comes after a position, or up to it. */
  readonly #comes: (order: '>' | '<=', position: Position) => RawBuilder<boolean>;
  #isPrepared: Promise<void> | undefined;

  constructor(database: Database) {
    this.#database = database;
    this.#isSettled =
      database.engine === 'postgres'
        ? sql<boolean>`xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint`
        : sql<boolean>`1`;
    this.#isForeign =
      database.engine === 'postgres'
        ? sql<boolean>`xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint`
        : sql<boolean>`0`;
    // Of a comparison of rows that ends with the rowid, SQLite takes only the first column to its index, and all have xid 0.
    this.#comes =
      database.engine === 'postgres'
        ? (order, { xid, id }) => sql<boolean>`(xid, id) ${sql.raw(order)} (${xid}, ${id})`
        : (order, { id }) => sql<boolean>`xid = 0 and id ${sql.raw(order)} ${id}`;
  }

  /** To be awaited before events are written: see {@link Events.#renumber}. */
  prepare(): Promise<void> {
    this.#isPrepared ??= this.#isNewestForeign()
      .then((isForeign) => (isForeign ? this.#renumber() : undefined))
      .catch((error: unknown) => {
        this.#isPrepared = undefined;
        throw error;
      });
    return this.#isPrepared;
  }

  /** The position of what happens from now on. */
  async now(): Promise<string> {
    await this.prepare();
    return writeCursor(await this.#newest());
  }

  /**
   * Reads the events after a position.
   *
   * @param field the name of the parameter that has the cursor
   * @param limit the most events of the page
   * @throws Refusal invalid_request (the field), cursor_expired
   */
  async read(
    scope: EventScope,
    after: { field: string; cursor: string },
    limit: number,
  ): Promise<EventPage> {
    const position = readCursor(after.field, after.cursor);
    await this.prepare();
    // Read first: all events of the user up to here are on the page, or before it.
    const newest = await this.#newest();
    // Of no type where only hints are asked for, which are not kept.
    const end = await this.#lookedAtEnd(scope, position);
    const rows = scope.types?.length === 0 ? [] : await this.#rows(scope, position, end, limit + 1);
    // Asked last: what is pruned meanwhile would be missing on the page.
    const named = position === START ? undefined : await this.#find(position);
    if (named?.isForeign || rows.some(({ isForeign }) => isForeign)) {
      // Its server was replaced under this process.
      await this.#renumber();
      return this.read(scope, after, limit);
    }
    if (position !== START && !named) throw expired();
    const settled = rows.findIndex(({ isSettled }) => !isSettled);
    const readable = settled < 0 ? rows : rows.slice(0, settled);
    const page = readable.slice(0, limit);
    const isFull = readable.length > limit;
    const hasMore = isFull || end !== undefined;
    const last = (isFull ? undefined : end) ?? page.at(-1) ?? position;
    // Whoever reads on at once leaves others a turn.
    if (end) await turn();
    return {
      events: page.map(toEvent),
      cursor: writeCursor(!hasMore && isBefore(last, newest) ? newest : last),
      hasMore,
      isHeld: settled >= 0,
    };
  }

  /** How many events of the scope there are after a cursor, also those that cannot be read yet; `most` stands for as many or more. */
  count(scope: EventScope, after: string, most: number): Promise<number> {
    const rows = this.#after(scope, readCursor('after', after));
    return countUpTo(this.#database.read, rows.select('id'), most);
  }

  /** The highest id. */
  async lastId(): Promise<number> {
    const { last } = await this.#database.read
      .selectFrom('events')
      .select(({ fn }) => fn.max<number | null>('id').as('last'))
      .executeTakeFirstOrThrow();
    return last ?? 0;
  }

  /** Users with events whose id is above one, and the highest id. */
  async usersSince(
    id: number,
  ): Promise<{ readonly users: readonly string[]; readonly last: number }> {
    const rows = await this.#database.read
      .selectFrom('events')
      .select(({ fn }) => ['user_id', fn.max<number>('id').as('last')])
      .where('id', '>', id)
      .groupBy('user_id')
      .execute();
    const last = rows.reduce((most, row) => Math.max(most, row.last), id);
    return { users: rows.map((row) => row.user_id), last };
  }

  async #newest(): Promise<Position> {
    const row = await this.#database.read
      .selectFrom('events')
      .select(['id', 'xid', 'created_at'])
      .where(this.#isSettled)
      .orderBy('id', 'desc')
      .limit(1)
      .executeTakeFirst();
    return row ?? START;
  }

  /** The event that a cursor names. */
  async #find({ id, xid, created_at }: Position) {
    const row = await this.#database.read
      .selectFrom('events')
      .select(['xid', 'created_at', this.#isForeign.as('isForeign')])
      .where('id', '=', id)
      .executeTakeFirst();
    return row?.xid === xid && row.created_at === created_at ? row : undefined;
  }

  /** Up to where a reading that leaves events out looks; undefined where it looks at all. */
  async #lookedAtEnd(scope: EventScope, after: Position): Promise<Position | undefined> {
    const { userId, organizationId, types } = scope;
    if (types?.length === 0 || (types === undefined && organizationId === undefined)) return;
    return (
      this.#after({ userId, organizationId: undefined }, after)
        .select(['id', 'xid', 'created_at'])
        // Before these nothing can appear any more.
        .where(this.#isSettled)
        .orderBy('xid')
        .orderBy('id')
        .offset(LOOKED_AT_MAX - 1)
        .limit(1)
        .executeTakeFirst()
    );
  }

  #rows(scope: EventScope, after: Position, end: Position | undefined, limit: number) {
    return this.#after(scope, after)
      .$if(end !== undefined, (query) => query.where(this.#comes('<=', end ?? START)))
      .select(['id', 'xid', 'type', 'account_id', 'mailbox', 'uid', 'data', 'created_at'])
      .select([this.#isSettled.as('isSettled'), this.#isForeign.as('isForeign')])
      .orderBy('xid')
      .orderBy('id')
      .limit(limit)
      .execute();
  }

  #after({ userId, organizationId, types }: EventScope, position: Position) {
    return this.#database.read
      .selectFrom('events')
      .where('user_id', '=', userId)
      .where(this.#comes('>', position))
      .$if(organizationId !== undefined, (query) =>
        query.where('organization_id', '=', organizationId ?? ''),
      )
      .$if(types !== undefined, (query) => query.where('type', 'in', [...(types ?? [])]));
  }

  async #isNewestForeign(): Promise<boolean> {
    const newest = await this.#database.read
      .selectFrom('events')
      .select(this.#isForeign.as('isForeign'))
      .orderBy('id', 'desc')
      .limit(1)
      .executeTakeFirst();
    return Boolean(newest?.isForeign);
  }

  /**
   * A database that was restored into another PostgreSQL server counts transactions anew: what is written there comes before
   * the old events, and a reader whose cursor names one of these never gets it. All old ones are of its past, so they are
   * told by their ids. The newest is changed last: where this is broken off, it begins again.
   */
  async #renumber(): Promise<void> {
    const { last } = await this.#database.read
      .selectFrom('events')
      .select(({ fn }) => fn.max<number | null>('id').as('last'))
      .where(this.#isForeign)
      .executeTakeFirstOrThrow();
    if (last === null) return;
    for (let from = 0; from < last; ) from = await this.#renumberSome(from, last);
  }

  /** One transaction for all would take longer than a statement may. @returns the highest id of those */
  #renumberSome(from: number, last: number): Promise<number> {
    return this.#database.write(async (tx) => {
      const { rows } = await sql<{ last: number }>`
        with done as (update events set xid = 0 where id in (
          select id from events where id > ${from} and id <= ${last} order by id limit ${sql.lit(RENUMBERED_AT_A_TIME)}
        ) returning id) select coalesce(max(id), ${last}) as last from done`.execute(tx);
      return rows[0]?.last ?? last;
    });
  }
}

function isBefore(one: Position, other: Position): boolean {
  return one.xid < other.xid || (one.xid === other.xid && one.id < other.id);
}

type EventRow = Omit<Row<'events'>, 'user_id' | 'organization_id'>;

function toEvent(row: EventRow): Event {
  const { type, account_id, mailbox, uid, data, created_at: at } = row;
  const told = { ...withoutNulls({ account_id, mailbox, uid }), ...JSON.parse(data) };
  // Written by `writeEvents` alone.
  return { cursor: writeCursor(row), type: type as EventType, at, data: told };
}

function expired(): Refusal {
  const detail =
    'the event that the cursor names is not kept any more: some events may be missed; the oldest that is kept is read with after=0';
  return new Refusal('cursor_expired', detail, { oldest: OLDEST_CURSOR });
}
