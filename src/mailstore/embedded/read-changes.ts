/**
 * What changed in a mailbox since a MODSEQ.
 *
 * A client that has state `base` is brought to state `snapshot`: what came after `base` is added,
 * what it knows and was changed is updated, what it knew and is gone is removed. What came and went
 * in between it never hears of. The cost follows the number of changes, not the mailbox's size.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { sql } from 'kysely';
import { PreparedQuery, type Queries, type Row } from '../../database/database.ts';
import { type Envelope, type MessagePart, toBodyStructure } from '../../message/message.ts';
import { flagsFromText } from '../flags.ts';
import { type AddedMessage, hasTexts, type MessageField, type UpdatedMessage } from '../store.ts';
import {
  TEXT_AT_A_TIME,
  TextReader,
  type TextRows,
  textColumns,
  type WindowValues,
} from './read-texts.ts';

export interface ChangeWindow {
  readonly mailboxId: number;
  /** 0: the client has nothing yet. */
  readonly base: number;
  readonly snapshot: number;
  /** The client has all changes up to this UID. */
  readonly afterUid: number;
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

interface LiveRow {
  uid: number;
  created_modseq: number;
  modseq: number;
  flags?: string;
  size?: number;
  internal_date?: number;
  envelope?: string;
  structure?: string;
}

type GoneRow = Pick<Row<'tombstones'>, 'uid' | 'created_modseq' | 'modseq'>;

/** Which messages are read, and in which order: see {@link liveQuery}. */
type LiveQuery = 'all by UID' | 'new by UID' | 'changed by UID' | 'changed by MODSEQ';

/** RFC 3501 section 2.3.1.1. */
const UID_MAX = 4_294_967_295;

/** Rows read in one go: keeps a sync of a huge mailbox from holding the thread. */
const ROWS_AT_A_TIME = 5_000;

const columnOfField = {
  envelope: 'envelope',
  flags: 'flags',
  size: 'size',
  internalDate: 'internal_date',
  bodyStructure: 'structure',
} as const satisfies Record<MessageField, string>;

type LiveColumn = (typeof columnOfField)[MessageField];

/** Reads changes with queries that are compiled once. */
export class ChangeReader {
  readonly #queries: Queries;
  readonly #pageBytes: number;
  readonly #texts: TextReader;
  readonly #live = new Map<string, PreparedQuery<WindowValues, LiveRow>>();
  readonly #gone: PreparedQuery<GoneValues, GoneRow>;
  readonly #goneInOrder: PreparedQuery<GoneInOrderValues, GoneRow>;

  /** @param pageBytes octets of envelopes and structures in one page */
  constructor(queries: Queries, pageBytes: number) {
    this.#queries = queries;
    this.#pageBytes = pageBytes;
    this.#texts = new TextReader(queries);
    this.#gone = new PreparedQuery((value) => goneQuery(queries, value));
    this.#goneInOrder = new PreparedQuery((value) => goneInOrderQuery(queries, value));
  }

  /** Reads one page of changes; `tx` is one state of the database throughout. */
  async read(tx: Queries, window: ChangeWindow): Promise<ChangePage> {
    const most = window.limit === undefined ? undefined : window.limit + 1;
    const live = await this.#readLive(tx, window, most ?? Number.POSITIVE_INFINITY);
    return classify(live, await this.#readGone(tx, window, most), window);
  }

  async #readLive(tx: Queries, window: ChangeWindow, most: number): Promise<TextRows<LiveRow>> {
    // Not by MODSEQ: what a page that ends early has to have first are the lowest UIDs.
    if (hasTexts(window.fields)) return this.#readWithTexts(tx, window, most);
    // The index by MODSEQ has all that is asked for. By UID each row would be looked up where it lies,
    // between those of other mailboxes.
    const isInIndex = window.base > 0 || window.fields.every((field) => field === 'flags');
    const rows =
      isInIndex && most === Number.POSITIVE_INFINITY
        ? await this.#readByModseq(tx, window)
        : await this.#readByUid(tx, window, most, window.fields);
    return { rows, fullAt: undefined };
  }

