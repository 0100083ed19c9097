/**
 * Removes what no client sees any more, in short transactions: deleted mailboxes with their messages, and old
 * tombstones.
 *
 * A deleted mailbox keeps its row, with the account's id negated and a new name: so no query finds it, its old
 * name is free, and it is known whose mail is still to be removed. The row is removed last. After a crash the
 * next step continues from the last commit.
 */
import { sql } from 'kysely';
import type { Database, Queries } from '../../platform/database/database.ts';
import type { Bodies } from '../bodies/bodies.ts';
import { enqueueSearch } from '../search/search.ts';
import { forgetInSearch } from './search-source.ts';

/**
 * Messages or tombstones that one transaction removes: so few that neither it nor the query holds the thread
 * for long.
 */
const ROWS_AT_A_TIME = 200;
/** Octets of their sources: to free a source that lies in its row, SQLite reads all of its pages. */
const OCTETS_AT_A_TIME = 4 * 1024 * 1024;

/** What marks a mailbox as deleted. */
export const marked = {
  account_id: sql<number>`-account_id`,
  name: sql<string>`'#' || id`,
};

/** Marks one mailbox as deleted, in the caller's transaction. */
export async function markMailbox(tx: Queries, id: number): Promise<void> {
  await tx.updateTable('mailboxes').set(marked).where('id', '=', id).execute();
}

/** Marks the mailboxes of deleted accounts as deleted, and removes them from the search index. */
export async function markMailboxesOf(tx: Queries, accountIds: readonly number[]): Promise<void> {
  const rows = await tx
    .updateTable('mailboxes')
    .set(marked)
    .where('account_id', 'in', accountIds)
    .returning('account_id')
    .execute();
  const withMail = new Set(rows.map(({ account_id }) => -account_id));
  await enqueueSearch(
    tx,
    [...withMail].map((accountId) => ({ accountId, bodyId: 0, gone: true })),
  );
}

/**
 * Removes a part of what deleted mailboxes have, in one transaction.
 *
 * @returns false where nothing is left
 */
export async function purgeMailboxes(database: Database, bodies: Bodies): Promise<boolean> {
  const files = await database.write(async (tx) => {
    const mailbox = await tx
      .selectFrom('mailboxes')
      .select(['id', 'account_id'])
      .where('account_id', '<', 0)
      .limit(1)
      // A transaction that still appends to it waits, and then finds it deleted.
      .forUpdate()
      .executeTakeFirst();
    if (!mailbox) return undefined;
    const released = await removeMessages(tx, bodies, mailbox.id, -mailbox.account_id);
    if (released) return released;
    if (!(await removeTombstones(tx, mailbox.id))) {
      await tx.deleteFrom('mailboxes').where('id', '=', mailbox.id).execute();
    }
    return [];
  });
  // After the commit: before it, a crash must leave the file; after it, the sweep removes the file.
  if (files) await bodies.removeFiles(files);
  return files !== undefined;
}

/** @returns files of the bodies that were released; undefined where there is no message */
async function removeMessages(
  tx: Queries,
  bodies: Bodies,
  mailboxId: number,
  accountId: number,
): Promise<string[] | undefined> {
  const first = await tx
    .selectFrom('messages')
    .select(['uid', 'body_id', 'size'])
    .where('mailbox_id', '=', mailboxId)
    .orderBy('uid')
    .limit(ROWS_AT_A_TIME)
    .execute();
  let octets = 0;
  const messages = first.filter(({ size }, index) => {
    octets += size;
    return index === 0 || octets <= OCTETS_AT_A_TIME;
  });
  const last = messages.at(-1);
  if (!last) return undefined;
  await tx
    .deleteFrom('messages')
    .where('mailbox_id', '=', mailboxId)
    .where('uid', '<=', last.uid)
    .execute();
  const bodyIds = [...new Set(messages.map(({ body_id }) => body_id))];
  const files = await bodies.release(tx, bodyIds);
  // After the release, as for an expunge. A deleted account is removed from the index as a whole.
  if (await isThere(tx, accountId)) await forgetInSearch(tx, accountId, bodyIds);
  return files;
}

async function isThere(tx: Queries, accountId: number): Promise<boolean> {
  const account = tx.selectFrom('accounts').select('id').where('id', '=', accountId);
  return (await account.executeTakeFirst()) !== undefined;
}

/** @returns whether there were any */
async function removeTombstones(tx: Queries, mailboxId: number): Promise<boolean> {
  const rows = await tx
    .selectFrom('tombstones')
    .select(['modseq', 'uid'])
    .where('mailbox_id', '=', mailboxId)
    .orderBy('modseq')
    .orderBy('uid')
    .limit(ROWS_AT_A_TIME)
    .execute();
  const last = rows.at(-1);
  if (!last) return false;
  await tx
    .deleteFrom('tombstones')
    .where('mailbox_id', '=', mailboxId)
    .where(sql<boolean>`(modseq, uid) <= (${last.modseq}, ${last.uid})`)
    .execute();
  return true;
}

/** Where the tombstones of a store are; those of a mail server have tables of their own. */
export interface TombstoneTables {
  readonly mailboxes: string;
  /** The column of a mailbox with the MODSEQ up to which removals are no longer known. */
  readonly forgotten: string;
  readonly tombstones: string;
  /** The column of a tombstone that names its mailbox. */
  readonly mailboxId: string;
}

export const ownTombstones: TombstoneTables = {
  mailboxes: 'mailboxes',
  forgotten: 'pruned_modseq',
  tombstones: 'tombstones',
  mailboxId: 'mailbox_id',
};

/**
 * Removes tombstones of messages that were expunged before `before` (milliseconds since 1970), and notes in
 * each mailbox the MODSEQ up to which removals are no longer known.
 *
 * @param signal stops it early
 * @returns how many were removed
 */
export async function pruneTombstones(
  database: Database,
  tables: TombstoneTables,
  before: number,
  signal?: AbortSignal,
): Promise<number> {
  const [mailboxes, tombstones] = [sql.table(tables.mailboxes), sql.table(tables.tombstones)];
  const [forgotten, mailboxId] = [sql.ref(tables.forgotten), sql.ref(tables.mailboxId)];
  let pruned = 0;
  for (;;) {
    const { rows } = await oldTombstones(tables, before).execute(database.read);
    if (rows.length === 0 || signal?.aborted) return pruned;
    // The last of each mailbox; all removals below its MODSEQ are older.
    const last = new Map<number, number>();
    for (const { id, modseq } of rows) last.set(id, Math.max(modseq, last.get(id) ?? modseq));
    pruned += await database.write(async (tx) => {
      let removed = 0;
      for (const [id, modseq] of last) {
        await sql`update ${mailboxes} set ${forgotten} = ${modseq}
          where id = ${id} and ${forgotten} < ${modseq}`.execute(tx);
        const { numAffectedRows } = await sql`delete from ${tombstones}
          where ${mailboxId} = ${id} and modseq <= ${modseq}`.execute(tx);
        removed += Number(numAffectedRows);
      }
      return removed;
    });
  }
}

/** The oldest tombstones to remove, found by their time. */
export function oldTombstones({ tombstones, mailboxId }: TombstoneTables, before: number) {
  return sql<{ id: number; modseq: number }>`
    select ${sql.ref(mailboxId)} as id, modseq from ${sql.table(tombstones)}
    where expunged_at < ${before} order by expunged_at limit ${sql.lit(ROWS_AT_A_TIME)}`;
}
