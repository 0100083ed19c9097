/** What is queued for the index: written with the mail itself, read by the indexer. */
import type { Logger } from 'pino';
import type { Bodies } from '../bodies/bodies.ts';
import type { Database, Queries } from '../database/database.ts';
import { readDocument, type StoredMessage } from './document-texts.ts';
import type { SearchChange } from './search-index.ts';

/** Rows read at a time, and messages in one transaction of the index: queries wait for it. */
export const BATCH = 10;

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
  } catch (err) {
    log.error(
      { err, accountId, bodyId },
      'a message could not be read for the search index: searches do not find it',
    );
    return undefined;
  }
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