  /** The same with texts that may be long, which only what is new to the client has to have. */
  async #readWithTexts(
    tx: Queries,
    window: ChangeWindow,
    most: number,
  ): Promise<TextRows<LiveRow>> {
    const { base, afterUid, fields } = window;
    const changed = base > 0 ? await this.#readByUid(tx, window, most, []) : undefined;
    const added = changed?.filter((row) => row.created_modseq > base);
    const [first] = added ?? [];
    if (changed && !first) return { rows: changed, fullAt: undefined };
    const columns = new Set<LiveColumn>(fields.map((field) => columnOfField[field]));
    const { rows, fullAt } = await this.#texts.read(
      tx,
      this.#liveQuery('new by UID', fields),
      textColumns.filter((column) => columns.has(column)),
      {
        ...window,
        afterUid: first ? first.uid - 1 : afterUid,
        most: added?.length ?? most,
        pageBytes: this.#pageBytes,
      },
    );
    const known = changed?.filter((row) => row.created_modseq <= base) ?? [];
    return { rows: [...known, ...rows].sort(byUid), fullAt };
  }

  /** Messages that are there, in the order of their UIDs. */
  async #readByUid(
    tx: Queries,
    window: ChangeWindow,
    most: number,
    fields: readonly MessageField[],
  ): Promise<LiveRow[]> {
    const { mailboxId, base, snapshot } = window;
    const query = this.#liveQuery(base > 0 ? 'changed by UID' : 'all by UID', fields);
    const rows: LiveRow[] = [];
    let { afterUid } = window;
    while (rows.length < most) {
      const size = Math.min(ROWS_AT_A_TIME, most - rows.length);
      const values = { mailboxId, snapshot, afterModseq: base, afterUid, most: size };
      const chunk = await query.all(tx, values);
      for (const row of chunk) rows.push(row);
      const last = chunk.at(-1);
      if (!last || chunk.length < size) break;
      afterUid = last.uid;
      await turn();
    }
    return rows;
  }

  /** The same where all of them are wanted: as they lie in the index by MODSEQ, sorted afterwards. */
  async #readByModseq(tx: Queries, window: ChangeWindow): Promise<LiveRow[]> {
    const { mailboxId, base, snapshot, fields } = window;
    const query = this.#liveQuery('changed by MODSEQ', fields);
    const rows: LiveRow[] = [];
    let after = { modseq: base, uid: UID_MAX };
    for (;;) {
      const [afterModseq, afterUid] = [after.modseq, after.uid];
      const values = { mailboxId, snapshot, afterModseq, afterUid, most: ROWS_AT_A_TIME };
      const chunk = await query.all(tx, values);
      for (const row of chunk) if (row.uid > window.afterUid) rows.push(row);
      const last = chunk.at(-1);
      if (!last || chunk.length < ROWS_AT_A_TIME) break;
      after = last;
      await turn();
    }
    return rows.sort(byUid);
  }

  /**
   * Messages that are gone, in the order of their UIDs: those that the client knew, and those that
   * were still there in the state it is being brought to (a paged sync whose snapshot is past: the
   * next sync tells of their removal, so this one has to tell of their existence).
   */
  async #readGone(tx: Queries, window: ChangeWindow, most: number | undefined) {
    const { mailboxId, base, snapshot, afterUid } = window;
    const values = { mailboxId, goneAfter: base === 0 ? snapshot : base, snapshot };
    if (most !== undefined) {
      return this.#goneInOrder.all(tx, { ...values, base, afterUid, most });
    }
    const rows = await this.#gone.all(tx, values);
    return rows
      .filter(({ uid, created_modseq, modseq }) => {
        return uid > afterUid && created_modseq <= base === modseq <= snapshot;
      })
      .sort(byUid);
  }

  #liveQuery(kind: LiveQuery, fields: readonly MessageField[]) {
    const columns = new Set<LiveColumn>(fields.map((field) => columnOfField[field]));
    // Flags are part of every update.
    if (kind === 'changed by UID' || kind === 'changed by MODSEQ') columns.add('flags');
    const key = `${kind} ${[...columns].sort()}`;
    const known = this.#live.get(key);
    if (known) return known;
    const query = new PreparedQuery<WindowValues, LiveRow>((value) =>
      liveQuery(this.#queries, kind, [...columns], value),
    );
    this.#live.set(key, query);
    return query;
  }
}

function byUid(a: { uid: number }, b: { uid: number }): number {
  return a.uid - b.uid;
}

/** Sorts what a page has read into what is new, changed and gone to the client. */
async function classify(
  { rows: live, fullAt }: TextRows<LiveRow>,
  gone: readonly GoneRow[],
  window: ChangeWindow,
): Promise<ChangePage> {
  const { limit } = window;
  const cut = firstOf(fullAt, limit === undefined ? undefined : cutAt(live, gone, limit));
  const added: AddedMessage[] = [];
  const updated: UpdatedMessage[] = [];
  const removed: { uid: number }[] = [];
  let textLength = 0;
  let turnAt = TEXT_AT_A_TIME;
  for (const [index, row] of live.entries()) {
    if (cut !== undefined && row.uid > cut) break;
    if (textLength >= turnAt || index % ROWS_AT_A_TIME === ROWS_AT_A_TIME - 1) {
      turnAt = textLength + TEXT_AT_A_TIME;
      await turn();
    }
    textLength += lengthOf(row);
    if (row.created_modseq > window.base) added.push(addedMessage(row, window.fields));
    else updated.push(updatedMessage(row));
  }
  for (const { uid, created_modseq } of gone) {
    if (cut !== undefined && uid > cut) break;
    if (created_modseq <= window.base) removed.push({ uid });
    else added.push({ uid });
  }
  if (gone.length > 0) added.sort((a, b) => a.uid - b.uid);
  return { added, updated, removed, nextAfterUid: cut };
}

