/**
 * What changed in a mailbox since a MODSEQ.
 *
 * A client that has state `base` is brought to state `snapshot`: what came after `base` is added, what it
 * knows and was changed is updated, what it knew and was removed is removed. What came and was removed in
 * between is not reported. In a paged sync, what was removed since the first page is not added: only its removal is
 * reported, by the next sync. The cost depends on the number of changes, not on the size of the mailbox.
 */
import { PreparedQuery, type Queries } from '../../platform/database/database.ts';
import {
  type Envelope,
  type MessagePart,
  toBodyStructure,
} from '../../protocols/message/message.ts';
import {
  columnsOf,
  type GoneInOrderValues,
  type GoneRow,
  type GoneValues,
  goneInOrderQuery,
  goneQuery,
  inOrder,
  type LiveQuery,
  type LiveRow,
  liveQuery,
} from './change-queries.ts';
import { describeOlder, readStored, type Sources } from './older-messages.ts';
import type { OpaqueIds } from './opaque-ids.ts';
import {
  TEXT_AT_A_TIME,
  TEXT_ROWS,
  type TextRange,
  TextReader,
  type TextRows,
  textColumns,
  type WindowValues,
} from './read-texts.ts';
import { type AddedMessage, hasTexts, type MessageField, type UpdatedMessage } from './store.ts';
import { flagsFromText } from './syntax.ts';

export interface ChangeWindow extends Omit<TextRange, 'most' | 'pageBytes'> {
  readonly limit: number | undefined;
  readonly fields: readonly MessageField[];
}

export interface ChangePage {
  readonly added: AddedMessage[];
  readonly updated: UpdatedMessage[];
  readonly removed: { uid: number }[];
  /** Where the next page begins; undefined on the last one. */
  readonly nextAfterUid: number | undefined;
}

/** RFC 3501 section 2.3.1.1. */
const UID_MAX = 4_294_967_295;

/** Rows read at once: a sync of a huge mailbox must not hold the thread. */
const ROWS_AT_A_TIME = 5_000;

/** How many messages are read in one piece of work at most. */
export function pieceOf(fields: readonly MessageField[]): number {
  return hasTexts(fields) ? TEXT_ROWS : ROWS_AT_A_TIME;
}

export interface ChangeReaderOptions {
  readonly queries: Queries;
  readonly sources: Sources;
  /** Octets of envelopes and structures in one page. */
  readonly pageBytes: number;
}

const gone = new PreparedQuery((value: GoneValues, queries) => goneQuery(queries, value));
const goneInOrder = new PreparedQuery((value: GoneInOrderValues, queries) =>
  goneInOrderQuery(queries, value),
);

/** Reads changes with queries that are compiled once. */
export class ChangeReader {
  readonly #options: ChangeReaderOptions;
  readonly #texts: TextReader;
  readonly #live = new Map<string, PreparedQuery<WindowValues, LiveRow>>();

  constructor(options: ChangeReaderOptions) {
    this.#options = options;
    this.#texts = new TextReader(options.queries);
  }

