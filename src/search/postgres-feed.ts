/** Feeds the index on PostgreSQL. */
import { sql } from 'kysely';
import type { Feed } from './indexer.ts';
import { applyWithin } from './postgres-index.ts';
import { BATCH, type IndexerOptions, queueColumns, readChanges } from './search-queue.ts';
import { TERMS_VERSION } from './terms.ts';

/** The index lies in the same database: rows are removed in the transaction that indexes them. */
export class PostgresFeed implements Feed {
  readonly #options: IndexerOptions;

  constructor(options: IndexerOptions) {
    this.#options = options;
  }

  /** An index of other terms is emptied, and all mail queued again, by one node. */
  async open(): Promise<void> {
    const { database, source } = this.#options;
    const version = String(TERMS_VERSION);
    const isNewest = await database.write(async (tx) => {
      const { numInsertedOrUpdatedRows } = await tx
        .insertInto('settings')
        .values({ name: 'search_terms', value: version })
        .onConflict((conflict) =>
          conflict
            .column('name')
            .doUpdateSet({ value: version })
            .where('settings.value', '!=', version),
        )
        .executeTakeFirstOrThrow();
      if (numInsertedOrUpdatedRows === 0n) return true;
      await sql`truncate search_documents`.execute(tx);
      return false;
    });
    if (!isNewest) await source.enqueueAll();
  }

  async isBehind(accountId: number): Promise<boolean> {
    const row = await this.#options.database.read
      .selectFrom('search_queue')
      .select('id')
      .where('account_id', '=', accountId)
      .limit(1)
      .executeTakeFirst();
    return row !== undefined;
  }

  takeBatch(): Promise<number> {
    return this.#options.database.write(async (tx) => {
      const some = tx
        .selectFrom('search_queue')
        .select('id')
        .orderBy('id')
        .limit(BATCH)
        .forUpdate()
        .skipLocked();
      const rows = await tx
        .deleteFrom('search_queue')
        .where('id', 'in', some)
        .returning(queueColumns)
        .execute();
      const news = rows
        .map((row) => ({ ...row, gone: row.gone === 1 }))
        .sort((a, b) => a.id - b.id);
      await applyWithin(tx, await readChanges(tx, this.#options, news));
      return rows.length;
    });
  }

  async sync(): Promise<void> {}

  async close(): Promise<void> {}
}
