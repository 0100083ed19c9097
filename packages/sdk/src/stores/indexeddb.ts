/**
 * `@postroom/sdk/indexeddb`: the copy in the browser's database, which all tabs of an origin share.
 *
 * Browsers close a database under their pages (iOS does, in the background): the first call after that opens it again.
 * Where it cannot be used any more, `onLost` is called, and every call is rejected.
 */
import {
  type Change,
  type Decide,
  type Durability,
  type Key,
  type Lock,
  type RangeQuery,
  type Row,
  type Store,
  TABLES,
  type TableName,
} from '../mail/store.ts';

/** Where in the browser the copy is. */
export interface IndexedDbOptions {
  /** Of the database; `postroom` when left out. */
  readonly name?: string;
}

/** Raised when `TABLES` changes. */
const VERSION = 1;
/** How long tabs with an older version may take to let go. */
const BLOCKED_MS = 5000;

/** The copy in the browser's database. It is opened with the first call. */
export function indexedDbStore({ name = 'postroom' }: IndexedDbOptions = {}): Store {
  return new IndexedDbStore(name);
}

/** Transactions that are not committed yet. */
const running = new Set<IDBTransaction>();
/** Pending from when the page is left until it is shown again. */
let shown = Promise.resolve();

// WebKit keeps a page that is left in memory. A transaction of it would never end, and no page could read or write any
// more: it is undone, and begins anew where the page is shown again.
globalThis.addEventListener?.('pagehide', () => {
  shown = new Promise((resolve) => {
    addEventListener('pageshow', () => resolve(), { once: true });
  });
  for (const transaction of running) undo(transaction);
});

function undo(transaction: IDBTransaction): void {
  try {
    transaction.abort();
  } catch {
    // It has just ended.
  }
}

class IndexedDbStore implements Store {
  onLost?: (reason: Error) => void;
  readonly #name: string;
  #opened: Promise<IDBDatabase> | undefined;
  #lost: Error | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  /** Pages that came by plain HTTP have no locks. */
  readonly lock: Lock | undefined =
    globalThis.navigator?.locks &&
    (async (name, signal, held) => {
      await shown;
      await navigator.locks.request(name, { signal }, held);
    });

  get(table: TableName, key: Key): Promise<Row | undefined> {
    return this.#run([table], (transaction) => {
      const request = transaction.objectStore(table).get([...key]);
      return () => request.result as Row | undefined;
    });
  }

  async range(query: RangeQuery): Promise<Row[]> {
    const range = rangeOf(query);
    // Of `getAll`, a limit of 0 is none.
    if (!range || query.limit === 0) return [];
    return this.#run([query.table], (transaction) => {
      const table = transaction.objectStore(query.table);
      const source = query.index === undefined ? table : table.index(query.index);
      const { limit, reverse } = query;
      // Only the first of a reversed range is worth a cursor, which takes each row by itself.
      if (reverse && limit !== undefined) return readBackwards(source, range, limit);
      const request = source.getAll(range, limit);
      return () => (reverse ? request.result.reverse() : request.result) as Row[];
    });
  }

  update(
    table: TableName,
    key: Key,
    decide: Decide,
    durability: Durability = 'strict',
  ): Promise<void> {
    // Which tables it changes is known only once the row is read.
    const tables = Object.keys(TABLES) as TableName[];
    const work: Work<void> = (transaction, fail) => {
      const request = transaction.objectStore(table).get([...key]);
      request.onsuccess = () => {
        try {
          apply(transaction, decide(request.result as Row | undefined));
          running.delete(transaction);
          transaction.commit();
        } catch (error) {
          fail(error);
        }
      };
      return () => undefined;
    };
    return this.#run(tables, work, durability);
  }

  async close(): Promise<void> {
    this.#lost ??= new Error('the store was closed');
    const database = await this.#opened?.catch(() => undefined);
    database?.close();
  }

  /**
   * Runs a transaction, which writes where it has a durability; where the database was closed under us, once more. It never is
   * carried out twice in part: a transaction is whole or nothing, and these write the same when they are repeated.
   */
  async #run<T>(tables: readonly TableName[], work: Work<T>, durability?: Durability): Promise<T> {
    const mode = durability ? 'readwrite' : 'readonly';
    for (let attempt = 1; ; attempt++) {
      if (this.#lost) throw this.#lost;
      const opened = this.#open();
      const database = await opened;
      await shown;
      try {
        const transaction = database.transaction([...tables], mode, {
          durability: durability ?? 'relaxed',
        });
        return await outcome(transaction, work);
      } catch (error) {
        if (isFull(error)) throw this.#lose(error);
        if (!isClosed(error) || attempt > 1) throw error;
        // Another call may have opened it again already.
        if (this.#opened === opened) this.#opened = undefined;
        database.close();
      }
    }
  }

  #open(): Promise<IDBDatabase> {
    this.#opened ??= openDatabase(this.#name, (database) => {
      // Another tab has a newer version of the SDK: it waits for us.
      database.onversionchange = () => {
        database.close();
        this.#lose(new Error('another tab has a newer version: reload this one'));
      };
      database.onclose = () => {
        this.#opened = undefined;
      };
    }).catch((error: unknown) => {
      throw this.#lose(error);
    });
    return this.#opened;
  }

  #lose(cause: unknown): Error {
    const reason =
      cause instanceof Error ? cause : new Error('IndexedDB cannot be used', { cause });
    if (!this.#lost) {
      this.#lost = reason;
      this.onLost?.(reason);
    }
    return reason;
  }
}

