/** The mail of the embedded store, as the search index reads it. */
import { sql } from 'kysely';
import {
  chunks,
  type Database,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import type { Envelope, MessagePart } from '../../protocols/message/message.ts';
import { enqueueSearch, type SearchSource, type StoredMessage } from '../search/search.ts';

/** Messages of a mailbox that are queued in one transaction. */
const ENQUEUE_AT_A_TIME = 500;

export function createSearchSource(database: Database): SearchSource {
  const isSqlite = database.engine === 'sqlite';
  return {
    find: async (queries, wanted) => {
      const rows = isSqlite ? await findEach(queries, wanted) : await findAll(queries, wanted);
      return rows.map(({ envelope, structure, size, content, file, ...row }) => ({
        ...row,
        envelope: JSON.parse(envelope) as Envelope,
        structure: JSON.parse(structure) as MessagePart,
        body: { size, content, file },
      }));
    },
    enqueueAll: () => enqueueAll(database),
  };
}

type Wanted = Pick<StoredMessage, 'accountId' | 'bodyId'>;
type Found = Wanted &
  Pick<StoredMessage, 'date'> &
  StoredMessage['body'] &
  Pick<Row<'messages'>, 'envelope' | 'structure'>;

/** Compiled once: it runs for every message. A body may be in many mailboxes of the account, and is read once. */
const findOne = new PreparedQuery(({ accountId, bodyId }: Wanted, queries) =>
  queries
    .selectFrom('messages')
    .innerJoin('mailboxes', 'mailboxes.id', 'messages.mailbox_id')
    .innerJoin('bodies', 'bodies.id', 'messages.body_id')
    .select(['messages.envelope', 'messages.structure', 'messages.internal_date as date'])
    .select(['bodies.size', 'bodies.content', 'bodies.file'])
    .where('messages.body_id', '=', bodyId)
    .where('mailboxes.account_id', '=', accountId)
    .limit(1),
);

async function findEach(queries: Queries, wanted: readonly Wanted[]): Promise<Found[]> {
  const found: Found[] = [];
  for (const { accountId, bodyId } of wanted) {
    const row = await findOne.first(queries, { accountId, bodyId });
    if (row) found.push({ ...row, accountId, bodyId });
  }
  return found;
}

/** The same for all of them in one round trip to PostgreSQL. */
const findList = new PreparedQuery<{ accounts: number[]; bodies: number[] }, Found>(
  ({ accounts, bodies }, queries) => ({
    compile: () =>
      sql<Found>`select wanted.*, found.*
        from unnest(${accounts}::bigint[], ${bodies}::bigint[]) as wanted ("accountId", "bodyId")
        cross join lateral (
          select messages.internal_date as date, messages.envelope, messages.structure,
            bodies.size, bodies.content, bodies.file
          from messages
          join mailboxes on mailboxes.id = messages.mailbox_id
          join bodies on bodies.id = messages.body_id
          where messages.body_id = wanted."bodyId" and mailboxes.account_id = wanted."accountId"
          limit 1
        ) as found`.compile(queries),
  }),
);

function findAll(queries: Queries, wanted: readonly Wanted[]): Promise<Found[]> {
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
        const news = rows.map((row) => ({ accountId, bodyId: row.body_id, gone: false }));
        await enqueueSearch(tx, news);
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
    const rows = await tx
      .selectFrom('messages')
      .innerJoin('mailboxes', 'mailboxes.id', 'messages.mailbox_id')
      .select('messages.body_id')
      .where('messages.body_id', 'in', some)
      .where('mailboxes.account_id', '=', accountId)
      .execute();
    const kept = new Set(rows.map(({ body_id }) => body_id));
    const gone = some.filter((id) => !kept.has(id));
    await enqueueSearch(
      tx,
      gone.map((bodyId) => ({ accountId, bodyId, gone: true })),
    );
  }
}
