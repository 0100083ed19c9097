/**
 * Searching an account's mail: by words through the search index, without words by date; newest
 * first either way. What the index finds are bodies: they are joined with the mailboxes that hold
 * them, so that a message that is gone never shows.
 */
import type { Bodies } from '../../bodies/bodies.ts';
import type { Database } from '../../database/database.ts';
import { invalidField, Refusal } from '../../errors/errors.ts';
import type { Envelope } from '../../message/message.ts';
import { type HitPlace, type QueryTerm, readQuery, type Search } from '../../search/search.ts';
import type { MailUser, SearchFilter, SearchMatch, SearchRequest, SearchResult } from '../store.ts';
import { flagsFromText } from '../syntax.ts';
import type { Mailboxes } from './mailboxes.ts';
import { describeRow } from './older-messages.ts';
import type { OpaqueIds } from './opaque-ids.ts';

/** Hits and rows that are looked at in one go. */
const CHUNK = 300;
/** Messages that one call looks at, where hardly any passes the filters; the cursor goes on. */
const LOOKED_AT_MAX = 100_000;

/** Where a message stands in the order of the answer: newest first. */
interface Place {
  readonly date: number;
  /** Of the hit in the index; 0 where there are no words. */
  readonly hit: number;
  readonly mailboxId: number;
  readonly uid: number;
}

interface Candidate extends Place {
  readonly flags: string;
  readonly size: number;
}

export interface MessageSearchOptions {
  readonly database: Database;
  readonly bodies: Pick<Bodies, 'find' | 'read'>;
  readonly ids: OpaqueIds;
  readonly mailboxes: Mailboxes;
  readonly search: Pick<Search, 'find' | 'isBehind'> | undefined;
}

export class MessageSearch {
  readonly #options: MessageSearchOptions;

  constructor(options: MessageSearchOptions) {
    this.#options = options;
  }

  async run(user: MailUser, request: SearchRequest): Promise<SearchResult> {
    const { search, ids: opaque } = this.#options;
    const terms = readQuery(request.texts);
    const after = request.cursor === undefined ? undefined : readCursor(opaque, request.cursor);
    const mailboxes = await this.#mailboxesOf(user, request.mailbox);
    if (mailboxes.size === 0) return { matches: [] };
    if (terms.length > 0 && !search) throw new Refusal('unavailable', 'there is no search index');
    const ids = [...mailboxes.keys()];
    const candidates =
      terms.length > 0
        ? this.#byWords(user, terms, { ids, after, filter: request })
        : this.#byDate({ ids, after, filter: request });
    const matches: SearchMatch[] = [];
    let lookedAt = 0;
    let last: Place | undefined;
    for await (const candidate of candidates) {
      const match = await this.#read(candidate, request, mailboxes);
      lookedAt += 1;
      last = candidate;
      if (match) matches.push(match);
      if (matches.length === request.limit || lookedAt === LOOKED_AT_MAX) break;
      last = undefined;
    }
    const behind = terms.length > 0 && (await search?.isBehind(user.accountId)) === true;
    return {
      matches,
      ...(last && { cursor: opaque.seal(writeCursor(last)) }),
      ...(behind && { indexing: true as const }),
    };
  }

