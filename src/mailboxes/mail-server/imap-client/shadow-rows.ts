/**
 * Rows of the shadow: the last known state of a mailbox (`shadow_mailboxes`), its messages (`shadow_messages`), and
 * removed ones (`shadow_tombstones`), each with the synthetic MODSEQ of the refresh that saw it. Reads have the same
 * meaning as in the embedded store (`mailstore/read-changes.ts`).
 */
import {
  chunks,
  type Database,
  type Queries,
  type Row,
} from '../../../platform/database/database.ts';
import { Refusal } from '../../../platform/errors/errors.ts';
import type { EpochMs } from '../../../platform/time/time.ts';
import { flagsFromText, type MailUser, marked } from '../../mailstore/mailstore.ts';
import type { SyncState } from './token.ts';

export type ShadowRow = Row<'shadow_mailboxes'>;

/** The state of a mailbox on the server at one moment. */
export interface Seen {
  readonly uidvalidity: string;
  readonly uidnext: number;
  /** Flags by UID, as `flagsToText` writes them. */
  readonly messages: ReadonlyMap<number, string>;
}

export const shadowTombstones = {
  mailboxes: 'shadow_mailboxes',
  forgotten: 'oldest_modseq',
  tombstones: 'shadow_tombstones',
  mailboxId: 'shadow_id',
};

export function shadowState({ modseq, uidnext, messages }: ShadowRow): SyncState {
  return { modseq: BigInt(modseq), uidnext, count: messages };
}

export function findShadow(
  queries: Queries,
  user: MailUser,
  mailbox: string,
): Promise<ShadowRow | undefined> {
  return queries
    .selectFrom('shadow_mailboxes')
    .selectAll()
    .where('account_id', '=', user.accountId)
    .where('name', '=', mailbox)
    .executeTakeFirst();
}

export function listShadows(queries: Queries, user: MailUser): Promise<ShadowRow[]> {
  return queries
    .selectFrom('shadow_mailboxes')
    .selectAll()
    .where('account_id', '=', user.accountId)
    .execute();
}

export async function dropShadow(
  database: Database,
  user: MailUser,
  mailbox: string,
): Promise<void> {
  const shadow = await findShadow(database.read, user, mailbox);
  if (shadow) await database.write((tx) => markShadow(tx, shadow.id));
}

/** A shadow with its messages by UID. */
export interface KnownShadow {
  readonly row: ShadowRow;
  readonly messages: ReadonlyMap<number, Pick<Row<'shadow_messages'>, 'created_modseq' | 'flags'>>;
}

/** Reads the messages of a shadow. @returns undefined where it has changed since `row` was read */
export function readKnown(database: Database, row: ShadowRow): Promise<KnownShadow | undefined> {
  return database.snapshot(async (queries) => {
    const now = await queries
      .selectFrom('shadow_mailboxes')
      .select(['modseq', 'uidvalidity'])
      .where('id', '=', row.id)
      .executeTakeFirst();
    if (now?.modseq !== row.modseq || now.uidvalidity !== row.uidvalidity) return undefined;
    const messages = await queries
      .selectFrom('shadow_messages')
      .select(['uid', 'created_modseq', 'flags'])
      .where('shadow_id', '=', row.id)
      .execute();
    return { row, messages: new Map(messages.map((message) => [message.uid, message])) };
  });
}

/** The differences between the server and the shadow. */
export interface Differences {
  readonly added: readonly (readonly [uid: number, flags: string])[];
  readonly changed: readonly (readonly [uid: number, flags: string])[];
  readonly gone: readonly { readonly uid: number; readonly created_modseq: number }[];
}

export function findDifferences(known: KnownShadow | undefined, seen: Seen): Differences {
  // Under another UIDVALIDITY it is another mailbox (RFC 3501 section 2.3.1.1).
  const isSame = known?.row.uidvalidity === seen.uidvalidity;
  const messages: KnownShadow['messages'] = isSame ? known.messages : new Map();
  const added: [number, string][] = [];
  const changed: [number, string][] = [];
  for (const [uid, flags] of seen.messages) {
    const before = messages.get(uid);
    if (!before) added.push([uid, flags]);
    else if (before.flags !== flags) changed.push([uid, flags]);
  }
  const gone: { uid: number; created_modseq: number }[] = [];
  for (const [uid, { created_modseq }] of messages) {
    if (!seen.messages.has(uid)) gone.push({ uid, created_modseq });
  }
  return { added, changed, gone };
}