  /** Reads one page of changes; `tx` sees one state of the database throughout. */
  async read(tx: Queries, window: ChangeWindow): Promise<ChangePage> {
    const most = window.limit === undefined ? undefined : window.limit + 1;
    const live = await this.#readLive(tx, window, most ?? Number.POSITIVE_INFINITY);
    await this.#describeOlder(tx, window, live.rows);
    return classify(live, await this.#readGone(tx, window, most), {
      ...window,
      ids: this.#options.sources.ids,
    });
  }

  /** Reads from their sources what rows from before 0.3.0 lack. */
  async #describeOlder(tx: Queries, { mailboxId, base }: ChangeWindow, rows: readonly LiveRow[]) {
    for (const row of rows) {
      if (row.has_attachment !== null || row.created_modseq <= base) continue;
      const texts = await tx
        .selectFrom('messages')
        .select(['body_id', 'envelope', 'structure'])
        .where('mailbox_id', '=', mailboxId)
        .where('uid', '=', row.uid)
        .executeTakeFirst();
      if (texts) row.older = await describeOlder(this.#options.sources, texts);
    }
  }

  async #readLive(tx: Queries, window: ChangeWindow, most: number): Promise<TextRows<LiveRow>> {
    // Not by MODSEQ: a page that ends early must have the lowest UIDs first.
    if (hasTexts(window.fields)) return this.#readWithTexts(tx, window, most);
    // The index by MODSEQ has all that is requested. By UID each row would be read from its table page,
    // between those of other mailboxes.
    const isInIndex = window.base > 0 || window.fields.every((field) => field === 'flags');
    const rows =
      isInIndex && most === Number.POSITIVE_INFINITY
        ? await this.#readByModseq(tx, window)
        : await this.#readByUid(tx, window, most, window.fields);
    return { rows, fullAt: undefined };
  }

  /** The same with texts that may be long; only messages that are new to the client carry them. */
  async #readWithTexts(
    tx: Queries,
    window: ChangeWindow,
    most: number,
  ): Promise<TextRows<LiveRow>> {
    const { base, afterUid, newest, fields } = window;
    const changed = base > 0 ? await this.#readByUid(tx, window, most, []) : undefined;
    const added = changed?.filter((row) => row.created_modseq > base);
    const [first] = added ?? [];
    if (changed && !first) return { rows: changed, fullAt: undefined };
    const columns = columnsOf(fields);
    const { rows, fullAt } = await this.#texts.read(
      tx,
      this.#liveQuery('new by UID', fields, newest),
      textColumns.filter((column) => columns.has(column)),
      {
        ...window,
        afterUid: first ? first.uid - 1 : afterUid,
        most: added?.length ?? most,
        pageBytes: this.#options.pageBytes,
      },
    );
    const known = changed?.filter((row) => row.created_modseq <= base) ?? [];
    const compare = inOrder(newest);
    return { rows: [...known, ...rows].sort((a, b) => compare(a.uid, b.uid)), fullAt };
  }

  /** Existing messages, in the order of the page. */
  async #readByUid(
    tx: Queries,
    window: ChangeWindow,
    most: number,
    fields: readonly MessageField[],
  ): Promise<LiveRow[]> {
    const { mailboxId, base, snapshot, newest } = window;
    const query = this.#liveQuery(base > 0 ? 'changed by UID' : 'all by UID', fields, newest);
    const rows: LiveRow[] = [];
    let { afterUid } = window;
    while (rows.length < most) {
      if (rows.length > 0) await window.between();
      const size = Math.min(ROWS_AT_A_TIME, most - rows.length);
      const values = { mailboxId, snapshot, afterModseq: base, afterUid, most: size };
      const chunk = await query.all(tx, values);
      for (const row of chunk) rows.push(row);
      const last = chunk.at(-1);
      if (!last || chunk.length < size) break;
      afterUid = last.uid;
    }
    return rows;
  }

  /** The same where all of them are wanted: read in the order of the MODSEQ index, sorted afterwards. */
  async #readByModseq(tx: Queries, window: ChangeWindow): Promise<LiveRow[]> {
    const { mailboxId, base, snapshot, newest, fields } = window;
    const compare = inOrder(newest);
    const query = this.#liveQuery('changed by MODSEQ', fields);
    const rows: LiveRow[] = [];
    let after = { modseq: base, uid: UID_MAX };
    for (;;) {
      const [afterModseq, afterUid] = [after.modseq, after.uid];
      const values = { mailboxId, snapshot, afterModseq, afterUid, most: ROWS_AT_A_TIME };
      const chunk = await query.all(tx, values);
      for (const row of chunk) if (compare(row.uid, window.afterUid) > 0) rows.push(row);
      const last = chunk.at(-1);
      if (!last || chunk.length < ROWS_AT_A_TIME) break;
      after = last;
      await window.between();
    }
    return rows.sort((a, b) => compare(a.uid, b.uid));
  }

  /**
   * Removed messages, in the order of the page. What was removed after the snapshot is not in it: the next sync
   * reports its removal, whether the client got the message before or not.
   */
  async #readGone(tx: Queries, window: ChangeWindow, most: number | undefined) {
    const { mailboxId, base, snapshot, afterUid } = window;
    if (base === 0) return [];
    const values = { mailboxId, base, snapshot };
    if (most !== undefined) return goneInOrder.all(tx, { ...values, afterUid, most });
    const rows = await gone.all(tx, values);
    return rows.filter(({ uid }) => uid > afterUid).sort((a, b) => a.uid - b.uid);
  }

  #liveQuery(kind: LiveQuery, fields: readonly MessageField[], newest = false) {
    const columns = columnsOf(fields);
    // Every update carries the flags.
    if (kind === 'changed by UID' || kind === 'changed by MODSEQ') columns.add('flags');
    const key = `${kind} ${newest} ${[...columns].sort()}`;
    const known = this.#live.get(key);
    if (known) return known;
    const query = new PreparedQuery<WindowValues, LiveRow>((value) =>
      liveQuery(this.#options.queries, { kind, columns: [...columns], newest }, value),
    );
    this.#live.set(key, query);
    return query;
  }
}