  /** Names by id: of the one that is asked for, else of all. */
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
    const { search, database } = this.#options;
    let place: HitPlace | undefined = startOf(after, filter);
    while (search) {
      const { accountId } = user;
      const hits = await search.find({ accountId, terms, after: place, limit: CHUNK });
      place = hits.at(-1);
      if (!place) return;
      const rows = await database.read
        .selectFrom('messages')
        .select(['mailbox_id', 'uid', 'body_id', 'internal_date', 'flags', 'size'])
        .where(
          'body_id',
          'in',
          hits.map(({ bodyId }) => bodyId),
        )
        .where('mailbox_id', 'in', ids)
        .execute();
      const byBody = Map.groupBy(rows, ({ body_id }) => body_id);
      for (const { id: hit, bodyId, date } of hits) {
        if (filter.since !== undefined && date < filter.since) return;
        const found = (byBody.get(bodyId) ?? []).map(
          ({ mailbox_id: mailboxId, uid, flags, size }) => ({
            date,
            hit,
            mailboxId,
            uid,
            flags,
            size,
          }),
        );
        for (const one of found.sort(newestFirst)) if (isBehind(one, after)) yield one;
      }
    }
  }

  /** The newest of each mailbox, merged: each comes from an index alone. */
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
    after: Place | undefined,
    { since, before }: SearchFilter,
  ): AsyncGenerator<Candidate> {
    let upTo = Math.min(
      after?.date ?? Number.MAX_SAFE_INTEGER,
      (before ?? Number.MAX_SAFE_INTEGER) - 1,
    );
    let uidBelow = Number.MAX_SAFE_INTEGER;
    for (;;) {
      const rows = await this.#options.database.read
        .selectFrom('messages')
        .select(['uid', 'internal_date', 'flags', 'size'])
        .where('mailbox_id', '=', mailboxId)
        .where(({ eb, refTuple, tuple }) =>
          eb(refTuple('internal_date', 'uid'), '<', tuple(upTo, uidBelow)),
        )
        .$if(since !== undefined, (query) => query.where('internal_date', '>=', since ?? 0))
        .orderBy('internal_date', 'desc')
        .orderBy('uid', 'desc')
        .limit(CHUNK)
        .execute();
      for (const { uid, internal_date: date, flags, size } of rows) {
        const one = { date, hit: 0, mailboxId, uid, flags, size };
        if (isBehind(one, after)) yield one;
      }
      const last = rows.at(-1);
      if (!last || rows.length < CHUNK) return;
      upTo = last.internal_date;
      uidBelow = last.uid;
    }
  }

  /** What the answer says of a message; undefined where it does not pass or is gone. */
  async #read(
    { mailboxId, uid, flags, size }: Candidate,
    filter: SearchFilter,
    mailboxes: ReadonlyMap<number, string>,
  ): Promise<SearchMatch | undefined> {
    if (!passes(flags, size, filter)) return undefined;
    const { database } = this.#options;
    const row = await database.read
      .selectFrom('messages')
      .select(['envelope', 'structure', 'internal_date', 'body_id'])
      .select(['preview', 'has_attachment', 'thread_id'])
      .where('mailbox_id', '=', mailboxId)
      .where('uid', '=', uid)
      .executeTakeFirst();
    if (!row) return undefined;
    const told = await describeRow(this.#options, row);
    const { hasAttachment } = filter;
    if (hasAttachment !== undefined && told.hasAttachment !== hasAttachment) return undefined;
    return {
      mailbox: mailboxes.get(mailboxId) ?? '',
      uid,
      envelope: JSON.parse(row.envelope) as Envelope,
      flags: flagsFromText(flags),
      internalDate: new Date(row.internal_date).toISOString(),
      preview: told.preview,
      threadId: told.threadId,
    };
  }
}

interface Walk {
  /** Mailboxes that are searched. */
  readonly ids: readonly number[];
  readonly after: Place | undefined;
  readonly filter: SearchFilter;
}

/** Where the index is read from: the hit that a page ended within is read once more. */
function startOf(after: Place | undefined, { before }: SearchFilter): HitPlace | undefined {
  if (after) return { date: after.date, id: after.hit + 1 };
  return before === undefined ? undefined : { date: before, id: 0 };
}

function newestFirst(a: Place, b: Place): number {
  return b.date - a.date || b.hit - a.hit || b.mailboxId - a.mailboxId || b.uid - a.uid;
}

function isBehind(place: Place, after: Place | undefined): boolean {
  return !after || newestFirst(after, place) < 0;
}

function passes(flagsText: string, size: number, filter: SearchFilter): boolean {
  const { larger, smaller, flags = [], notFlags = [] } = filter;
  if (larger !== undefined && size <= larger) return false;
  if (smaller !== undefined && size >= smaller) return false;
  if (flags.length + notFlags.length === 0) return true;
  const has = new Set(flagsFromText(flagsText.toLowerCase()));
  return (
    flags.every((flag) => has.has(flag.toLowerCase())) &&
    !notFlags.some((flag) => has.has(flag.toLowerCase()))
  );
}

function writeCursor({ date, hit, mailboxId, uid }: Place): string {
  return [date, hit, mailboxId, uid].map((part) => part.toString(36)).join('-');
}

function readCursor(ids: OpaqueIds, sealed: string): Place {
  const parts = ids.open(sealed)?.split(/(?<=[\da-z])-/) ?? [];
  const [date, hit, mailboxId, uid] = parts.map((part) => Number.parseInt(part, 36));
  if (date === undefined || hit === undefined || mailboxId === undefined || uid === undefined) {
    throw invalidField('cursor', 'must be a cursor of an earlier answer');
  }
  return { date, hit, mailboxId, uid };
}
