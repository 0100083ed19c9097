/**
 * Indexes what is queued, after the commit and beside incoming mail.
 *
 * `search_queue` has a row for each message that an account got or lost, written in the transaction of the mail
 * itself. Crashes, on SQLite, where index and mail are two files:
 *
 * - Between the commit of the mail and the batch: the row exists, and is read at the next start.
 * - Between the batch and the removal of its rows: the index has the position, and skips the rows.
 * - A power cut undoes batches that were not synced, together with their position. Their rows still exist: rows are
 *   removed only up to the position of the last sync. Indexing a message twice does no harm.
 * - A row is read only when its commit is on the disk. Otherwise a power cut could undo the row, and the next message
 *   would get an id that the index skips.
 *
 * On PostgreSQL the rows are removed in the transaction of the batch. What is indexed of a message may be in its row.
 *
 * A message that cannot be read goes from the queue to `search_unread`: the store may have been asked too early. Some buckets
 * find an object only after seconds, and a restore may bring the bodies after the database. It is queued again at each
 * start, and when as much time has passed as since it came, after a day at the latest.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import {
  type Database,
  isUnavailable,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs, MINUTE_MS, Outage } from '../../platform/time/time.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { Changes } from '../changes/changes.ts';
import {
  type FindRequest,
  type Hit,
  readDocument,
  type SearchChange,
  type StoredMessage,
  type Unreadable,
} from './documents.ts';

/** Batches between two syncs of the index, and the quiet time after which it is synced anyway. */
const BATCHES_A_SYNC = 200;
const SYNC_AFTER_MS = 5_000;
const RETRY_MS = 30_000;
/** How long new rows wait for more. */
const GATHER_MS = 100;

/** An index and its queue: what differs between the engines. */
export interface SearchIndex {
  /** Messages of the account that have all terms, newest first. */
  find(request: FindRequest): Promise<Hit[]>;
  /** Whether some mail of the account is not in the index yet. */
  isBehind(accountId: number): Promise<boolean>;
  /** About how many changes are not in the index yet; undefined while it is not open. */
  waiting(): Promise<number | undefined>;
  /** Opens it, unless it is open; queues all mail again if the index does not have it. */
  open(): Promise<void>;
  /** @returns how many rows were processed; 0 where the index is up to date */
  takeBatch(): Promise<number>;
  /** Makes indexed changes durable, and removes their rows. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Indexes what is queued, until it is stopped. */
export class Indexer {
  readonly #index: SearchIndex;
  readonly #options: IndexerOptions;
  readonly #retryMs: number;
  readonly #outage: Outage;
  #stopped = false;
  #woken = Promise.withResolvers<boolean>();
  #running: Promise<void> | undefined;
  /** When messages that could not be read were last looked for, by the clock that nobody sets. */
  #requeuedAt: number | undefined;

  constructor(index: SearchIndex, options: IndexerOptions) {
    this.#index = index;
    this.#options = options;
    const { log, retryMs = RETRY_MS } = options;
    this.#retryMs = retryMs;
    this.#outage = new Outage(
      (err) =>
        log.error(
          { err, retrySeconds: retryMs / 1000 },
          'the search index could not be written: mail is still accepted, but searches do not find new messages',
        ),
      () => log.info({}, 'the search index is written again: searches will find what was missing'),
    );
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Reads the queue now, instead of after {@link IndexerOptions.retryMs}: there are rows, or the index is not open any more. */
  wake(): void {
    this.#woken.resolve(true);
  }

