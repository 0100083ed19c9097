/** Feeds the index on SQLite. */
import { settingStore } from '../database/database.ts';
import type { Feed } from './indexer.ts';
import { BATCH, type IndexerOptions, queueColumns, readChanges } from './search-queue.ts';
import type { SqliteIndex } from './sqlite-index.ts';

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
