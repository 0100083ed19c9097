/**
 * The index on PostgreSQL: a tsvector of our own terms for each message, and GIN.
 *
 * By itself the planner walks the primary key backwards for a rare word (2.6 s at 290,000 messages): its estimates do
 * not know the terms of one account. So the hits are first materialized by the index, with other plans turned off for
 * this transaction.
 */
import { randomUUID } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import {
  advisoryLocks,
  PreparedQuery,
  type Queries,
  settingStore,
} from '../../platform/database/database.ts';
import {
  type FindRequest,
  FORGET_AT_A_TIME,
  type Hit,
  type HitPosition,
  type SearchChange,
  type SearchDocument,
  tryTerms,
  type Unreadable,
} from './documents.ts';
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
import { indexedForms, type QueryTerm, TERMS_VERSION } from './terms.ts';

/** Milliseconds that one query may take. */
const STATEMENT_TIMEOUT = '2s';
/** Less than the least DATABASE_TIMEOUT_SECONDS. */
const ALIVE_MS = 300;
/** Rows of the queue that a node looks at for those that no other works at: as many nodes as find some work at once. */
const LOOKED_AT = 8 * BATCH;
/** The version of the terms in the index, once all mail is in it or queued for it. */
const VERSION_SETTING = 'search_terms';

/** Makes changes in order, within the caller's transaction. */
async function applyWithin(tx: Queries, changes: readonly SearchChange[]): Promise<Unreadable[]> {
  const failed: Unreadable[] = [];
  const added: Indexed[] = [];
  for (const change of changes) {
    if (change.kind !== 'add') await insert(tx, added.splice(0));
    if (change.kind === 'add') {
      const { terms, unreadable } = tryTerms(change.document);
      if (unreadable) failed.push(unreadable);
      added.push({ ...change.document, terms: terms.join(' ') });
    } else if (change.kind === 'remove') {
      await tx
        .deleteFrom('search_documents')
        .where('account_id', '=', change.accountId)
        .where('body_id', '=', change.bodyId)
        .execute();
    } else await forgetSome(tx, change.accountId);
  }
  await insert(tx, added);
  return failed;
}

interface Indexed extends Pick<SearchDocument, 'accountId' | 'bodyId' | 'date'> {
  readonly terms: string;
}

/** Each column of some documents. */
type Columns = { [Name in keyof Indexed]: Indexed[Name][] };

/** Inserts the rows of a source that has these columns, the terms as one text. */
const insertRows = (source: RawBuilder<unknown>) => sql<never>`
  insert into search_documents (account_id, body_id, date, terms)
  select account_id, body_id, date, array_to_tsvector(string_to_array(terms, ' '))
  from ${source}
  on conflict do nothing`;

const insertAll = new PreparedQuery<Columns, never>((value) =>
  insertRows(sql`unnest(${value.accountId}::bigint[], ${value.bodyId}::bigint[],
    ${value.date}::bigint[], ${value.terms}::text[]) as added (account_id, body_id, date, terms)`),
);

async function insert(tx: Queries, added: readonly Indexed[]): Promise<void> {
  if (added.length === 0) return;
  await insertAll.all(tx, {
    accountId: added.map(({ accountId }) => accountId),
    bodyId: added.map(({ bodyId }) => bodyId),
    date: added.map(({ date }) => date),
    terms: added.map(({ terms }) => terms),
  });
}

/** Removes some documents of a deleted account, and queues the account again behind all others until none is left. */
async function forgetSome(tx: Queries, accountId: number): Promise<void> {
  const { numAffectedRows } = await sql`
    delete from search_documents where id in (
      select id from search_documents where account_id = ${accountId} limit ${FORGET_AT_A_TIME}
    )`.execute(tx);
  if (Number(numAffectedRows) < FORGET_AT_A_TIME) return;
  await enqueueSearch(tx, [{ accountId, bodyId: 0, gone: true }]);
}

/** The text of the tsquery. A term has only letters, digits, marks and pictographs: nothing to escape. */
function queryOf(accountId: number, terms: readonly QueryTerm[]): string {
  const anyOf = (term: QueryTerm) =>
    indexedForms(accountId, term).map((form) => `'${form}'${term.prefix ? ':*' : ''}`);
  return terms.map((term) => `(${anyOf(term).join(' | ')})`).join(' & ');
}

/** For the rest of a transaction: other plans are off, and a query ends in time. One statement, since each is a round trip. */
const planByIndex = new PreparedQuery<object, never>(
  () => sql`select set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
    set_config('statement_timeout', ${sql.lit(STATEMENT_TIMEOUT)}, true)`,
);

interface HitsOf extends Pick<FindRequest, 'accountId' | 'limit'>, HitPosition {
  readonly query: string;
}

/** Hits before a position. The plus keeps the index by account out of a plan that is made once for all: it would read all of an account. */
const hits = new PreparedQuery<HitsOf, Hit>(
  ({ accountId, query, date, id, limit }) => sql`
    with hits as materialized (
      select id, body_id, date from search_documents
      where terms @@ ${query}::tsquery and +account_id = ${accountId}
    )
    select id, body_id as "bodyId", date from hits where (date, id) < (${date}, ${id})
    order by date desc, id desc limit ${limit}`,
);

/** Whether some mail of an account is not in the index, which another node may have emptied since this one found it filled. */
const behind = new PreparedQuery<{ readonly accountId: number }, { readonly isBehind: boolean }>(
  ({ accountId }) => sql`
    select exists (select 1 from search_queue where account_id = ${accountId})
      or not exists (select 1 from settings
        where name = ${sql.lit(VERSION_SETTING)} and value = ${sql.lit(String(TERMS_VERSION))}) as "isBehind"`,
);

