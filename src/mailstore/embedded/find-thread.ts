/** Finds the conversation that a message belongs to, among the messages that its account has. */
import type { Queries } from '../../database/database.ts';
import { hashOf, type ThreadHeaders, threadByHeader } from '../threads.ts';

/** What a message's row has of its conversation. */
export interface ThreadColumns {
  readonly thread_id: number;
  /** By which answers to it are found; null where it has no Message-ID. */
  readonly message_key: number | null;
}

/** The account is part of the key: mail to a thousand accounts has a thousand keys. */
function keyOf(accountId: number, messageId: string): number {
  return hashOf(`${accountId} ${messageId}`);
}

/**
 * An answer belongs where the message belongs that it answers, or where another one does that it names.
 * What is not there yet, and what nobody answered, tells its thread by its header. A thread that was told
 * never changes.
 *
 * @param otherName what stands for the id of a message that has none
 */
export async function findThread(
  tx: Queries,
  accountId: number,
  headers: ThreadHeaders,
  otherName: () => string,
): Promise<ThreadColumns> {
  const { messageId, references } = headers;
  const message_key = messageId === undefined ? null : keyOf(accountId, messageId);
  const byHeader = threadByHeader(headers, otherName);
  if (references.length === 0) return { thread_id: byHeader, message_key };
  // Last first: the one that is answered.
  const keys = references.map((id) => keyOf(accountId, id)).reverse();
  // A second copy of the same message belongs where the first one does.
  if (message_key !== null) keys.unshift(message_key);
  const rows = await threadsQuery(tx, accountId, keys).execute();
  const threads = new Map(rows.map((row) => [row.message_key, row.thread_id]));
  const found = keys.map((key) => threads.get(key)).find((thread) => typeof thread === 'number');
  return { thread_id: found ?? byHeader, message_key };
}

/** No join: SQLite would go through all messages of the account for it. */
export function threadsQuery(queries: Queries, accountId: number, keys: readonly number[]) {
  return queries
    .selectFrom('messages')
    .select(['message_key', 'thread_id'])
    .where('message_key', 'in', keys)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('mailboxes')
          .select('mailboxes.id')
          .whereRef('mailboxes.id', '=', 'messages.mailbox_id')
          .where('mailboxes.account_id', '=', accountId),
      ),
    );
}
