/**
 * Searches an account's mail: by words through the search index, without words by date; in both cases newest
 * first. The index finds bodies: they are joined with the mailboxes that hold them, so that a deleted message
 * is never shown.
 */
import { sql } from 'kysely';
import { isAmong, PreparedQuery } from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { Envelope } from '../../protocols/message/message.ts';
import {
  type Hit,
  type HitPosition,
  type QueryTerm,
  readQuery,
  type Search,
} from '../search/search.ts';
import type { LongRequests } from './mail-user.ts';
import { describeRow } from './older-messages.ts';
import type { OpaqueIds } from './opaque-ids.ts';
import type { MessageReaderOptions } from './read-message.ts';
import type { SearchFilter, SearchMatch, SearchRequest, SearchResult } from './search-request.ts';
import { type MailUser, takeTurnOf } from './store.ts';
import { flagsFromText } from './syntax.ts';

/** Rows that are read at once. */
const CHUNK = 300;
/**
 * The index sorts all hits by date for each query. Where the first hits do not fill a page, the next query
 * reads this many times as many: 40,000 hits take three queries, not 130.
 */
const MORE_HITS = 20;
/** Messages that are checked before other requests get a turn: a few milliseconds. */
const LOOKED_AT_A_TURN = 3_000;
/** Messages that one call checks, where hardly any passes the filters; the cursor continues from there. */
const LOOKED_AT_MAX = 100_000;

/** Where a message stands in the order of the answer: newest first. */
interface Position {
  readonly date: number;
  /** Of the hit in the index; 0 where there are no words. */
  readonly hit: number;
  readonly mailboxId: number;
  readonly uid: number;
}

interface Candidate extends Position {
  readonly flags: string;
  readonly size: number;
  /** Null in rows from before 0.3.0. */
  readonly hasAttachment: number | null;
}

export interface MessageSearchOptions extends MessageReaderOptions {
  readonly search: Pick<Search, 'find' | 'isBehind'> | undefined;
  readonly longRequests: LongRequests;
}

export class MessageSearch {
  readonly #options: MessageSearchOptions;

  constructor(options: MessageSearchOptions) {
    this.#options = options;
  }

  /** @throws Refusal rate_limited where the account has too many long requests under way; unavailable under too much load */
  run(user: MailUser, request: SearchRequest): Promise<SearchResult> {
    return this.#options.longRequests.run(user, () => this.#run(user, request));
  }

