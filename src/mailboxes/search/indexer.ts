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
 */
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import { type Database, PreparedQuery, type Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { Outage } from '../../platform/time/time.ts';
import type { Bodies } from '../bodies/bodies.ts';
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
  readonly #log: IndexerOptions['log'];
  readonly #retryMs: number;
  readonly #outage: Outage;
  #stopped = false;
  #woken = Promise.withResolvers<boolean>();
  #running: Promise<void> | undefined;

  constructor(
    index: SearchIndex,
    { log, retryMs = RETRY_MS }: Pick<IndexerOptions, 'log' | 'retryMs'>,
  ) {
    this.#index = index;
    this.#log = log;
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

  /**
   * Called after the commit of queued rows, and when the index is no longer open. Without a call the queue is read every
   * {@link IndexerOptions.retryMs}.
   */
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
    while (!this.#stopped) {
      try {
        await this.#index.open();
        await this.#follow();
      } catch (err) {
        this.#outage.failed(err);
        await this.#pause(this.#retryMs);
      }
    }
    await this.#index.close().catch((err: unknown) => {
      this.#log.error(
        { err },
        'the search index did not close: the next start repeats its last step',
      );
    });
  }

  async #follow(): Promise<void> {
    let unsynced = 0;
    while (!this.#stopped) {
      this.#woken = Promise.withResolvers();
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

export interface IndexerOptions {
  readonly database: Database;
  readonly bodies: Pick<Bodies, 'read'>;
  readonly source: SearchSource;
  readonly log: Pick<Logger, 'info' | 'error'>;
  /** The wait after a failure, such as a full disk, and between reads of rows that a dead node left. */
  readonly retryMs?: number | undefined;
}

type QueueRow = SearchQueueEntry & { readonly id: number };

/** The change of a row of the queue; a message that was deleted meanwhile is skipped. */
async function readChange(
  { bodies, log }: IndexerOptions,
  { accountId, bodyId, gone }: QueueRow,
  message: StoredMessage | undefined,
): Promise<SearchChange | undefined> {
  if (gone)
    return bodyId === 0 ? { kind: 'forget', accountId } : { kind: 'remove', accountId, bodyId };
  if (!message) return undefined;
  try {
    return { kind: 'add', document: await readDocument(bodies, message) };
  } catch (error) {
    // It can be read later: if it were dropped from the queue, it would never be found.
    if (error instanceof Refusal && error.code === 'unavailable') throw error;
    logUnreadable(log, { accountId, bodyId, failure: String(error) });
    return undefined;
  }
}

export function logUnreadable(log: IndexerOptions['log'], unreadable: Unreadable): void {
  log.error(
    { ...unreadable },
    'a message could not be read for the search index: searches do not find it',
  );
}

/** The changes of rows of the queue, in order. */
export async function readChanges(
  queries: Queries,
  options: IndexerOptions,
  rows: readonly QueueRow[],
): Promise<SearchChange[]> {
  const changes: SearchChange[] = [];
  const keyOf = ({ accountId, bodyId }: Pick<SearchQueueEntry, 'accountId' | 'bodyId'>) =>
    `${accountId} ${bodyId}`;
  const wanted = rows.filter(({ gone }) => !gone);
  const messages = wanted.length > 0 ? await options.source.find(queries, wanted) : [];
  const found = new Map(messages.map((message) => [keyOf(message), message]));
  for (const row of rows) {
    const change = await readChange(options, row, found.get(keyOf(row)));
    if (change) changes.push(change);
  }
  return changes;
}

export const queueColumns = ['id', 'account_id as accountId', 'body_id as bodyId', 'gone'] as const;