/** Sorts the rows of a page into new, changed and removed for the client. */
async function classify(
  { rows: live, fullAt }: TextRows<LiveRow>,
  gone: readonly GoneRow[],
  window: ChangeWindow & { readonly ids: OpaqueIds },
): Promise<ChangePage> {
  const { limit, newest } = window;
  const compare = inOrder(newest);
  const isPast = (uid: number, end: number | undefined) =>
    end !== undefined && compare(uid, end) > 0;
  const ends = [fullAt, limit === undefined ? undefined : cutAt(live, gone, limit, compare)];
  // A page that is full in both senses ends at the lower of the two UIDs.
  const [cut] = ends.filter((end) => end !== undefined).sort(compare);
  const added: AddedMessage[] = [];
  const updated: UpdatedMessage[] = [];
  const removed: { uid: number }[] = [];
  let textLength = 0;
  let turnAt = TEXT_AT_A_TIME;
  for (const [index, row] of live.entries()) {
    if (isPast(row.uid, cut)) break;
    if (textLength >= turnAt || index % ROWS_AT_A_TIME === ROWS_AT_A_TIME - 1) {
      turnAt = textLength + TEXT_AT_A_TIME;
      await window.between();
    }
    textLength += lengthOf(row);
    if (row.created_modseq > window.base) added.push(addedMessage(row, window));
    else updated.push(updatedMessage(row));
  }
  for (const { uid } of gone) {
    if (isPast(uid, cut)) break;
    removed.push({ uid });
  }
  return { added, updated, removed, nextAfterUid: cut };
}

function lengthOf({ flags, envelope, structure }: LiveRow): number {
  return (flags?.length ?? 0) + (envelope?.length ?? 0) + (structure?.length ?? 0);
}

/** The last UID of a page of `limit` changes, or undefined where all of them fit. */
function cutAt(
  live: readonly { uid: number }[],
  gone: readonly { uid: number }[],
  limit: number,
  compare: (a: number, b: number) => number,
): number | undefined {
  if (live.length + gone.length <= limit) return undefined;
  const uids = [...live, ...gone].map(({ uid }) => uid).sort(compare);
  return uids[limit - 1];
}

function addedMessage(
  row: LiveRow,
  { fields, ids }: { readonly fields: readonly MessageField[]; readonly ids: OpaqueIds },
): AddedMessage {
  if (fields.length === 0) return { uid: row.uid };
  const wants = (field: MessageField) => fields.includes(field);
  const { preview = null, thread_id = null, has_attachment = null, body_id } = row;
  const description = row.older ?? readStored({ preview, thread_id, has_attachment });
  return {
    uid: row.uid,
    ...(wants('envelope') &&
      row.envelope !== undefined && { envelope: JSON.parse(row.envelope) as Envelope }),
    ...(wants('flags') &&
      row.flags !== undefined && {
        flags: flagsFromText(row.flags),
        modseq: String(row.modseq),
      }),
    ...(wants('size') && row.size !== undefined && { size: row.size }),
    ...(wants('internalDate') &&
      row.internal_date !== undefined && {
        internalDate: new Date(row.internal_date).toISOString(),
      }),
    ...(wants('bodyStructure') &&
      row.structure !== undefined && {
        bodyStructure: toBodyStructure(JSON.parse(row.structure) as MessagePart),
      }),
    ...(wants('preview') && description && { preview: description.preview }),
    ...(wants('threadId') && description && { threadId: description.threadId }),
    ...(wants('emailId') && body_id !== undefined && { emailId: ids.nameBody(body_id) }),
    ...(wants('hasAttachment') && description && { hasAttachment: description.hasAttachment }),
  };
}

function updatedMessage({ uid, modseq, flags }: LiveRow): UpdatedMessage {
  return { uid, modseq: String(modseq), flags: flagsFromText(flags ?? '') };
}
