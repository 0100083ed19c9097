/**
 * Full-text search in the mail that Postroom itself stores.
 *
 * The index knows bodies, not mailboxes: moving, copying or flagging a message does not change it, and hits are joined
 * with the mailboxes of the account, so that deleted mail is never shown. On SQLite it is a file of its own
 * (`search.db`), on PostgreSQL a table (`search_documents`). Either can be deleted, and is filled again. Owns the
 * table `search_queue`: the changes that are not indexed yet.
 */

import type { FindRequest, Hit } from './documents.ts';
import { Indexer, type IndexerOptions } from './indexer.ts';
import { PostgresFeed, PostgresIndex } from './postgres-index.ts';
import { SqliteFeed, SqliteIndex } from './sqlite-index.ts';

export {
  type Hit,
  type HitPosition,
  ownTerms,
  readTerms,
  type StoredMessage,
} from './documents.ts';
export {
  enqueueSearch,
  prepareEnqueueSearch,
  type SearchSource,
  searchQueueColumns,
} from './indexer.ts';
export { type QueryTerm, type QueryTexts, readQuery } from './terms.ts';

export interface SearchOptions extends IndexerOptions {
  /** Of the index on SQLite. */
  readonly path: string;
}

export interface Search {
  /** Messages of the account that have all terms, newest first. */
  find(request: FindRequest): Promise<Hit[]>;
  /** Whether some mail of the account is not in the index yet. */
  isBehind(accountId: number): Promise<boolean>;
  /** About how many changes are not in the index yet, of all accounts; undefined while it is not open. */
  waiting(): Promise<number | undefined>;
  /** Called after the commit of rows that `enqueueSearch` queued. */
  wake(): void;
  start(): void;
  stop(): Promise<void>;
}

export function createSearch(options: SearchOptions): Search {
  const { index, feed } = createParts(options, () => indexer.wake());
  const indexer = new Indexer(feed, options);
  return {
    find: (request) => index.find(request),
    isBehind: (accountId) => feed.isBehind(accountId),
    waiting: () => feed.waiting(),
    wake: () => indexer.wake(),
    start: () => indexer.start(),
    stop: () => indexer.stop(),
  };
}

function createParts(options: SearchOptions, onEnd: () => void) {
  const { database, path } = options;
  if (database.engine === 'postgres') {
    return { index: new PostgresIndex(database), feed: new PostgresFeed(options) };
  }
  const index = new SqliteIndex(path, onEnd);
  return { index, feed: new SqliteFeed(options, index) };
}