/** Asks the transaction, and returns what reads the result once it is complete; `fail` undoes it. */
type Work<T> = (transaction: IDBTransaction, fail: (error: unknown) => void) => () => T;

function outcome<T>(transaction: IDBTransaction, work: Work<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    running.add(transaction);
    let failure: unknown;
    const fail = (error: unknown) => {
      failure = error;
      transaction.abort();
    };
    transaction.onabort = () => {
      running.delete(transaction);
      reject(failure ?? transaction.error ?? new DOMException('aborted', 'AbortError'));
    };
    try {
      const read = work(transaction, fail);
      transaction.oncomplete = () => {
        running.delete(transaction);
        resolve(read());
      };
    } catch (error) {
      fail(error);
    }
  });
}

function openDatabase(name: string, opened: (database: IDBDatabase) => void): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, VERSION);
    let isLate = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    request.onupgradeneeded = () => makeTables(request.result);
    request.onblocked = () => {
      // It goes on by itself once the other tabs let go; one that is frozen does not.
      timer = setTimeout(() => {
        isLate = true;
        reject(new Error('another tab keeps an older version of the database: close it'));
      }, BLOCKED_MS);
    };
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      clearTimeout(timer);
      const database = request.result;
      if (isLate) database.close();
      else opened(database);
      resolve(database);
    };
  });
}

function makeTables(database: IDBDatabase): void {
  for (const [name, { key, indexes }] of Object.entries(TABLES)) {
    const table = database.createObjectStore(name, { keyPath: [...key] });
    for (const [index, members] of Object.entries<readonly string[]>(indexes)) {
      table.createIndex(index, [...members]);
    }
  }
}

function apply(transaction: IDBTransaction, changes: readonly Change[]): void {
  for (const change of changes) {
    const table = transaction.objectStore('put' in change ? change.put : change.remove);
    if ('put' in change) table.put(change.row);
    else table.delete([...change.key]);
  }
}

/** An array is greater than every text and number: `[...prefix, []]` is behind all that begin with the prefix. */
function rangeOf({ prefix, after, before }: RangeQuery): IDBKeyRange | undefined {
  const lower = after ? [...prefix, ...after, []] : [...prefix];
  const upper = before ? [...prefix, ...before] : [...prefix, []];
  if (indexedDB.cmp(lower, upper) > 0) return undefined;
  return IDBKeyRange.bound(lower, upper, false, true);
}

function readBackwards(
  source: IDBObjectStore | IDBIndex,
  range: IDBKeyRange,
  limit: number,
): () => Row[] {
  const rows: Row[] = [];
  const request = source.openCursor(range, 'prev');
  request.onsuccess = () => {
    const cursor = request.result;
    if (cursor && rows.length < limit) rows.push(cursor.value as Row);
    if (cursor && rows.length < limit) cursor.continue();
  };
  return () => rows;
}

/** The browser closed the database: before the transaction (InvalidStateError), or during it. */
function isClosed(error: unknown): boolean {
  return (
    error instanceof DOMException &&
    ['InvalidStateError', 'AbortError', 'UnknownError'].includes(error.name)
  );
}

function isFull(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'QuotaExceededError';
}
