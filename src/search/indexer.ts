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
import type { IndexerOptions } from './search-queue.ts';

/** Batches from one sync of the index to the next, and the quiet after which it is synced anyway. */
const BATCHES_A_SYNC = 200;
const SYNC_AFTER_MS = 5_000;
/** After a failure, such as a full disk. */
const RETRY_MS = 30_000;
/** What one engine does its own way. */
export interface Feed {
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
  #stopped = false;
  #news = Promise.withResolvers<boolean>();
  #running: Promise<void> | undefined;

  constructor(feed: Feed, log: IndexerOptions['log']) {
    this.#feed = feed;
    this.#log = log;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** To be called after the commit of what was queued. */
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
        const retrySeconds = RETRY_MS / 1000;
        this.#log.error(
          { err, retrySeconds },
          'the search index could not be written: mail is taken as before, searches miss what is new',
        );
        await this.#feed.close().catch(() => {});
        await this.#pause(RETRY_MS);
      }
    }
    await this.#feed.close().catch((err: unknown) => {
      this.#log.error(
        { err },
        'the search index did not close: the next start repeats its last work',
      );
    });
  }

  async #follow(): Promise<void> {
    let unsynced = 0;
    while (!this.#stopped) {
      this.#news = Promise.withResolvers();
      if ((await this.#feed.takeBatch()) > 0) unsynced += 1;
      else if (unsynced === 0) await this.#news.promise;
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