  async #run(user: MailUser, request: SearchRequest): Promise<SearchResult> {
    const { search, ids: opaque } = this.#options;
    const terms = readQuery(request.texts);
    const after = request.cursor === undefined ? undefined : readCursor(opaque, request.cursor);
    const mailboxes = await this.#mailboxesOf(user, request.mailbox);
    if (mailboxes.size === 0) return { matches: [] };
    if (terms.length > 0 && !search) throw new Refusal('unavailable', 'there is no search index');
    // Read before the search: mail that is indexed from now on may be missed, but is reported as missing.
    const behind = terms.length > 0 && (await search?.isBehind(user.accountId)) === true;
    const ids = [...mailboxes.keys()];
    const candidates =
      terms.length > 0
        ? this.#byWords(user, terms, { ids, after, filter: request })
        : this.#byDate({ ids, after, filter: request });
    const matches: SearchMatch[] = [];
    let page: Candidate[] = [];
    let lookedAt = 0;
    let last: Position | undefined;
    for await (const candidate of candidates) {
      lookedAt += 1;
      // SQLite answers on the event loop: other requests get a turn in between.
      if (lookedAt % LOOKED_AT_A_TURN === 0) await takeTurnOf(user);
      if (passes(candidate, request)) page.push(candidate);
      const isEnough = lookedAt === LOOKED_AT_MAX;
      if (!isEnough && matches.length + page.length < request.limit) continue;
      matches.push(...(await this.#read(page, request, mailboxes)));
      page = [];
      if (!isEnough && matches.length < request.limit) continue;
      last = candidate;
      break;
    }
    matches.push(...(await this.#read(page, request, mailboxes)));
    return {
      matches,
      ...(last && { cursor: opaque.seal(writeCursor(last)) }),
      ...(behind && { indexing: true as const }),
    };
  }

  /** Names by id: of the requested mailbox, or of all. */
  async #mailboxesOf(user: MailUser, name: string | undefined): Promise<Map<number, string>> {
    const { mailboxes, database } = this.#options;
    if (name !== undefined) {
      const row = await mailboxes.find(user, name);
      return new Map([[row.id, row.name]]);
    }
    const rows = await mailboxes.readAll(database.read, user);
    return new Map(rows.map((row) => [row.id, row.name]));
  }

  async *#byWords(
    user: MailUser,
    terms: readonly QueryTerm[],
    { ids, after, filter }: Walk,
  ): AsyncGenerator<Candidate> {
    const { search } = this.#options;
    const { accountId } = user;
    let position: HitPosition | undefined = startOf(after, filter);
    let limit = CHUNK;
    while (search) {
      const hits = await search.find({ accountId, terms, after: position, limit });
      for (let at = 0; at < hits.length; at += CHUNK) {
        const some = hits.slice(at, at + CHUNK);
        for (const one of await this.#locate(some, ids)) {
          if (filter.since !== undefined && one.date < filter.since) return;
          if (isBehind(one, after)) yield one;
        }
      }
      if (hits.length < limit) return;
      position = hits.at(-1);
      limit = Math.min(limit * MORE_HITS, LOOKED_AT_MAX);
    }
  }

  /** The messages of the hits, in their order: one for each mailbox that holds the body. */
  async #locate(hits: readonly Hit[], mailboxIds: readonly number[]): Promise<Candidate[]> {
    const rows = await rowsOfBodies.all(this.#options.database.read, {
      bodyIds: JSON.stringify(hits.map(({ bodyId }) => bodyId)),
      mailboxIds: JSON.stringify(mailboxIds),
    });
    const byBody = Map.groupBy(rows, ({ body_id }) => body_id);
    return hits.flatMap(({ id: hit, bodyId, date }) =>
      (byBody.get(bodyId) ?? [])
        .map(({ mailbox_id: mailboxId, has_attachment: hasAttachment, uid, flags, size }) => ({
          date,
          hit,
          mailboxId,
          uid,
          flags,
          size,
          hasAttachment,
        }))
        .sort(newestFirst),
    );
  }

  /** The newest of each mailbox, merged: each mailbox is read from an index alone. */
  async *#byDate({ ids, after, filter }: Walk): AsyncGenerator<Candidate> {
    const heads: { candidate: Candidate; rest: AsyncGenerator<Candidate> }[] = [];
    for (const id of ids) {
      const rest = this.#mailboxByDate(id, after, filter);
      const { value } = await rest.next();
      if (value) heads.push({ candidate: value, rest });
    }
    for (;;) {
      const [head] = heads.sort((a, b) => newestFirst(a.candidate, b.candidate));
      if (!head) return;
      yield head.candidate;
      const { value } = await head.rest.next();
      if (value) head.candidate = value;
      else heads.shift();
    }
  }

  async *#mailboxByDate(
    mailboxId: number,
    after: Position | undefined,
    filter: SearchFilter,
  ): AsyncGenerator<Candidate> {
    const { since, before, larger, smaller, hasAttachment: wanted } = filter;
    // Without these two filters the index has every column that is read, so no row is.
    const inIndex = larger === undefined && smaller === undefined && wanted === undefined;
    let upTo = Math.min(
      after?.date ?? Number.MAX_SAFE_INTEGER,
      (before ?? Number.MAX_SAFE_INTEGER) - 1,
    );
    let uidBelow = Number.MAX_SAFE_INTEGER;
    for (;;) {
      const rows = await this.#options.database.read
        .selectFrom('messages')
        .select(['uid', 'internal_date', 'flags'])
        .$if(!inIndex, (query) => query.select(['size', 'has_attachment']))
        .where('mailbox_id', '=', mailboxId)
        .where(({ eb, refTuple, tuple }) =>
          eb(refTuple('internal_date', 'uid'), '<', tuple(upTo, uidBelow)),
        )
        .$if(since !== undefined, (query) => query.where('internal_date', '>=', since ?? 0))
        .orderBy('internal_date', 'desc')
        .orderBy('uid', 'desc')
        .limit(CHUNK)
        .execute();
      for (const row of rows) {
        const { uid, internal_date: date, flags, size = 0 } = row;
        const hasAttachment = row.has_attachment ?? null;
        const one = { date, hit: 0, mailboxId, uid, flags, size, hasAttachment };
        if (isBehind(one, after)) yield one;
      }
      const last = rows.at(-1);
      if (!last || rows.length < CHUNK) return;
      upTo = last.internal_date;
      uidBelow = last.uid;
    }
  }

  /** The answer's entries for messages; deleted ones are left out, and older ones that do not pass the filters. */
  async #read(
    candidates: readonly Candidate[],
    { hasAttachment }: SearchFilter,
    mailboxes: ReadonlyMap<number, string>,
  ): Promise<SearchMatch[]> {
    const { read } = this.#options.database;
    const found = new Map<string, Awaited<ReturnType<typeof rowsByUid.all>>[number]>();
    for (const [mailboxId, some] of Map.groupBy(candidates, ({ mailboxId: id }) => id)) {
      const uids = JSON.stringify(some.map(({ uid }) => uid));
      for (const row of await rowsByUid.all(read, { mailboxId, uids })) {
        found.set(`${mailboxId} ${row.uid}`, row);
      }
    }
    const matches: SearchMatch[] = [];
    for (const { mailboxId, uid, flags } of candidates) {
      const row = found.get(`${mailboxId} ${uid}`);
      if (!row) continue;
      const description = await describeRow(this.#options, row);
      if (hasAttachment !== undefined && description.hasAttachment !== hasAttachment) continue;
      matches.push({
        mailbox: mailboxes.get(mailboxId) ?? '',
        uid,
        envelope: JSON.parse(row.envelope) as Envelope,
        flags: flagsFromText(flags),
        internalDate: new Date(row.internal_date).toISOString(),
        preview: description.preview,
        threadId: description.threadId,
      });
    }
    return matches;
  }
}

