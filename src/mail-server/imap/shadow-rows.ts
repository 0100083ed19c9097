/**
 * Rows of the shadow: what was last seen of a mailbox (`shadow_mailboxes`), its messages
 * (`shadow_messages`), and what is gone of them (`shadow_tombstones`), each with the synthetic
 * MODSEQ of the refresh that saw it. What is read from it has the same meaning as in the embedded
 * store (`embedded/read-changes.ts`).
 */
import type { Database, Queries, Row } from '../../database/database.ts';
import { Refusal } from '../../errors/errors.ts';
import type { MailUser } from '../../mailstore/mailstore.ts';
import { flagsToText } from '../../mailstore/mailstore.ts';
import type { SyncState } from './token.ts';

export type ShadowRow = Row<'shadow_mailboxes'>;

/** What the server has of a mailbox at one moment. */
export interface Seen {
  readonly uidvalidity: string;
  readonly uidnext: number;
  /** Flags by UID. */
  readonly messages: ReadonlyMap<number, readonly string[]>;
  readonly serverModseq: bigint | undefined;
}

/** Rows in one statement: both engines bound the number of parameters. */
const ROWS_AT_A_TIME = 500;
/** So that neither the query nor the transaction holds the thread for long. */
const PRUNED_AT_A_TIME = 200;

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
  if (!(await findShadow(database.read, user, mailbox))) return;
  await database.write((tx) =>
    tx
      .deleteFrom('shadow_mailboxes')
      .where('account_id', '=', user.accountId)
      .where('name', '=', mailbox)
      .execute(),
  );
}

export function readMessages(queries: Queries, shadowId: number) {
  return queries
    .selectFrom('shadow_messages')
    .select(['uid', 'created_modseq', 'flags'])
    .where('shadow_id', '=', shadowId)
    .execute();
}

/** The row, held until the commit, if it is still the one that `before` was read as. */
async function lockUnchanged(tx: Queries, before: ShadowRow): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('shadow_mailboxes')
    .set({ modseq: before.modseq })
    .where('id', '=', before.id)
    .where('modseq', '=', before.modseq)
    .where('uidvalidity', '=', before.uidvalidity)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

export interface WriteShadow {
  readonly user: MailUser;
  readonly mailbox: string;
  /** The row as it was before the server was asked. */
  readonly before: ShadowRow | undefined;
  readonly seen: Seen;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/**
 * Brings the shadow to what was seen.
 *
 * @returns undefined where somebody else has done so since `before`: what was seen may be older than
 *   what they saw, so it has to be looked at again
 */
export async function writeShadow(
  tx: Queries,
  { user, mailbox, before, seen, now }: WriteShadow,
): Promise<ShadowRow | undefined> {
  if (!before) {
    const account = await tx
      .selectFrom('accounts')
      .select('id')
      .where('id', '=', user.accountId)
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
      })
      .onConflict((conflict) => conflict.columns(['account_id', 'name']).doNothing())
      .returningAll()
      .executeTakeFirst();
    if (made) await insertAll(tx, made.id, now, seen);
    return made;
  }
  if (!(await lockUnchanged(tx, before))) return undefined;
  if (before.uidvalidity !== seen.uidvalidity) {
    // Another mailbox under the same name (RFC 3501 section 2.3.1.1): nothing known of it holds.
    const modseq = Math.max(now, before.modseq + 1);
    for (const table of ['shadow_messages', 'shadow_tombstones'] as const) {
      await tx.deleteFrom(table).where('shadow_id', '=', before.id).execute();
    }
    await insertAll(tx, before.id, modseq, seen);
    return update(tx, before.id, { ...columnsOf(seen), modseq, oldest_modseq: modseq });
  }
  const changed = await writeDifferences(tx, before, seen, now);
  return update(tx, before.id, {
    ...columnsOf(seen),
    uidnext: Math.max(before.uidnext, seen.uidnext),
    modseq: changed ? before.modseq + 1 : before.modseq,
  });
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

function columnsOf({ uidvalidity, uidnext, messages, serverModseq }: Seen) {
  let unseen = 0;
  for (const flags of messages.values()) if (!flags.includes('\\Seen')) unseen++;
  return {
    uidvalidity,
    uidnext,
    messages: messages.size,
    unseen,
    server_modseq: serverModseq === undefined ? null : `${serverModseq}`,
  };
}

async function insertAll(tx: Queries, id: number, modseq: number, seen: Seen): Promise<void> {
  await insertMessages(tx, id, modseq, [...seen.messages]);
}

async function insertMessages(
  tx: Queries,
  shadow_id: number,
  modseq: number,
  messages: readonly (readonly [number, readonly string[]])[],
): Promise<void> {
  for (const some of chunks(messages)) {
    const rows = some.map(([uid, flags]) => ({
      shadow_id,
      uid,
      created_modseq: modseq,
      modseq,
      flags: flagsToText(flags),
    }));
    await tx.insertInto('shadow_messages').values(rows).execute();
  }
}