export function isEmpty({ added, changed, gone }: Differences): boolean {
  return added.length + changed.length + gone.length === 0;
}

/** Whether the row also has the state that was seen. */
export function isUpToDate(row: ShadowRow, seen: Seen): boolean {
  return row.uidvalidity === seen.uidvalidity && row.uidnext >= seen.uidnext;
}

/**
 * Locks the row until the commit, if it has not changed since `before` was read, and notes the server's history.
 *
 * @returns whether the history is the same; undefined where the row has changed
 */
async function lockUnchanged(
  tx: Queries,
  before: ShadowRow,
  timeline: Database['timeline'],
): Promise<boolean | undefined> {
  const row = await tx
    .updateTable('shadow_mailboxes')
    .set({ modseq: before.modseq, ...(timeline && { timeline }) })
    .where('id', '=', before.id)
    .where('modseq', '=', before.modseq)
    .where('uidvalidity', '=', before.uidvalidity)
    .returning('timeline')
    .executeTakeFirst();
  return row && (before.timeline === 0 || before.timeline === row.timeline);
}

export interface WriteShadow {
  readonly user: MailUser;
  readonly mailbox: string;
  /** The row before the server was asked. */
  readonly before: ShadowRow | undefined;
  readonly seen: Seen;
  readonly differences: Differences;
  readonly now: EpochMs;
  readonly timeline: Database['timeline'];
}

/**
 * Updates the shadow to the state that was seen.
 *
 * @returns undefined where another session has updated it since `before`: our state may be older than theirs, so the
 *   server has to be asked again
 */
export async function writeShadow(
  tx: Queries,
  { user, mailbox, before, seen, differences, now, timeline }: WriteShadow,
): Promise<ShadowRow | undefined> {
  if (!before) {
    // This write makes a deletion of the account wait; the deletion then finds the shadow.
    const account = await tx
      .updateTable('accounts')
      .set((eb) => ({ status: eb.ref('status') }))
      .where('id', '=', user.accountId)
      .returning('id')
      .executeTakeFirst();
    if (!account) throw new Refusal('account_not_found', `there is no account ${user.address}`);
    const made = await tx
      .insertInto('shadow_mailboxes')
      .values({
        account_id: user.accountId,
        name: mailbox,
        ...columnsOf(seen),
        modseq: now,
        oldest_modseq: now,
        ...(timeline && { timeline }),
      })
      .onConflict((conflict) => conflict.columns(['account_id', 'name']).doNothing())
      .returningAll()
      .executeTakeFirst();
    if (made) await insertMessages(tx, made.id, now, differences.added);
    return made;
  }
  const isSameHistory = await lockUnchanged(tx, before, timeline);
  if (isSameHistory === undefined) return undefined;
  const { id } = before;
  const later = Math.max(now, before.modseq + 1);
  if (before.uidvalidity !== seen.uidvalidity) {
    const modseq = later;
    for (const table of ['shadow_messages', 'shadow_tombstones'] as const) {
      await tx.deleteFrom(table).where('shadow_id', '=', id).execute();
    }
    await insertMessages(tx, id, modseq, differences.added);
    return update(tx, id, { ...columnsOf(seen), modseq, oldest_modseq: modseq });
  }
  const { added, changed, gone } = differences;
  const next = isEmpty(differences) ? before.modseq : before.modseq + 1;
  const modseq = isSameHistory ? next : later;
  await insertMessages(tx, id, modseq, added);
  await updateFlags(tx, id, modseq, changed);
  await removeMessages(tx, id, modseq, gone, now);
  const uidnext = Math.max(before.uidnext, seen.uidnext);
  // After a failover it is unknown which tokens include changes that it lost: all get a reset.
  const oldest = isSameHistory ? {} : { oldest_modseq: modseq };
  return update(tx, id, { ...columnsOf(seen), uidnext, modseq, ...oldest });
}

