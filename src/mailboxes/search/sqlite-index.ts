/** The index on SQLite for the event loop: requests to the thread that owns the file, and its queue. */
import { Worker } from 'node:worker_threads';
import { sql } from 'kysely';
import { PreparedQuery, settingStore } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { AskedThread } from '../../platform/threads/threads.ts';
import type { FindRequest, Hit, SearchChange, Unreadable } from './documents.ts';
import {
  BATCH,
  enqueueSearch,
  type IndexOptions,
  keepUnread,
  logUnreadable,
  queueColumns,
  readRows,
  type SearchIndex,
} from './indexer.ts';

export interface ThreadStart {
  /** Of `search.db`. */
  readonly path: string;
  readonly mail: MailDatabase;
}

/** The database that an index must belong to; another index is dropped. */
export interface MailDatabase {
  readonly storeId: string;
  /** The queue: the index has durably processed all rows before `before`; `last` is the newest id. */
  readonly queue: { readonly before: number; readonly last: number };
}

/** The state of the index when it was opened. */
export interface Opened {
  /** The last row of the queue that it has processed. */
  readonly position: number;
  /** Whether all older mail is in it, or queued for it. */
  readonly filled: boolean;
  /** Why an existing index was dropped. */
  readonly dropped?: string;
}

/** What became of a batch. */
export interface Applied {
  /** Deleted accounts that have more documents, perhaps. */
  readonly unfinished: readonly number[];
  /** Messages that could not be read; they do not stop the others. */
  readonly unreadable: readonly Unreadable[];
}

export type ThreadRequest =
  | { readonly kind: 'open' | 'sync' | 'close' }
  | { readonly kind: 'filled'; readonly position: number }
  | { readonly kind: 'apply'; readonly changes: readonly SearchChange[]; readonly position: number }
  | { readonly kind: 'find'; readonly find: FindRequest };

/** Memory of the thread: terms of some documents, in addition to SQLite's cache. */
const LIMITS = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 32 };

function notOpen(cause: Error | undefined): Refusal {
  return new Refusal('unavailable', 'the search index is not open right now', { cause });
}

type Thread = AskedThread<ThreadRequest>;

/** Rows of the queue removed in one transaction. */
const TRIM_AT_A_TIME = 500;

/** Rows of the queue after a position. */
const nextRows = new PreparedQuery(({ position }: { position: number }, queries) =>
  queries
    .selectFrom('search_queue')
    .select(queueColumns)
    .where('id', '>', position)
    .orderBy('id')
    .limit(BATCH),
);

/** The index is a file of its own: rows are removed after the index has them on the disk. */
export class SqliteIndex implements SearchIndex {
  readonly #options: IndexOptions;
  readonly #path: string;
  readonly #onEnd: () => void;
  #thread: Thread | undefined;
  #position: number | undefined;

  /**
   * @param path of `search.db`
   * @param onEnd called when the thread ended: the indexer starts a new one
   */
  constructor(options: IndexOptions, path: string, onEnd: () => void) {
    this.#options = options;
    this.#path = path;
    this.#onEnd = onEnd;
  }

  /** @throws Error where the file can neither be opened nor created */
  async open(): Promise<void> {
    this.#position = undefined;
    const { database, source, log } = this.#options;
    const storeId = (await settingStore(database, 'store_id').read()) ?? '';
    const queue = await this.#readQueue();
    if (this.#thread?.fault) this.#thread = undefined;
    this.#thread ??= this.#start({ path: this.#path, mail: { storeId, queue } });
    const { position, filled, dropped } = await this.#thread.ask<Opened>({ kind: 'open' });
    if (dropped !== undefined)
      log.info({ reason: dropped }, 'the search index was dropped: it is built again');
    if (!filled) {
      // Rows from before this are not needed: all mail is queued once more.
      await source.enqueueAll();
      await this.#running().ask({ kind: 'filled', position: queue.last });
    }
    this.#position = filled ? position : queue.last;
  }

  #start(workerData: ThreadStart): Thread {
    const url = new URL('./sqlite-index-thread.ts', import.meta.url);
    const worker = new Worker(url, { workerData, resourceLimits: LIMITS });
    return new AskedThread(worker, { onEnd: this.#onEnd });
  }

  async #readQueue(): Promise<MailDatabase['queue']> {
    const { rows } = await sql<{ last: number; first: number | null }>`
      select (select seq from sqlite_sequence where name = 'search_queue') as last,
        (select min(id) from search_queue) as first`.execute(this.#options.database.read);
    const last = rows[0]?.last ?? 0;
    return { before: (rows[0]?.first ?? last + 1) - 1, last };
  }

  /** @throws Refusal `unavailable` where there is no thread, or it ended */
  #running(): Thread {
    if (this.#thread && !this.#thread.fault) return this.#thread;
    throw notOpen(this.#thread?.fault);
  }

  /** @throws Refusal `unavailable` while there is no thread */
  async find(find: FindRequest): Promise<Hit[]> {
    const thread = this.#running();
    try {
      return await thread.ask<Hit[]>({ kind: 'find', find });
    } catch (error) {
      throw thread.fault ? notOpen(thread.fault) : error;
    }
  }

  async isBehind(accountId: number): Promise<boolean> {
    if (this.#position === undefined || !this.#thread || this.#thread.fault) return true;
    const row = await this.#options.database.read
      .selectFrom('search_queue')
      .select('id')
      .where('account_id', '=', accountId)
      .where('id', '>', this.#position)
      .limit(1)
      .executeTakeFirst();
    return row !== undefined;
  }

  async waiting(): Promise<number | undefined> {
    const position = this.#position;
    if (position === undefined) return undefined;
    // Ids are consecutive: rows need not be counted.
    const { last } = await this.#options.database.read
      .selectFrom('search_queue')
      .select((eb) => eb.fn.max('id').as('last'))
      .executeTakeFirstOrThrow();
    return Math.max(0, (last ?? position) - position);
  }

  async takeBatch(): Promise<number> {
    const { database, log, now } = this.#options;
    const { read } = database;
    const thread = this.#running();
    const rows = await nextRows.all(read, { position: this.#position ?? 0 });
    const last = rows.at(-1);
    if (!last) return 0;
    const entries = rows.map((row) => ({ ...row, gone: row.gone === 1 }));
    const { changes, unread } = await readRows(read, this.#options, entries);
    if (unread.length > 0) await database.write((tx) => keepUnread(tx, unread, now?.()));
    const request = { kind: 'apply', changes, position: last.id } as const;
    const { unfinished, unreadable } = await thread.ask<Applied>(request);
    for (const one of unreadable) logUnreadable(log, one);
    // Behind all others, which do not wait for it. Only then the position passes the row that was there.
    const rest = unfinished.map((accountId) => ({ accountId, bodyId: 0, gone: true }));
    if (rest.length > 0) await database.write((tx) => enqueueSearch(tx, rest));
    this.#position = last.id;
    // The rest is removed without a wait for more rows.
    return rest.length > 0 ? BATCH : rows.length;
  }

  async sync(): Promise<void> {
    const position = await this.#running().ask<number>({ kind: 'sync' });
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
    const isOpen = this.#position !== undefined;
    this.#position = undefined;
    try {
      if (isOpen) await this.sync();
    } finally {
      const thread = this.#thread;
      this.#thread = undefined;
      try {
        await thread?.ask({ kind: 'close' });
      } finally {
        await thread?.end();
      }
    }
  }
}
