/**
 * What the IMAP server reads of our own mail store beside the operations that all stores have: mailboxes with their
 * counters, and rows of many messages at once.
 */
import { sql } from 'kysely';
import {
  isAmong,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import type { StoredBody } from '../bodies/bodies.ts';
import { headersOf, type ImapTexts, prepareTexts, searchTexts } from './kept-texts.ts';
import type { LongRequests } from './mail-user.ts';
import {
  INDEXED_AT_A_TIME,
  type MailboxIndex,
  MailboxIndexes,
  NO_MESSAGES,
} from './mailbox-indexes.ts';
import {
  collectKeywords,
  mailboxIdOf,
  mailboxNotFound,
  type OpenMailbox,
  openMailbox,
} from './mailboxes.ts';
import { MessageFacts } from './message-facts.ts';
import type { Quotas, Room } from './quotas.ts';
import type { MessageReaderOptions } from './read-message.ts';
import { formatThreadId } from './stage-message.ts';
import type { ByteRange, MailboxRow, MailUser } from './store.ts';
import { readSubscriptions, writeSubscription } from './subscriptions.ts';
import { canonicalLevels, flagsFromText } from './syntax.ts';

const imapColumns = [
  'uid',
  'modseq',
  'flags',
  'size',
  'internal_date',
  'saved_at',
  'body_id',
  'thread_id',
  'preview',
  'envelope',
  'structure',
] as const satisfies readonly (keyof Row<'messages'>)[];

/** What is kept of the body for answers, read with the row; null where it was not made yet. */
const keptTexts = {
  kept_envelope: 'imap_texts.envelope as kept_envelope',
  kept_structure: 'imap_texts.structure as kept_structure',
  kept_search: 'imap_texts.search as kept_search',
} as const;

type MessageColumn = (typeof imapColumns)[number];
type KeptText = keyof typeof keptTexts;
export type ImapColumn = MessageColumn | KeptText;
/** A message, with the columns that were asked for. */
export type ImapRow<Column extends ImapColumn> = Pick<
  Row<'messages'> & Record<KeptText, string | null>,
  Column | 'uid'
>;

const UIDS_AT_A_TIME = 500;

function isKeptText(column: ImapColumn): column is KeptText {
  return column in keptTexts;
}

interface RowsValues {
  readonly id: number;
  readonly first: number;
  readonly last: number;
  /** As JSON. */
  readonly uids: string;
}

const passedSince = new PreparedQuery((value: { id: number; modseq: number }, queries) =>
  queries
    .selectFrom('tombstones')
    .select('uid')
    .where('mailbox_id', '=', value.id)
    .where('modseq', '>', value.modseq)
    .where('created_modseq', '>', value.modseq),
);

/** An index has the flags of all messages, and of those that are marked alone the row is read. */
export function deletedIn(queries: Queries, mailboxId: number) {
  const own = queries.selectFrom('messages').where('mailbox_id', '=', mailboxId);
  // Only a flag of the system has a backslash, which PostgreSQL would take for an escape.
  const isMarked = sql<boolean>`flags like ${'%\\Deleted%'} escape '~'`;
  return own
    .select(({ fn }) => [fn.countAll().as('messages'), fn.sum('size').as('octets')])
    .where('uid', 'in', own.select('uid').where(isMarked));
}

export interface ImapStoreOptions extends MessageReaderOptions {
  readonly quotas: Quotas;
  readonly longRequests: LongRequests;
}

export class ImapStore {
  readonly #options: ImapStoreOptions;
  /** What never changes of messages, read of many at once. */
  readonly facts: MessageFacts;
  readonly #indexes = new MailboxIndexes();
  readonly #rows = new Map<string, PreparedQuery<RowsValues, object>>();
  readonly #texts = new Map<string, ReturnType<typeof prepareTexts>>();

  constructor(options: ImapStoreOptions) {
    this.#options = options;
    const { database } = options;
    this.facts = new MessageFacts(database, this);
  }

  /** @throws Refusal mailbox_not_found */
  async open(user: MailUser, name: string): Promise<OpenMailbox> {
    const { read } = this.#options.database;
    const { byName } = openMailbox;
    const asked = { accountId: user.accountId, name: canonicalLevels(name) };
    const found = await byName.first(read, asked);
    if (found) return found;
    // Makes those that every account has.
    await this.#options.mailboxes.find(user, name);
    const row = await byName.first(read, asked);
    if (!row) throw mailboxNotFound(name);
    return row;
  }

  /** A mailbox and the index of its messages, of one state. @throws Refusal mailbox_not_found */
  async select(
    user: MailUser,
    name: string,
  ): Promise<{ mailbox: OpenMailbox; index: MailboxIndex }> {
    const mailbox = await this.open(user, name);
    const found = await this.#readIndex(user, mailbox);
    if (!found) throw mailboxNotFound(name);
    return found;
  }

  /** The index of a mailbox as it is now; without messages where the mailbox was deleted. */
  async index(user: MailUser, { id }: Pick<MailboxRow, 'id'>): Promise<MailboxIndex> {
    const { accountId } = user;
    const mailbox = await openMailbox.byId.first(this.#options.database.read, { accountId, id });
    const found = mailbox && (await this.#readIndex(user, mailbox));
    return found?.index ?? NO_MESSAGES;
  }

  /** The same where that costs little; undefined where all of a large mailbox would have to be read. */
  async indexAtHand(user: MailUser, { id }: Pick<MailboxRow, 'id'>) {
    const { accountId } = user;
    const mailbox = await openMailbox.byId.first(this.#options.database.read, { accountId, id });
    if (mailbox && this.#isLong(mailbox)) return undefined;
    const found = mailbox && (await this.#readIndex(user, mailbox));
    return found?.index ?? NO_MESSAGES;
  }

  #isLong(mailbox: OpenMailbox): boolean {
    const isKnown = this.#indexes.at(mailbox) ?? this.#indexes.hasEarlier(mailbox);
    return mailbox.messages > INDEXED_AT_A_TIME && !isKnown;
  }

  /** @param mailbox as it was just now */
  async #readIndex(user: MailUser, mailbox: OpenMailbox) {
    const known = this.#indexes.at(mailbox);
    if (known) return { mailbox, index: known };
    const { accountId } = user;
    const read = () =>
      this.#options.database.snapshot(async (tx) => {
        const now = await openMailbox.byId.first(tx, { accountId, id: mailbox.id });
        return now && { mailbox: now, index: await this.#indexes.read(tx, user, now) };
      });
    return this.#isLong(mailbox) ? this.#options.longRequests.run(user, read) : read();
  }

  /** UIDs of messages that came and went after a state: a sync since then tells nothing of them. */
  async passedSince({ id }: Pick<MailboxRow, 'id'>, modseq: number): Promise<number[]> {
    const rows = await passedSince.all(this.#options.database.read, { id, modseq });
    return rows.map(({ uid }) => uid);
  }

  /** What clients know a mailbox, a message and its conversation by (RFC 8474), the same as by HTTP. */
  readonly objectIds = {
    mailbox: ({ uidvalidity }: Pick<MailboxRow, 'uidvalidity'>) => mailboxIdOf(uidvalidity),
    email: (bodyId: number) => this.#options.ids.nameBody(bodyId),
    thread: (threadId: number) => formatThreadId(threadId),
  };

  /** The keywords of an open mailbox. */
  async keywords({ id, keywords }: OpenMailbox): Promise<string[]> {
    const text = keywords ?? (await this.#options.database.write((tx) => collectKeywords(tx, id)));
    return flagsFromText(text);
  }

  /** How many messages there are from a UID on. */
  async countFrom({ id }: MailboxRow, uid: number): Promise<number> {
    const { count } = await this.#options.database.read
      .selectFrom('messages')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('mailbox_id', '=', id)
      .where('uid', '>=', uid)
      .executeTakeFirstOrThrow();
    return Number(count);
  }

  /** Keeps from which UID on messages were told to nobody as recent. */
  async keepRecent(mailboxId: number, uid: number): Promise<void> {
    await this.#options.database.write((tx) =>
      tx
        .updateTable('mailboxes')
        .set({ recent_uid: uid })
        .where('id', '=', mailboxId)
        .where('recent_uid', '<', uid)
        .execute(),
    );
  }

  /** What programs said of their subscriptions, by name. */
  subscriptions(user: MailUser): Promise<ReadonlyMap<string, boolean>> {
    return readSubscriptions(this.#options.database, user);
  }

  /**
   * @param name need not exist
   * @param isNew whether a subscription of before stays as it is
   * @throws Refusal invalid_request
   */
  async subscribe(user: MailUser, name: string, isOn: boolean, isNew = false): Promise<void> {
    await this.#options.database.write((tx) => writeSubscription(tx, user, name, { isOn, isNew }));
  }

  /** All mailboxes of the account, the oldest first. */
  async list(user: MailUser): Promise<OpenMailbox[]> {
    const { read } = this.#options.database;
    const { accountId } = user;
    const all = await openMailbox.all.all(read, { accountId });
    if (all.length > 0) return all;
    // Makes those that every account has.
    await this.#options.mailboxes.find(user, 'INBOX');
    return openMailbox.all.all(read, { accountId });
  }

  /** What the account uses, and may use; undefined where it has no quota. */
  async room({ accountId }: MailUser): Promise<Room | undefined> {
    const [room] = await this.#options.quotas.rooms(this.#options.database.read, [accountId]);
    return room;
  }

  /** Messages with `\\Deleted`, and the octets of their sources. */
  async deleted({
    id,
  }: MailboxRow): Promise<{ readonly messages: number; readonly octets: number }> {
    const query = deletedIn(this.#options.database.read, id);
    const found = await query.executeTakeFirstOrThrow();
    return { messages: Number(found.messages), octets: Number(found.octets ?? 0) };
  }

  /** Built once for each list of columns, of which there are few. */
  #rowsOf(columns: readonly ImapColumn[], isRow: boolean) {
    const key = `${isRow} ${columns.join(' ')}`;
    const known = this.#rows.get(key);
    if (known) return known;
    const texts = columns.filter(isKeptText);
    const own = columns.filter((column) => !isKeptText(column));
    const query = new PreparedQuery((value: RowsValues, queries) =>
      queries
        .selectFrom('messages')
        .select(['uid', ...own.map((column) => `messages.${column}` as const)])
        .$if(texts.length > 0, (rows) =>
          rows
            .leftJoin('imap_texts', 'imap_texts.body_id', 'messages.body_id')
            .select(texts.map((text) => keptTexts[text])),
        )
        .where('mailbox_id', '=', value.id)
        .where('uid', '>=', value.first)
        .where('uid', '<=', value.last)
        // A row of UIDs without gaps needs no list of them.
        .$if(!isRow, (some) => some.where(isAmong(queries, 'uid', value.uids)))
        .orderBy('uid'),
    );
    this.#rows.set(key, query);
    return query;
  }

  /**
   * Rows of the messages that exist among these.
   *
   * @param mailbox that was opened for its owner
   * @param uids at most 500, ascending
   */
  async rows<Column extends ImapColumn>(
    { id }: MailboxRow,
    uids: readonly number[],
    columns: readonly Column[],
  ): Promise<ImapRow<Column>[]> {
    if (uids.length === 0) return [];
    if (uids.length > UIDS_AT_A_TIME) throw new Error('too many UIDs are asked for at once');
    const [first = 0, last = 0] = [uids[0], uids.at(-1)];
    const isRow = last - first + 1 === uids.length;
    const values = { id, first, last, uids: isRow ? '' : JSON.stringify(uids) };
    const rows = await this.#rowsOf(columns, isRow).all(this.#options.database.read, values);
    return rows as unknown as ImapRow<Column>[];
  }

  /** Some kinds of what is kept of bodies for answers, by their ids. */
  async texts<Kind extends keyof ImapTexts>(
    kinds: readonly Kind[],
    bodyIds: readonly number[],
  ): Promise<Map<number, Pick<ImapTexts, Kind>>> {
    const key = kinds.join(' ');
    const query = this.#texts.get(key) ?? prepareTexts(kinds);
    this.#texts.set(key, query);
    const rows = await query.all(this.#options.database.read, { ids: JSON.stringify(bodyIds) });
    return new Map(rows.map((row) => [row.body_id, row as Pick<ImapTexts, Kind>]));
  }

  /** What is kept of bodies for searches, by their ids; `''` where that does not have this text. */
  async searchTexts(bodyIds: readonly number[], text: string): Promise<Map<number, string>> {
    const ids = JSON.stringify(bodyIds);
    const rows = await searchTexts.all(this.#options.database.read, { ids, text });
    return new Map(rows.map(({ body_id, search }) => [body_id, search]));
  }

  /** Keeps more of them; bodies that are gone are left out. */
  async keepTexts(made: ReadonlyMap<number, ImapTexts>): Promise<void> {
    await this.#options.database.write(async (tx) => {
      const values = (await this.#holdBodies(tx, made)).map(([id, texts]) => ({
        body_id: id,
        ...texts,
      }));
      if (values.length === 0) return;
      const insert = tx.insertInto('imap_texts').values(values);
      await insert.onConflict((conflict) => conflict.column('body_id').doNothing()).execute();
    });
  }

  /** The fields that are kept of headers, by the ids of their bodies. */
  async headers(bodyIds: readonly number[]): Promise<Map<number, string>> {
    const ids = JSON.stringify(bodyIds);
    const rows = await headersOf.all(this.#options.database.read, { ids });
    return new Map(rows.map(({ body_id, fields }) => [body_id, fields]));
  }

  /** Keeps more of them; bodies that are gone are left out. */
  async keepHeaders(made: ReadonlyMap<number, string>): Promise<void> {
    await this.#options.database.write(async (tx) => {
      const held = await this.#holdBodies(tx, made);
      if (held.length === 0) return;
      await tx
        .insertInto('imap_headers')
        .values(held.map(([body_id, fields]) => ({ body_id, fields })))
        .onConflict((conflict) => conflict.column('body_id').doNothing())
        .execute();
    });
  }

  /** What was made of those bodies that are still there; they stay until the commit. */
  async #holdBodies<Made>(
    tx: Queries,
    made: ReadonlyMap<number, Made>,
  ): Promise<(readonly [number, Made])[]> {
    const ids = [...made.keys()];
    const query = tx.selectFrom('bodies').select('id').where('id', 'in', ids).orderBy('id');
    const rows = await query.forKeyShare().execute();
    const there = new Set(rows.map(({ id }) => id));
    return [...made].filter(([id]) => there.has(id)).sort(([a], [b]) => a - b);
  }

  /** Where many sources are, as {@link ImapStore.body} says it. */
  bodies(ids: readonly number[]): Promise<Map<number, StoredBody>> {
    return this.#options.bodies.findMany(ids);
  }

  /** Where a source is; undefined where it was removed. What is in a row comes with its octets. */
  body(id: number): Promise<StoredBody | undefined> {
    return this.#options.bodies.find(id);
  }

  /** Octets of a source. @throws Refusal body_unavailable, unavailable */
  source(body: StoredBody, range?: ByteRange, about: object = {}): AsyncIterable<Uint8Array> {
    return this.#options.bodies.read(body, range, about);
  }
}