/**
 * Whether the message that a row removes is still to be added: another node may be reading it, and would add it after
 * the removal.
 */
const isAddedBefore = sql<boolean>`exists (
  select 1 from search_queue as added
  where added.account_id = search_queue.account_id and added.id < search_queue.id and added.gone = 0
    and (added.body_id = search_queue.body_id or search_queue.body_id = 0))`;

interface TakenRow {
  readonly id: number;
  readonly accountId: number;
  readonly bodyId: number;
  readonly gone: number;
  /** Whether its body is still to be read. */
  readonly isUnread: boolean;
}

/**
 * Finds rows of the queue that no other node works at. The locks end with the transaction, and unlike those of rows give it no
 * number: everybody's events are told only up to the oldest transaction with one, and a bucket may take long to answer.
 */
const findSome = new PreparedQuery<object, TakenRow>((_, queries) => {
  const first = queries
    .selectFrom('search_queue')
    .select(queueColumns)
    .select(sql<boolean>`terms is null`.as('isUnread'))
    .where(({ or, eb, not }) => or([eb('gone', '=', 0), not(isAddedBefore)]))
    .orderBy('id')
    .limit(LOOKED_AT);
  // Apart, since a plan that sorts would lock all of the queue.
  return sql<TakenRow>`
    with first as materialized (${first})
    select * from first
    where pg_try_advisory_xact_lock(${sql.lit(advisoryLocks.search)}, (id % 2147483647)::int)
    limit ${sql.lit(BATCH)}`;
});

/** Takes rows, and indexes those whose terms came with them: no other row is about these new bodies. */
const takeThese = new PreparedQuery<{ readonly ids: number[] }, { readonly id: number }>(
  ({ ids }) => sql<{ id: number }>`
    with taken as (delete from search_queue where id = any(${ids}::bigint[]) returning *),
    added as (${insertRows(sql`taken where terms is not null`)})
    select id from taken`,
);

/**
 * Waits for sources within a transaction. The server ends one that is idle for too long, and the next attempt would
 * end as well: a slow bucket, or one message of many parts, would keep all mail from the index.
 */
async function keepAlive<T>(tx: Queries, sources: Promise<T>): Promise<T> {
  let said: Promise<unknown> = Promise.resolve();
  // Where it fails, so does the next statement.
  const say = () => {
    said = sql`select 1`.execute(tx).catch(() => {});
  };
  const timer = setInterval(say, ALIVE_MS);
  try {
    return await sources;
  } finally {
    clearInterval(timer);
    await said;
  }
}

/** Rows are removed in the transaction that indexes them. */
export class PostgresIndex implements SearchIndex {
  readonly #options: IndexOptions;
  /** Whether all mail is in the index or queued for it. */
  #isFilled = false;

  constructor(options: IndexOptions) {
    this.#options = options;
  }

  /**
   * An index with terms of another version is emptied, and all mail is queued again. The version is written last: if a
   * node dies before that, the next start does the work again.
   */
  async open(): Promise<void> {
    if (!this.#isFilled) await this.#fill();
    this.#isFilled = true;
  }

  async #fill(): Promise<void> {
    const { database, source } = this.#options;
    const setting = settingStore(database, VERSION_SETTING);
    const version = String(TERMS_VERSION);
    if ((await setting.read()) === version) return;
    // One that empties it after this one, in an upgrade of several nodes, has the work to itself: what was queued is gone.
    const value = `${version}, filled by ${randomUUID()}`;
    await database.write(async (tx) => {
      await sql`truncate search_documents`.execute(tx);
      // All mail is queued once more, so these rows are not needed.
      await tx.deleteFrom('search_queue').execute();
      await tx
        .insertInto('settings')
        .values({ name: VERSION_SETTING, value })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
        .execute();
    });
    await source.enqueueAll();
    await setting.replace(value, version);
  }

  find({ accountId, terms, after, limit }: FindRequest): Promise<Hit[]> {
    const query = queryOf(accountId, terms);
    const date = after?.date ?? Number.MAX_SAFE_INTEGER;
    const id = after?.id ?? Number.MAX_SAFE_INTEGER;
    return this.#options.database.snapshot(async (tx) => {
      await planByIndex.all(tx, {});
      return hits.all(tx, { accountId, query, date, id, limit });
    });
  }

  async isBehind(accountId: number): Promise<boolean> {
    const { read } = this.#options.database;
    return (await behind.first(read, { accountId }))?.isBehind !== false;
  }

  async waiting(): Promise<number> {
    const { first, last } = await this.#options.database.read
      .selectFrom('search_queue')
      .select((eb) => [eb.fn.min('id').as('first'), eb.fn.max('id').as('last')])
      .executeTakeFirstOrThrow();
    return last === null ? 0 : last - first + 1;
  }

  takeBatch(): Promise<number> {
    const { database, log, now } = this.#options;
    return database.write(async (tx) => {
      const rows = await findSome.all(tx, {});
      if (rows.length === 0) return 0;
      const entries = rows
        .filter(({ isUnread }) => isUnread)
        .map((row) => ({ ...row, gone: row.gone === 1 }))
        .sort((a, b) => a.id - b.id);
      const { changes, unread } = await keepAlive(tx, readRows(tx, this.#options, entries));
      const taken = await takeThese.all(tx, { ids: rows.map(({ id }) => id) });
      // Another node may have taken some as this one looked.
      const own = new Set(taken.map(({ id }) => id));
      const left = changes.filter(({ row }) => own.has(row));
      await keepUnread(tx, unread, now?.());
      for (const one of await applyWithin(tx, left)) logUnreadable(log, one);
      return rows.length;
    });
  }

  async sync(): Promise<void> {}

  async close(): Promise<void> {}
}
