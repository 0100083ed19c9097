/**
 * Brings what is queued into the index, after the commit and beside the mail that comes in.
 *
 * `search_queue` has a row for each message that an account got or lost, written in the transaction of
 * the mail itself. Crashes, on SQLite, where index and mail are two files:
 *
 * - Between the commit of the mail and the batch: the row is there, and read at the next start.
 * - Between the batch and the removal of its rows: the index has the position, the rows are passed.
 * - A power cut takes back batches that were not synced, and the position with them. Their rows are
 *   still there: rows go only up to the position of the last sync. To index a message twice changes
 *   nothing.
 * - A row is taken only when its commit is on the disk. Else a power cut could take the row back, and
 *   the next message would get an id that the index has passed.
 *
 * On PostgreSQL the rows go in the transaction of the batch.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import type { Bodies } from '../bodies/bodies.ts';
import { type Database, PreparedQuery, type Queries } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import {
  readDocument,
  type SearchChange,
  type StoredMessage,
  type Unreadable,
} from './documents.ts';

/** Batches from one sync of the index to the next, and the quiet after which it is synced anyway. */
const BATCHES_A_SYNC = 200;
const SYNC_AFTER_MS = 5_000;
const RETRY_MS = 30_000;
/** How long news may wait for more. */
const GATHER_MS = 100;

/** What one engine does its own way. */
export interface Feed {
  /** About how many changes the index does not have yet; undefined while it is not open. */
  waiting(): Promise<number | undefined>;
  /** Opens the index, unless it is open; queues all mail again where the index does not have it. */
  open(): Promise<void>;
  /** @returns how many rows were taken; none where the index is up to date */
  takeBatch(): Promise<number>;
  /** Makes what was indexed durable, and removes its rows. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Indexes what is queued, as long as it runs. */
export class Indexer {
  readonly #feed: Feed;
  readonly #log: IndexerOptions['log'];
  readonly #retryMs: number;
  #stopped = false;
  #news = Promise.withResolvers<boolean>();
  #running: Promise<void> | undefined;

  constructor(feed: Feed, { log, retryMs = RETRY_MS }: Pick<IndexerOptions, 'log' | 'retryMs'>) {
    this.#feed = feed;
    this.#log = log;
    this.#retryMs = retryMs;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** To be called after the commit of what was queued, and when the index is not open any more. Without it the
   * queue is read every {@link IndexerOptions.retryMs}. */
  wake(): void {
    this.#news.resolve(true);
  }

  /** Finishes the batch under way; the rest is indexed after the next start. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#feed.open();
        await this.#follow();
      } catch (err) {
        const retrySeconds = this.#retryMs / 1000;
        this.#log.error(
          { err, retrySeconds },
          'the search index could not be written: mail is still accepted, but searches do not find new messages',
        );
        await this.#pause(this.#retryMs);
      }
    }
    await this.#feed.close().catch((err: unknown) => {
      this.#log.error(
        { err },
        'the search index did not close: the next start repeats its last step',
      );
    });
  }

  async #follow(): Promise<void> {
    let unsynced = 0;
    while (!this.#stopped) {
      this.#news = Promise.withResolvers();
      if ((await this.#feed.takeBatch()) > 0) unsynced += 1;
      else if (unsynced === 0) await this.#newsWithin(this.#retryMs);
      else if (!(await this.#newsWithin(SYNC_AFTER_MS))) unsynced = BATCHES_A_SYNC;
      if (unsynced >= BATCHES_A_SYNC) {
        await this.#feed.sync();
        unsynced = 0;
      }
    }
  }

  /** Whether something was queued before the time was over. */
  async #newsWithin(ms: number): Promise<boolean> {
    const { promise, resolve } = this.#news;
    const timer = setTimeout(() => resolve(false), ms).unref();
    const news = await promise;
    clearTimeout(timer);
    // What comes together is indexed together, once whoever brought it is answered.
    if (news && !this.#stopped) await pause(GATHER_MS);
    return news;
  }

  async #pause(ms: number): Promise<void> {
    const until = Date.now() + ms;
    while (!this.#stopped && Date.now() < until) {
      this.#news = Promise.withResolvers();
      await this.#newsWithin(until - Date.now());
    }
  }
}

/* What is queued for the index: written with the mail itself, read by the indexer. */

/** Rows read at a time, and messages in one transaction of the index: queries wait for it. */
export const BATCH = 25;

/** An account got a message or lost its last one of a body, or is gone itself. */
export interface SearchNews {
  readonly accountId: number;
  /** 0 where the account itself is gone. */
  readonly bodyId: number;
  readonly gone: boolean;
}

/** Queues what an index has to hear of, in the transaction that makes it true. */
export async function enqueueSearch(tx: Queries, news: readonly SearchNews[]): Promise<void> {
  if (news.length === 0) return;
  await tx
    .insertInto('search_queue')
    .values(
      news.map(({ accountId, bodyId, gone }) => ({
        account_id: accountId,
        body_id: bodyId,
        gone: gone ? 1 : 0,
      })),
    )
    .execute();
}

/** The same for a message that an account got, compiled once: it runs for every message. */
export function prepareEnqueue(queries: Queries) {
  return new PreparedQuery(({ accountId, bodyId }: Omit<SearchNews, 'gone'>) =>
    queries.insertInto('search_queue').values({
      account_id: accountId,
      body_id: bodyId,
      gone: sql.lit(0),
    }),
  );
}

/** The mail that is indexed, as the mail store keeps it. */
export interface SearchSource {
  /** A message of the account with this body; undefined where it is gone again. */
  find(queries: Queries, accountId: number, bodyId: number): Promise<StoredMessage | undefined>;
  /** Queues all mail that is there, in short transactions. To queue it twice does no harm. */
  enqueueAll(): Promise<void>;
}

export interface IndexerOptions {
  readonly database: Database;
  readonly bodies: Pick<Bodies, 'read'>;
  readonly source: SearchSource;
  readonly log: Pick<Logger, 'info' | 'error'>;
  /** Until it is tried again after a failure, such as a full disk, or looks for what a node left that died. */
  readonly retryMs?: number | undefined;
}

type QueueRow = SearchNews & { readonly id: number };

/** What a row of the queue means now; a message that is gone again is passed over. */
async function readChange(
  queries: Queries,
  { bodies, source, log }: IndexerOptions,
  { accountId, bodyId, gone }: QueueRow,
): Promise<SearchChange | undefined> {
  if (gone)
    return bodyId === 0 ? { kind: 'forget', accountId } : { kind: 'remove', accountId, bodyId };
  const message = await source.find(queries, accountId, bodyId);
  if (!message) return undefined;
  try {
    return { kind: 'add', document: await readDocument(bodies, message) };
  } catch (error) {
    // It can be read later: dropped from the queue, it would never be found.
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

/** What rows of the queue mean now, in their order. */
export async function readChanges(
  queries: Queries,
  options: IndexerOptions,
  rows: readonly QueueRow[],
): Promise<SearchChange[]> {
  const changes: SearchChange[] = [];
  for (const row of rows) {
    const change = await readChange(queries, options, row);
    if (change) changes.push(change);
  }
  return changes;
}

export const queueColumns = ['id', 'account_id as accountId', 'body_id as bodyId', 'gone'] as const;
