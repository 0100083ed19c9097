/** The index on SQLite, as the event loop sees it: questions to the thread that owns the file, and what feeds it. */
import { Worker } from 'node:worker_threads';
import { settingStore } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import type { FindRequest, Hit, SearchChange, SearchIndex } from './documents.ts';
import { BATCH, type Feed, type IndexerOptions, queueColumns, readChanges } from './indexer.ts';

export interface ThreadStart {
  /** Of `search.db`. */
  readonly path: string;
  /** Of the mail's database: an index of another one is dropped. */
  readonly storeId: string;
}

/** In what state the index was found. */
export interface Opened {
  /** Up to where in the queue it has come. */
  readonly position: number;
  /** Whether the mail that was there before the index is in it, or queued for it. */
  readonly filled: boolean;
  /** Why an index that was there was dropped. */
  readonly dropped?: string;
}

export type ThreadRequest =
  | { readonly kind: 'open' | 'filled' | 'sync' | 'close' }
  | { readonly kind: 'apply'; readonly changes: readonly SearchChange[]; readonly position: number }
  | { readonly kind: 'find'; readonly find: FindRequest };

export interface ThreadAnswer {
  readonly id: number;
  readonly value?: unknown;
  readonly failure?: string;
}

/** The thread's memory: terms of some documents, and SQLite's cache beside it. */
const LIMITS = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 32 };

export class SqliteIndex implements SearchIndex {
  readonly #path: string;
  #thread: Thread | undefined;

  /** @param path of `search.db` */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Starts the thread, unless it runs.
   *
   * @param storeId of the mail's database: an index of another one is dropped
   * @throws Error where the file can neither be opened nor made
   */
  async open(storeId: string): Promise<Opened> {
    if (this.#thread?.ended) this.#thread = undefined;
    this.#thread ??= new Thread({ path: this.#path, storeId });
    return (await this.#thread.ask({ kind: 'open' })) as Opened;
  }

  async apply(changes: readonly SearchChange[], position: number): Promise<void> {
    await this.#running().ask({ kind: 'apply', changes, position });
  }

  /** @throws Refusal `unavailable` while there is no thread: the indexer starts a new one */
  async find(find: FindRequest): Promise<Hit[]> {
    return (await this.#running().ask({ kind: 'find', find })) as Hit[];
  }

  /** Notes that all mail that was there before the index is in it or in the queue. */
  async markFilled(): Promise<void> {
    await this.#running().ask({ kind: 'filled' });
  }

  /** Brings the index to the disk; answers the position up to which nothing has to be repeated. */
  async sync(): Promise<number> {
    return (await this.#running().ask({ kind: 'sync' })) as number;
  }

  /** Finishes what is under way. */
  async close(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.close();
  }

  #running(): Thread {
    if (this.#thread && !this.#thread.ended) return this.#thread;
    throw new Refusal('unavailable', 'the search index is not open right now');
  }
}

/** A worker thread that is asked and answers; it may end at any time: without memory, say. */
class Thread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #lastId = 0;
  #fault: Error | undefined;

  constructor(start: ThreadStart) {
    this.#worker = new Worker(new URL('./sqlite-index-thread.ts', import.meta.url), {
      workerData: start,
      resourceLimits: LIMITS,
    });
    this.#worker.unref();
    this.#worker.on('message', (answer: ThreadAnswer) => this.#settle(answer));
    this.#worker.on('error', (error: Error) => this.#end(error));
    this.#worker.once('exit', () => this.#end(new Error('the thread of the search index ended')));
  }

  get ended(): boolean {
    return this.#fault !== undefined;
  }

  ask(request: ThreadRequest): Promise<unknown> {
    if (this.#fault) return Promise.reject(this.#fault);
    this.#lastId += 1;
    const asked = Promise.withResolvers<unknown>();
    this.#waiting.set(this.#lastId, asked);
    // Only while somebody waits does the thread keep the process from ending.
    this.#worker.ref();
    this.#worker.postMessage({ ...request, id: this.#lastId });
    return asked.promise;
  }

  async close(): Promise<void> {
    try {
      await this.ask({ kind: 'close' });
    } finally {
      await this.#worker.terminate();
    }
  }

  #settle({ id, value, failure }: ThreadAnswer): void {
    const asked = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker.unref();
    if (failure === undefined) asked?.resolve(value);
    else asked?.reject(new Error(failure));
  }

  #end(fault: Error): void {
    this.#fault ??= fault;
    for (const asked of this.#waiting.values()) asked.reject(this.#fault);
    this.#waiting.clear();
  }
}

/* Feeds the index on SQLite. */

/** Rows of the queue removed in one transaction. */
const TRIM_AT_A_TIME = 500;

/** The index is a file of its own: rows are removed when the index has them on the disk. */
export class SqliteFeed implements Feed {
  readonly #options: IndexerOptions;
  readonly #index: SqliteIndex;
  #position: number | undefined;

  constructor(options: IndexerOptions, index: SqliteIndex) {
    this.#options = options;
    this.#index = index;
  }

  async open(): Promise<void> {
    const { database, source, log } = this.#options;
    const storeId = await settingStore(database, 'store_id').read();
    const { position, filled, dropped } = await this.#index.open(storeId ?? '');
    if (dropped !== undefined)
      log.info({ reason: dropped }, 'search index dropped: it is made anew');
    if (!filled) {
      await source.enqueueAll();
      await this.#index.markFilled();
    }
    this.#position = position;
  }

  /** Whether mail of the account is still to be indexed. */
  async isBehind(accountId: number): Promise<boolean> {
    if (this.#position === undefined) return true;
    const row = await this.#options.database.read
      .selectFrom('search_queue')
      .select('id')
      .where('account_id', '=', accountId)
      .where('id', '>', this.#position)
      .limit(1)
      .executeTakeFirst();
    return row !== undefined;
  }

  async takeBatch(): Promise<number> {
    const { read } = this.#options.database;
    const rows = await read
      .selectFrom('search_queue')
      .select(queueColumns)
      .where('id', '>', this.#position ?? 0)
      .orderBy('id')
      .limit(BATCH)
      .execute();
    const last = rows.at(-1);
    if (!last) return 0;
    const news = rows.map((row) => ({ ...row, gone: row.gone === 1 }));
    await this.#index.apply(await readChanges(read, this.#options, news), last.id);
    this.#position = last.id;
    return rows.length;
  }

  async sync(): Promise<void> {
    const position = await this.#index.sync();
    const { database } = this.#options;
    let removed: bigint;
    do {
      removed = await database.write(async (tx) => {
        const some = tx
          .selectFrom('search_queue')
          .select('id')
          .where('id', '<=', position)
          .orderBy('id')
          .limit(TRIM_AT_A_TIME);
        const { numDeletedRows } = await tx
          .deleteFrom('search_queue')
          .where('id', 'in', some)
          .executeTakeFirstOrThrow();
        return numDeletedRows;
      });
    } while (removed >= TRIM_AT_A_TIME);
  }

  async close(): Promise<void> {
    if (this.#position !== undefined) await this.sync();
    this.#position = undefined;
    await this.#index.close();
  }
}