const rowsOfBodies = new PreparedQuery(
  (value: { readonly bodyIds: string; readonly mailboxIds: string }, queries) =>
    queries
      .selectFrom('messages')
      .select(['mailbox_id', 'uid', 'body_id', 'flags', 'size', 'has_attachment'])
      .where(isAmong(queries, 'body_id', value.bodyIds))
      // The plus keeps SQLite from using an index on mailboxes: it would read all of a mailbox.
      .where(isAmong(queries, sql`+mailbox_id`, value.mailboxIds)),
);

const rowsByUid = new PreparedQuery(
  (value: { readonly mailboxId: number; readonly uids: string }, queries) =>
    queries
      .selectFrom('messages')
      .select(['uid', 'envelope', 'structure', 'internal_date', 'body_id'])
      .select(['preview', 'has_attachment', 'thread_id'])
      .where('mailbox_id', '=', value.mailboxId)
      .where(isAmong(queries, 'uid', value.uids)),
);

interface Walk {
  /** Mailboxes that are searched. */
  readonly ids: readonly number[];
  readonly after: Position | undefined;
  readonly filter: SearchFilter;
}

/** Where the index is read from: the hit in which the last page ended is read once more. */
function startOf(after: Position | undefined, { before }: SearchFilter): HitPosition | undefined {
  if (after) return { date: after.date, id: after.hit + 1 };
  return before === undefined ? undefined : { date: before, id: 0 };
}

function newestFirst(a: Position, b: Position): number {
  return b.date - a.date || b.hit - a.hit || b.mailboxId - a.mailboxId || b.uid - a.uid;
}

function isBehind(position: Position, after: Position | undefined): boolean {
  return !after || newestFirst(after, position) < 0;
}

function passes({ size, ...row }: Candidate, filter: SearchFilter): boolean {
  const { larger, smaller, flags = [], notFlags = [], hasAttachment } = filter;
  if (larger !== undefined && size <= larger) return false;
  if (smaller !== undefined && size >= smaller) return false;
  const isKnown = hasAttachment !== undefined && row.hasAttachment !== null;
  if (isKnown && (row.hasAttachment === 1) !== hasAttachment) return false;
  if (flags.length + notFlags.length === 0) return true;
  const has = new Set(flagsFromText(row.flags.toLowerCase()));
  return (
    flags.every((flag) => has.has(flag.toLowerCase())) &&
    !notFlags.some((flag) => has.has(flag.toLowerCase()))
  );
}

function writeCursor({ date, hit, mailboxId, uid }: Position): string {
  return [date, hit, mailboxId, uid].map((part) => part.toString(36)).join('-');
}

function readCursor(ids: OpaqueIds, sealed: string): Position {
  const parts = ids.open(sealed)?.split(/(?<=[\da-z])-/) ?? [];
  const [date, hit, mailboxId, uid] = parts.map((part) => Number.parseInt(part, 36));
  if (date === undefined || hit === undefined || mailboxId === undefined || uid === undefined) {
    throw invalidField('cursor', 'must be a cursor of an earlier answer');
  }
  return { date, hit, mailboxId, uid };
}
