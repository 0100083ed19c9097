/** The mail of the embedded store, as the search index reads it. */
import { type RawBuilder, sql } from 'kysely';
import {
  chunks,
  type Database,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';
import { enqueueSearch, type SearchSource, type StoredMessage } from '../search/search.ts';

/** Messages of a mailbox that are queued in one transaction. */
const ENQUEUE_AT_A_TIME = 500;

export function createSearchSource(database: Database): SearchSource {
  const isSqlite = database.engine === 'sqlite';
  return {
    find: isSqlite ? findEach : findAll,
    enqueueAll: () => enqueueAll(database),
  };
}

type Wanted = Pick<StoredMessage, 'accountId' | 'bodyId'>;

/** A body may be in many mailboxes of the account, and is read once. */
function messageOf(bodyId: RawBuilder<unknown>, accountId: RawBuilder<unknown>) {
  return sql<Omit<StoredMessage, keyof Wanted>>`
    select messages.internal_date as date, messages.envelope, messages.structure,
      bodies.size, bodies.content, bodies.file
    from messages
    join mailboxes on mailboxes.id = messages.mailbox_id
    join bodies on bodies.id = messages.body_id
    where messages.body_id = ${bodyId} and mailboxes.account_id = ${accountId}
    limit 1`;
}

const findOne = new PreparedQuery<Wanted, Omit<StoredMessage, keyof Wanted>>(
  ({ bodyId, accountId }) => messageOf(sql.val(bodyId), sql.val(accountId)),
);

async function findEach(queries: Queries, wanted: readonly Wanted[]): Promise<StoredMessage[]> {
  const found: StoredMessage[] = [];
  for (const one of wanted) {
    const row = await findOne.first(queries, one);
    if (row) found.push({ ...row, ...one });
  }
  return found;
}

/** The same for all of them in one round trip to PostgreSQL. */
const findList = new PreparedQuery<{ accounts: number[]; bodies: number[] }, StoredMessage>(
  ({ accounts, bodies }) => sql<StoredMessage>`select wanted.*, found.*
    from unnest(${accounts}::bigint[], ${bodies}::bigint[]) as wanted ("accountId", "bodyId")
    cross join lateral (${messageOf(sql.raw('wanted."bodyId"'), sql.raw('wanted."accountId"'))}) as found`,
);

function findAll(queries: Queries, wanted: readonly Wanted[]): Promise<StoredMessage[]> {
  return findList.all(queries, {
    accounts: wanted.map(({ accountId }) => accountId),
    bodies: wanted.map(({ bodyId }) => bodyId),
  });
}

/** Mailbox by mailbox, so that incoming mail waits for a few hundred rows at most. */
async function enqueueAll(database: Database): Promise<void> {
  const mailboxes = await database.read
    .selectFrom('mailboxes')
    .select(['id', 'account_id'])
    .where('account_id', '>', 0)
    .orderBy('id')
    .execute();
  for (const { id, account_id: accountId } of mailboxes) {
    let after: number | undefined = 0;
    while (after !== undefined) {
      const afterUid: number = after;
      after = await database.write(async (tx) => {
        const rows = await tx
          .selectFrom('messages')
          .select(['uid', 'body_id'])
          .where('mailbox_id', '=', id)
          .where('uid', '>', afterUid)
          .orderBy('uid')
          .limit(ENQUEUE_AT_A_TIME)
          .execute();
        const entries = rows.map((row) => ({ accountId, bodyId: row.body_id, gone: false }));
        await enqueueSearch(tx, entries);
        return rows.length < ENQUEUE_AT_A_TIME ? undefined : rows.at(-1)?.uid;
      });
    }
  }
}

/**
 * Queues the removal from the search index of bodies that no mailbox of the account has any more, in the
 * transaction that removed them.
 */
export async function forgetInSearch(
  tx: Queries,
  accountId: number,
  bodyIds: readonly number[],
): Promise<void> {
  for (const some of chunks(bodyIds, ENQUEUE_AT_A_TIME)) {
    // The first copy is enough: an account may have a thousand of each.
    const rows = await tx
      .selectFrom('bodies')
      .select('id')
      .where('id', 'in', some)
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom('messages')
            .innerJoin('mailboxes', 'mailboxes.id', 'messages.mailbox_id')
            .select('messages.uid')
            .whereRef('messages.body_id', '=', 'bodies.id')
            .where('mailboxes.account_id', '=', accountId),
        ),
      )
      .execute();
    const kept = new Set(rows.map(({ id }) => id));
    const gone = some.filter((id) => !kept.has(id));
    await enqueueSearch(
      tx,
      gone.map((bodyId) => ({ accountId, bodyId, gone: true })),
    );
  }
}