function lengthOf({ flags, envelope, structure }: LiveRow): number {
  return (flags?.length ?? 0) + (envelope?.length ?? 0) + (structure?.length ?? 0);
}

/** A page that is full in both senses ends where it was full first. */
function firstOf(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

/**
 * The messages of a mailbox that are in its state `snapshot`:
 * - `all by UID`: those after a UID;
 * - `new by UID`: of these, those that came after `afterModseq`;
 * - `changed by UID`: of these, those that came or were changed after `afterModseq`;
 * - `changed by MODSEQ`: those whose MODSEQ and UID come after `afterModseq` and `afterUid`, a pair.
 */
export function liveQuery(
  queries: Queries,
  kind: LiveQuery,
  columns: readonly LiveColumn[],
  { mailboxId, snapshot, afterModseq, afterUid, most }: WindowValues,
) {
  const query = queries
    .selectFrom('messages')
    .select(['uid', 'created_modseq', 'modseq', ...columns])
    .where('mailbox_id', '=', mailboxId)
    .where('created_modseq', '<=', snapshot)
    .limit(most);
  if (kind === 'all by UID') return query.where('uid', '>', afterUid).orderBy('uid');
  if (kind === 'new by UID') {
    const isNew = query.where('created_modseq', '>', afterModseq);
    return isNew.where('uid', '>', afterUid).orderBy('uid');
  }
  if (kind === 'changed by MODSEQ') {
    const isAfter = sql<boolean>`(modseq, uid) > (${afterModseq}, ${afterUid})`;
    return query.where(isAfter).orderBy('modseq').orderBy('uid');
  }
  // The expression keeps both engines from walking the mailbox by UID, which costs its size: this
  // is read by MODSEQ, which costs the changes, and those are sorted.
  const uid = sql<number>`uid + ${sql.lit(0)}`;
  return query.where('modseq', '>', afterModseq).where(uid, '>', afterUid).orderBy(uid);
}

interface GoneValues {
  readonly mailboxId: number;
  readonly goneAfter: number;
  readonly snapshot: number;
}

/** Messages that went after one state and had come by another. */
function goneQuery(queries: Queries, { mailboxId, goneAfter, snapshot }: GoneValues) {
  return queries
    .selectFrom('tombstones')
    .select(['uid', 'created_modseq', 'modseq'])
    .where('mailbox_id', '=', mailboxId)
    .where('modseq', '>', goneAfter)
    .where('created_modseq', '<=', snapshot);
}

interface GoneInOrderValues extends GoneValues {
  readonly base: number;
  readonly afterUid: number;
  readonly most: number;
}

/**
 * Of these the first after a UID that the client has to hear of: those that it knew (they came by `base`)
 * and that were gone by `snapshot`, and those that it did not know and that were still there.
 */
function goneInOrderQuery(queries: Queries, values: GoneInOrderValues) {
  const { base, snapshot, afterUid, most } = values;
  return goneQuery(queries, values)
    .where('uid', '>', afterUid)
    .where(({ eb, or, and }) =>
      or([
        and([eb('created_modseq', '<=', base), eb('modseq', '<=', snapshot)]),
        and([eb('created_modseq', '>', base), eb('modseq', '>', snapshot)]),
      ]),
    )
    .orderBy('uid')
    .limit(most);
}

/** The last UID of a page of `limit` changes, or undefined where all of them fit. */
function cutAt(
  live: readonly { uid: number }[],
  gone: readonly { uid: number }[],
  limit: number,
): number | undefined {
  if (live.length + gone.length <= limit) return undefined;
  const uids = [...live, ...gone].map(({ uid }) => uid).sort((a, b) => a - b);
  return uids[limit - 1];
}

function addedMessage(row: LiveRow, fields: readonly MessageField[]): AddedMessage {
  if (fields.length === 0) return { uid: row.uid };
  const wants = (field: MessageField) => fields.includes(field);
  return {
    uid: row.uid,
    ...(wants('envelope') &&
      row.envelope !== undefined && { envelope: JSON.parse(row.envelope) as Envelope }),
    ...(wants('flags') && row.flags !== undefined && { flags: flagsFromText(row.flags) }),
    ...(wants('size') && row.size !== undefined && { size: row.size }),
    ...(wants('internalDate') &&
      row.internal_date !== undefined && {
        internalDate: new Date(row.internal_date).toISOString(),
      }),
    ...(wants('bodyStructure') &&
      row.structure !== undefined && {
        bodyStructure: toBodyStructure(JSON.parse(row.structure) as MessagePart),
      }),
  };
}

function updatedMessage({ uid, modseq, flags }: LiveRow): UpdatedMessage {
  return { uid, modseq: String(modseq), flags: flagsFromText(flags ?? '') };
}
