/**
 * What changed in a mailbox since a MODSEQ.
 *
 * A client that has state `base` is brought to state `snapshot`: what came after `base` is added,
 * what it knows and was changed is updated, what it knew and is gone is removed. What came and went
 * in between it never hears of. The cost follows the number of changes, not the mailbox's size.
 */
import { sql } from 'kysely';
import type { Queries } from '../../database/database.ts';
import { type Envelope, type MessagePart, toBodyStructure } from '../../message/message.ts';
import { flagsFromText } from '../flags.ts';
import type { AddedMessage, MessageField, UpdatedMessage } from '../store.ts';

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

/** Rows read in one go: keeps a sync of a huge mailbox from holding the thread. */
const ROWS_AT_A_TIME = 5_000;

const columnOfField = {
  envelope: 'envelope',
  flags: 'flags',
  size: 'size',
  internalDate: 'internal_date',
  bodyStructure: 'structure',
} as const satisfies Record<MessageField, string>;

/** Reads one page of changes; `tx` is one state of the database throughout. */
export async function readChanges(tx: Queries, window: ChangeWindow): Promise<ChangePage> {
  const most = window.limit === undefined ? Number.POSITIVE_INFINITY : window.limit + 1;
  const live = await readLive(tx, window, most);
  const gone = await readGone(tx, window, most);
  const cut = window.limit === undefined ? undefined : cutAt(live, gone, window.limit);
  const added: AddedMessage[] = [];
  const updated: UpdatedMessage[] = [];
  const removed: { uid: number }[] = [];
  for (const [index, row] of live.entries()) {
    if (cut !== undefined && row.uid > cut) break;
    if (index % ROWS_AT_A_TIME === ROWS_AT_A_TIME - 1) await turn();
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

/** Lets everybody else have a turn of the event loop. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Messages that are there, in the order of their UIDs. */
async function readLive(tx: Queries, window: ChangeWindow, most: number): Promise<LiveRow[]> {
  const rows: LiveRow[] = [];
  let after = window.afterUid;
  while (rows.length < most) {
    const size = Math.min(ROWS_AT_A_TIME, most - rows.length);
    const chunk: LiveRow[] = await liveQuery(tx, window, after).limit(size).execute();
    for (const row of chunk) rows.push(row);
    const last = chunk.at(-1);
    if (!last || chunk.length < size) break;
    after = last.uid;
    await turn();
  }
  return rows;
}

/** The messages that a page tells of. */
export function liveQuery(
  tx: Queries,
  { mailboxId, base, snapshot, fields }: ChangeWindow,
  after: number,
) {
  const wanted = new Set(fields.map((field) => columnOfField[field]));
  // Flags are part of every update.
  if (base > 0) wanted.add('flags');
  const query = tx
    .selectFrom('messages')
    .select(['uid', 'created_modseq', 'modseq', ...wanted])
    .where('mailbox_id', '=', mailboxId)
    .where('created_modseq', '<=', snapshot);
  if (base === 0) return query.where('uid', '>', after).orderBy('uid');
  // The expression keeps both engines from walking the mailbox by UID, which costs its size: this
  // is read by MODSEQ, which costs the changes, and those are sorted.
  const uid = sql<number>`uid + 0`;
  return query.where('modseq', '>', base).where(uid, '>', after).orderBy(uid);
}

/**
 * Messages that are gone, in the order of their UIDs: those that the client knew, and those that
 * were still there in the state it is being brought to (a paged sync whose snapshot is past: the
 * next sync tells of their removal, so this one has to tell of their existence).
 */
async function readGone(tx: Queries, window: ChangeWindow, most: number) {
  const { mailboxId, base, snapshot, afterUid } = window;
  const query = tx
    .selectFrom('tombstones')
    .select(['uid', 'created_modseq'])
    .where('mailbox_id', '=', mailboxId)
    .where('modseq', '>', base === 0 ? snapshot : base)
    .where('created_modseq', '<=', snapshot)
    .where('uid', '>', afterUid)
    .where(({ eb, or, and }) =>
      or([
        and([eb('created_modseq', '<=', base), eb('modseq', '<=', snapshot)]),
        and([eb('created_modseq', '>', base), eb('modseq', '>', snapshot)]),
      ]),
    )
    .orderBy('uid');
  return most === Number.POSITIVE_INFINITY ? query.execute() : query.limit(most).execute();
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