/** @returns whether there were any */
async function writeDifferences(
  tx: Queries,
  { id, modseq: last }: ShadowRow,
  seen: Seen,
  now: number,
): Promise<boolean> {
  const modseq = last + 1;
  const known = await readMessages(tx, id);
  const knownUids = new Set(known.map(({ uid }) => uid));
  const gone = known.filter(({ uid }) => !seen.messages.has(uid));
  const changed = known.flatMap(({ uid, flags }) => {
    const text = flagsToText(seen.messages.get(uid) ?? []);
    return seen.messages.has(uid) && text !== flags ? [{ uid, text }] : [];
  });
  const added = [...seen.messages].filter(([uid]) => !knownUids.has(uid));
  await insertMessages(tx, id, modseq, added);
  for (const { uid, text } of changed) {
    await tx
      .updateTable('shadow_messages')
      .set({ flags: text, modseq })
      .where('shadow_id', '=', id)
      .where('uid', '=', uid)
      .execute();
  }
  for (const some of chunks(gone)) {
    const uids = some.map(({ uid }) => uid);
    const rows = some.map(({ uid, created_modseq }) => ({
      shadow_id: id,
      uid,
      created_modseq,
      modseq,
      expunged_at: now,
    }));
    await tx
      .deleteFrom('shadow_messages')
      .where('shadow_id', '=', id)
      .where('uid', 'in', uids)
      .execute();
    await tx.insertInto('shadow_tombstones').values(rows).execute();
  }
  return added.length + changed.length + gone.length > 0;
}

/** Forgets removals seen before `before` (milliseconds since 1970). @returns how many */
export async function pruneShadowTombstones(database: Database, before: number): Promise<number> {
  let pruned = 0;
  for (;;) {
    const old = await database.read
      .selectFrom('shadow_tombstones')
      .select(['shadow_id', 'modseq'])
      .where('expunged_at', '<', before)
      .orderBy('expunged_at')
      .limit(PRUNED_AT_A_TIME)
      .execute();
    if (old.length === 0) return pruned;
    const last = new Map<number, number>();
    for (const { shadow_id, modseq } of old) {
      last.set(shadow_id, Math.max(modseq, last.get(shadow_id) ?? modseq));
    }
    pruned += await database.write(async (tx) => {
      let removed = 0;
      for (const [shadowId, modseq] of last) {
        await tx
          .updateTable('shadow_mailboxes')
          .set({ oldest_modseq: modseq })
          .where('id', '=', shadowId)
          .where('oldest_modseq', '<', modseq)
          .execute();
        const { numDeletedRows } = await tx
          .deleteFrom('shadow_tombstones')
          .where('shadow_id', '=', shadowId)
          .where('modseq', '<=', modseq)
          .executeTakeFirst();
        removed += Number(numDeletedRows);
      }
      return removed;
    });
  }
}

export interface ShadowWindow {
  readonly shadowId: number;
  /** 0: the client has nothing yet. */
  readonly base: number;
  readonly snapshot: number;
  readonly afterUid: number;
  /** Rows of each kind at most. */
  readonly most: number;
}

/** Messages that are there and changed in the window, in the order of their UIDs. */
export function readLive(queries: Queries, window: ShadowWindow) {
  const { shadowId, base, snapshot, afterUid, most } = window;
  const query = queries
    .selectFrom('shadow_messages')
    .select(['uid', 'created_modseq', 'modseq', 'flags'])
    .where('shadow_id', '=', shadowId)
    .where('modseq', '>', base)
    .where('created_modseq', '<=', snapshot)
    .where('uid', '>', afterUid)
    .orderBy('uid');
  return (most === Number.POSITIVE_INFINITY ? query : query.limit(most)).execute();
}

/** Messages that are gone: those that the client had, and those that the snapshot still had. */
export function readGone(queries: Queries, window: ShadowWindow) {
  const { shadowId, base, snapshot, afterUid, most } = window;
  const query = queries
    .selectFrom('shadow_tombstones')
    .select(['uid', 'created_modseq'])
    .where('shadow_id', '=', shadowId)
    .where('uid', '>', afterUid)
    .where(({ eb, or, and }) =>
      or([
        and([
          eb('created_modseq', '<=', base),
          eb('modseq', '>', base),
          eb('modseq', '<=', snapshot),
        ]),
        and([
          eb('created_modseq', '>', base),
          eb('created_modseq', '<=', snapshot),
          eb('modseq', '>', snapshot),
        ]),
      ]),
    )
    .orderBy('uid');
  return (most === Number.POSITIVE_INFINITY ? query : query.limit(most)).execute();
}

function* chunks<T>(items: readonly T[]): Generator<T[]> {
  for (let at = 0; at < items.length; at += ROWS_AT_A_TIME) {
    yield items.slice(at, at + ROWS_AT_A_TIME);
  }
}