function update(
  tx: Queries,
  id: number,
  columns: Partial<Omit<ShadowRow, 'id' | 'account_id' | 'name'>>,
): Promise<ShadowRow> {
  return tx
    .updateTable('shadow_mailboxes')
    .set(columns)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

function columnsOf(seen: Seen) {
  const { uidvalidity, uidnext, messages } = seen;
  let unseen = 0;
  for (const flags of messages.values()) {
    if (!flagsFromText(flags).includes('\\Seen')) unseen++;
  }
  return { uidvalidity, uidnext, messages: messages.size, unseen };
}

async function insertMessages(
  tx: Queries,
  shadow_id: number,
  modseq: number,
  messages: Differences['added'],
): Promise<void> {
  for (const some of chunks(messages)) {
    const rows = some.map(([uid, flags]) => ({
      shadow_id,
      uid,
      created_modseq: modseq,
      modseq,
      flags,
    }));
    await tx.insertInto('shadow_messages').values(rows).execute();
  }
}

async function updateFlags(
  tx: Queries,
  shadowId: number,
  modseq: number,
  changed: Differences['changed'],
): Promise<void> {
  for (const [uid, flags] of changed) {
    await tx
      .updateTable('shadow_messages')
      .set({ flags, modseq })
      .where('shadow_id', '=', shadowId)
      .where('uid', '=', uid)
      .execute();
  }
}

async function removeMessages(
  tx: Queries,
  shadow_id: number,
  modseq: number,
  gone: Differences['gone'],
  now: number,
): Promise<void> {
  for (const some of chunks(gone)) {
    const rows = some.map(({ uid, created_modseq }) => ({
      shadow_id,
      uid,
      created_modseq,
      modseq,
      expunged_at: now,
    }));
    await tx
      .deleteFrom('shadow_messages')
      .where('shadow_id', '=', shadow_id)
      .where(
        'uid',
        'in',
        some.map(({ uid }) => uid),
      )
      .execute();
    await tx.insertInto('shadow_tombstones').values(rows).execute();
  }
}

/*
 * Removes shadows of mailboxes in short transactions. A dropped shadow keeps its row, with the account's id negated
 * and a new name, until its messages are removed; so no query finds it.
 */

/** Rows that are removed in one transaction. */
const ROWS_AT_A_TIME = 500;

/** Marks one shadow as deleted, in the caller's transaction. */
async function markShadow(tx: Queries, id: number): Promise<void> {
  await tx.updateTable('shadow_mailboxes').set(marked).where('id', '=', id).execute();
}

/** Marks the shadows of deleted accounts as deleted. */
export async function markShadowsOf(tx: Queries, accountIds: readonly number[]): Promise<void> {
  await tx
    .updateTable('shadow_mailboxes')
    .set(marked)
    .where('account_id', 'in', accountIds)
    .execute();
}

/** Drops all shadows: those of a restored database may be older than what apps have seen. */
export async function markAllShadows(tx: Queries): Promise<void> {
  await tx.updateTable('shadow_mailboxes').set(marked).where('account_id', '>', 0).execute();
}

/**
 * Removes a part of what dropped shadows have, in one transaction.
 *
 * @returns false where nothing is left
 */
export function purgeShadows(database: Database): Promise<boolean> {
  return database.write(async (tx) => {
    const shadow = await tx
      .selectFrom('shadow_mailboxes')
      .select('id')
      .where('account_id', '<', 0)
      .limit(1)
      // A transaction that still writes to it waits, and then finds it dropped.
      .forUpdate()
      .executeTakeFirst();
    if (!shadow) return false;
    for (const table of ['shadow_messages', 'shadow_tombstones'] as const) {
      const rows = await tx
        .selectFrom(table)
        .select('uid')
        .where('shadow_id', '=', shadow.id)
        .limit(ROWS_AT_A_TIME)
        .execute();
      if (rows.length === 0) continue;
      const uids = rows.map(({ uid }) => uid);
      await tx
        .deleteFrom(table)
        .where('shadow_id', '=', shadow.id)
        .where('uid', 'in', uids)
        .execute();
      return true;
    }
    await tx.deleteFrom('shadow_mailboxes').where('id', '=', shadow.id).execute();
    return true;
  });
}
