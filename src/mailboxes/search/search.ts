/**
 * Full-text search in the mail that Postroom itself stores.
 *
 * The index knows bodies, not mailboxes: moving, copying or flagging a message does not change it, and hits are joined
 * with the mailboxes of the account, so that deleted mail is never shown. On SQLite it is a file of its own
 * (`search.db`), on PostgreSQL a table (`search_documents`). Either can be deleted, and is filled again. Owns the
 * tables `search_queue`, the changes that are not indexed yet, and `search_unread`, messages that could not be read.
 */

import { Indexer, type IndexerOptions, type IndexOptions, type SearchIndex } from './indexer.ts';
import { PostgresIndex } from './postgres-index.ts';
import { SqliteIndex } from './sqlite-index.ts';

export {
  type Hit,
  type HitPosition,
  ownTerms,
  readTerms,
  type StoredMessage,
} from './documents.ts';
export {
  countUnread,
  enqueueAdded,
  enqueueSearch,
  type SearchSource,
  searchQueueColumns,
} from './indexer.ts';
export { type QueryTerm, type QueryTexts, readQuery } from './terms.ts';

export interface SearchOptions extends IndexOptions, IndexerOptions {
  /** Of the index on SQLite. */
  readonly path: string;
}

export interface Search
  extends Pick<SearchIndex, 'find' | 'isBehind' | 'waiting'>,
    Pick<Indexer, 'start' | 'stop'> {}

export function createSearch(options: SearchOptions): Search {
  const { database, path } = options;
  const index: SearchIndex =
    database.engine === 'postgres'
      ? new PostgresIndex(options)
      : new SqliteIndex(options, path, () => indexer.wake());
  const indexer = new Indexer(index, options);
  return {
    find: (request) => index.find(request),
    isBehind: (accountId) => index.isBehind(accountId),
    waiting: () => index.waiting(),
    start: () => indexer.start(),
    stop: () => indexer.stop(),
  };
}
