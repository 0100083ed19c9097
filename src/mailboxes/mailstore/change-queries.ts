/**
 * The queries that a sync of a mailbox uses.
 *
 * A page goes by UIDs, upwards, or downwards where the newest come first: then `afterUid` is the lowest
 * UID that the client has, and the page is below it.
 */
import { sql } from 'kysely';
import type { Queries, Row } from '../../platform/database/database.ts';
import type { WindowValues } from './read-texts.ts';
import type { Description, MessageField } from './store.ts';

/** Compares UIDs in the order of a page. @param newest whether the highest comes first */
export function inOrder(newest: boolean): (a: number, b: number) => number {
  return newest ? (a, b) => b - a : (a, b) => a - b;
}

export type GoneRow = Pick<Row<'tombstones'>, 'uid'>;

/** Which messages are read, and in which order: see {@link liveQuery}. */
export type LiveQuery = 'all by UID' | 'new by UID' | 'changed by UID' | 'changed by MODSEQ';

/** What `readStored` of older-messages.ts reads. */
const descriptionColumns = ['preview', 'thread_id', 'has_attachment'] as const;

const columnsOfField = {
  envelope: ['envelope'],
  flags: ['flags'],
  size: ['size'],
  internalDate: ['internal_date'],
  bodyStructure: ['structure'],
  preview: descriptionColumns,
  threadId: descriptionColumns,
  emailId: ['body_id'],
  hasAttachment: descriptionColumns,
} as const satisfies Record<MessageField, readonly string[]>;

export type LiveColumn = (typeof columnsOfField)[MessageField][number];

/** A message in the mailbox, with the requested columns. */
export interface LiveRow
  extends Pick<Row<'messages'>, 'uid' | 'created_modseq' | 'modseq'>,
    Partial<Pick<Row<'messages'>, LiveColumn>> {
  /** Set where the row was written before 0.3.0. */
  older?: Description;
}

export function columnsOf(fields: readonly MessageField[]): Set<LiveColumn> {
  return new Set(fields.flatMap((field) => columnsOfField[field]));
}

export interface LiveQueryShape {
  readonly kind: LiveQuery;
  readonly columns: readonly LiveColumn[];
  /** Downwards; only for the first two kinds. */
  readonly newest: boolean;
}

/**
 * The messages of a mailbox in its state `snapshot`:
 * - `all by UID`: those after a UID;
 * - `new by UID`: of these, those that came after `afterModseq`;
 * - `changed by UID`: of these, those that came or were changed after `afterModseq`;
 * - `changed by MODSEQ`: those whose MODSEQ and UID come after `afterModseq` and `afterUid`, a pair.
 */
export function liveQuery(
  queries: Queries,
  { kind, columns, newest }: LiveQueryShape,
  { mailboxId, snapshot, afterModseq, afterUid, most }: WindowValues,
) {
  const [is, direction] = newest ? (['<', 'desc'] as const) : (['>', 'asc'] as const);
  const query = queries
    .selectFrom('messages')
    .select(['uid', 'created_modseq', 'modseq', ...columns])
    .where('mailbox_id', '=', mailboxId)
    .where('created_modseq', '<=', snapshot)
    .limit(most);
  if (kind === 'all by UID') return query.where('uid', is, afterUid).orderBy('uid', direction);
  if (kind === 'new by UID') {
    const isNew = query.where('created_modseq', '>', afterModseq);
    return isNew.where('uid', is, afterUid).orderBy('uid', direction);
  }
  if (kind === 'changed by MODSEQ') {
    const isAfter = sql<boolean>`(modseq, uid) > (${afterModseq}, ${afterUid})`;
    return query.where(isAfter).orderBy('modseq').orderBy('uid');
  }
  // The expression keeps both engines from reading the mailbox by UID, whose cost is the size of the mailbox.
  // This reads by MODSEQ, whose cost is the number of changes, and sorts those.
  const uid = sql<number>`uid + ${sql.lit(0)}`;
  return query.where('modseq', '>', afterModseq).where(uid, '>', afterUid).orderBy(uid);
}

export interface GoneValues {
  readonly mailboxId: number;
  readonly base: number;
  readonly snapshot: number;
}

/** Messages that the client knew, since they came by `base`, and that were removed by `snapshot`. */
export function goneQuery(queries: Queries, { mailboxId, base, snapshot }: GoneValues) {
  return queries
    .selectFrom('tombstones')
    .select('uid')
    .where('mailbox_id', '=', mailboxId)
    .where('modseq', '>', base)
    .where('modseq', '<=', snapshot)
    .where('created_modseq', '<=', base);
}

export interface GoneInOrderValues extends GoneValues {
  readonly afterUid: number;
  readonly most: number;
}

/** Of these, the first after a UID. */
export function goneInOrderQuery(queries: Queries, values: GoneInOrderValues) {
  const { afterUid, most } = values;
  return goneQuery(queries, values).where('uid', '>', afterUid).orderBy('uid').limit(most);
}