  /** Finishes the current batch; the rest is indexed after the next start. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    // Every change is published after the commit of the rows that it queued; those of other nodes are theirs to index.
    const { changes, log } = this.#options;
    const unsubscribe = changes.subscribeAll((change, isOwn) => {
      if (isOwn && change.kind !== 'events') this.wake();
    });
    while (!this.#stopped) {
      try {
        await this.#index.open();
        await this.#follow();
      } catch (err) {
        this.#outage.failed(err);
        await this.#pause(this.#retryMs);
      }
    }
    unsubscribe();
    await this.#index.close().catch((err: unknown) => {
      log.error({ err }, 'the search index did not close: the next start repeats its last step');
    });
  }

  async #follow(): Promise<void> {
    let unsynced = 0;
    while (!this.#stopped) {
      this.#woken = Promise.withResolvers();
      await this.#requeue();
      const taken = await this.#index.takeBatch();
      this.#outage.worked();
      if (taken > 0) {
        unsynced += 1;
        // While mail keeps coming, too, batches are full: one costs the same queries for one row as for many.
        if (taken < BATCH && !this.#stopped) await pause(GATHER_MS);
      } else if (unsynced === 0) await this.#wokenWithin(this.#retryMs);
      else if (!(await this.#wokenWithin(SYNC_AFTER_MS))) unsynced = BATCHES_A_SYNC;
      if (unsynced >= BATCHES_A_SYNC) {
        await this.#index.sync();
        unsynced = 0;
      }
    }
  }

  /** Messages that could not be read are read again: at the start all of them. */
  async #requeue(): Promise<void> {
    const last = this.#requeuedAt;
    const now = performance.now();
    if (last !== undefined && now - last < this.#retryMs) return;
    const { database, now: time = Date.now } = this.#options;
    const before = last === undefined ? Number.MAX_SAFE_INTEGER : time();
    // There may be a million: a stop does not wait for them.
    while (!this.#stopped && (await requeueUnread(database, before)));
    this.#requeuedAt = now;
  }

  /** Whether rows were queued before the time was over. */
  async #wokenWithin(ms: number): Promise<boolean> {
    const { promise, resolve } = this.#woken;
    const timer = setTimeout(() => resolve(false), ms).unref();
    const isWoken = await promise;
    clearTimeout(timer);
    // Mail that comes together is indexed together, after its senders got their answers.
    if (isWoken && !this.#stopped) await pause(GATHER_MS);
    return isWoken;
  }

  async #pause(ms: number): Promise<void> {
    // By the clock that nobody sets: one that is set back would make this longer.
    const until = performance.now() + ms;
    while (!this.#stopped && performance.now() < until) {
      this.#woken = Promise.withResolvers();
      await this.#wokenWithin(until - performance.now());
    }
  }
}

/* The queue of the index: written with the mail itself, read by the indexer. */

/** Rows read at a time, and messages in one transaction of the index, for which queries wait. */
export const BATCH = 25;

/** An account got a message, lost its last one of a body, or was deleted. */
export interface SearchQueueEntry {
  readonly accountId: number;
  /** 0 where the account itself was deleted. */
  readonly bodyId: number;
  readonly gone: boolean;
}

/** Queues changes for the index, in the transaction that makes them. */
export async function enqueueSearch(
  tx: Queries,
  entries: readonly SearchQueueEntry[],
): Promise<void> {
  if (entries.length === 0) return;
  await tx
    .insertInto('search_queue')
    .values(
      entries.map(({ accountId, bodyId, gone }) => ({
        account_id: accountId,
        body_id: bodyId,
        gone: gone ? 1 : 0,
      })),
    )
    .execute();
}

/** The same for a message that an account got, compiled once: it runs for every message. */
export const enqueueAdded = new PreparedQuery((value: Omit<SearchQueueEntry, 'gone'>, queries) =>
  queries.insertInto('search_queue').values(searchQueueColumns(value)),
);

/** The columns of a row for a message that an account got. */
export function searchQueueColumns({ accountId, bodyId }: Omit<SearchQueueEntry, 'gone'>) {
  return { account_id: accountId, body_id: bodyId, gone: sql.lit(0) };
}

/** The mail that is indexed, as the mail store keeps it. */
export interface SearchSource {
  /** For each body a message of its account that has it, in any order; none where it was deleted meanwhile. */
  find(
    queries: Queries,
    wanted: readonly Pick<SearchQueueEntry, 'accountId' | 'bodyId'>[],
  ): Promise<StoredMessage[]>;
  /** Queues all existing mail, in short transactions. Queuing it twice does no harm. */
  enqueueAll(): Promise<void>;
}

/** What an index needs. */
export interface IndexOptions {
  readonly database: Database;
  readonly bodies: Pick<Bodies, 'read'>;
  readonly source: SearchSource;
  readonly log: Pick<Logger, 'info' | 'error'>;
  readonly now?: (() => EpochMs) | undefined;
}

export interface IndexerOptions extends Pick<IndexOptions, 'database' | 'log' | 'now'> {
  readonly changes: Pick<Changes, 'subscribeAll'>;
  /** The wait after a failure, such as a full disk, and between reads of rows that a dead node left. */
  readonly retryMs?: number | undefined;
}

type QueueRow = SearchQueueEntry & { readonly id: number };

/** What follows from rows of the queue. */
interface ReadRows {
  /** In order. */
  readonly changes: readonly SearchChange[];
  /** For {@link keepUnread}. */
  readonly unread: readonly StoredMessage[];
}

/** @throws Refusal `unavailable` where the store of the bodies does not answer */
export async function readRows(
  queries: Queries,
  { bodies, source, log }: IndexOptions,
  rows: readonly QueueRow[],
): Promise<ReadRows> {
  const changes: SearchChange[] = [];
  const unread: StoredMessage[] = [];
  let failure: string | undefined;
  const keyOf = ({ accountId, bodyId }: Pick<SearchQueueEntry, 'accountId' | 'bodyId'>) =>
    `${accountId} ${bodyId}`;
  const wanted = rows.filter(({ gone }) => !gone);
  const messages = wanted.length > 0 ? await source.find(queries, wanted) : [];
  const found = new Map(messages.map((message) => [keyOf(message), message]));
  for (const { id: row, accountId, bodyId, gone } of rows) {
    if (gone) {
      const isAccount = bodyId === 0;
      changes.push(
        isAccount ? { kind: 'forget', accountId, row } : { kind: 'remove', accountId, bodyId, row },
      );
      continue;
    }
    const message = found.get(keyOf({ accountId, bodyId }));
    // It was deleted meanwhile.
    if (!message) continue;
    try {
      changes.push({ kind: 'add', row, document: await readDocument(bodies, message) });
    } catch (error) {
      if (isUnavailable(error) || (error instanceof Refusal && error.code === 'unavailable'))
        throw error;
      failure ??= String(error);
      unread.push(message);
    }
  }
  // One line for all: after a restore without bodies there may be a million, at each start and on each day.
  if (unread[0]) {
    const { accountId, bodyId } = unread[0];
    log.error(
      { messages: unread.length, accountId, bodyId, failure },
      'messages could not be read for the search index: searches do not find them before they are read again, within a day; the line has the first',
    );
  }
  return { changes, unread };
}

/** A message that cannot be indexed, whenever it is read. */
export function logUnreadable(log: IndexOptions['log'], unreadable: Unreadable): void {
  log.error(
    { ...unreadable },
    'a message could not be read for the search index: searches do not find it',
  );
}

/** Keeps messages that could not be read, before their rows are removed from the queue. */
export async function keepUnread(
  tx: Queries,
  messages: readonly StoredMessage[],
  now: EpochMs = Date.now(),
): Promise<void> {
  for (const { accountId, bodyId, date } of messages) {
    // A mail program may have given it a date that is yet to come.
    const wait = Math.min(Math.max(Math.abs(now - date), MINUTE_MS), DAY_MS);
    await tx
      .insertInto('search_unread')
      .values({ account_id: accountId, body_id: bodyId, next_at: now + wait })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  }
}

/** More of them are not counted. */
const UNREAD_COUNTED = 10_000;

/**
 * How many messages could not be read, at most 10,000. One that is read again within ten minutes does not count: it came just
 * now, and its body may yet come.
 */
export async function countUnread(read: Queries, now: EpochMs): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*) as count from (
    select 1 from search_unread where next_at > ${now + 10 * MINUTE_MS} limit ${UNREAD_COUNTED}
  ) as counted`.execute(read);
  return rows[0]?.count ?? 0;
}

/** Rows that are queued again in one transaction. */
const REQUEUED_AT_A_TIME = 500;

/** Queues some of those again whose time comes before an instant. @returns whether there were any */
async function requeueUnread(database: Database, before: EpochMs): Promise<boolean> {
  const due = sql`select account_id, body_id from search_unread
    where next_at < ${before} limit ${REQUEUED_AT_A_TIME}`;
  // A read first: mostly there are none, and a transaction costs more.
  if ((await due.execute(database.read)).rows.length === 0) return false;
  await database.write(async (tx) => {
    const { rows } = await sql<{ account_id: number; body_id: number }>`
      delete from search_unread where (account_id, body_id) in (${due})
      returning account_id, body_id`.execute(tx);
    const entries = rows.map((row) => ({
      accountId: row.account_id,
      bodyId: row.body_id,
      gone: false,
    }));
    await enqueueSearch(tx, entries);
  });
  return true;
}

export const queueColumns = ['id', 'account_id as accountId', 'body_id as bodyId', 'gone'] as const;
