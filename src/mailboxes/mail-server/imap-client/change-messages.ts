/** Flags, moves, copies and expunges on the server: UID STORE, MOVE, COPY, EXPUNGE. */

import type { FlagChange } from '../../mailstore/mailstore.ts';
import { changeFlags, normalizeFlags } from '../../mailstore/mailstore.ts';
import { type Connection, mailboxNotFound } from './connection.ts';
import { ImapFailure } from './failure.ts';
import { fetchRows } from './fetch.ts';
import { UID_MAX, UidSet } from './uid-set.ts';
import {
  atom,
  codeOf,
  encodeMailboxName,
  type ImapResponse,
  listOf,
  modseqOf,
  quoted,
  readFlags,
  sequence,
  textOf,
} from './wire.ts';

function setOf(uids: readonly number[]): UidSet {
  return UidSet.of(uids.filter((uid) => Number.isInteger(uid) && uid >= 1 && uid <= UID_MAX));
}

/** Those of the messages that exist, with their flags. */
async function currentFlags(connection: Connection, uids: UidSet): Promise<Map<number, string[]>> {
  const current = new Map<number, string[]>();
  await fetchRows(connection, uids, [atom('FLAGS')], (uid, items) => {
    current.set(uid, readFlags(listOf(items.get('FLAGS'))));
  });
  return current;
}

/** The current flags of existing messages on the server. */
export async function readCurrent(
  connection: Connection,
  mailbox: string,
  uids: readonly number[],
): Promise<{ uid: number; modseq: bigint | undefined; flags: string[] }[]> {
  const { exists } = await connection.select(mailbox, 'EXAMINE');
  if (exists === 0) return [];
  const items = [atom('FLAGS'), ...(connection.hasCondstore ? [atom('MODSEQ')] : [])];
  const rows: { uid: number; modseq: bigint | undefined; flags: string[] }[] = [];
  await fetchRows(connection, setOf(uids), items, (uid, row) => {
    const modseq = modseqOf(listOf(row.get('MODSEQ'))[0] ?? null);
    rows.push({ uid, modseq, flags: readFlags(listOf(row.get('FLAGS'))) });
  });
  return rows.sort((a, b) => a.uid - b.uid);
}

/**
 * Changes flags. Messages that already have the wanted flags are not changed, so that they keep their MODSEQ.
 *
 * @returns whether anything had to be changed
 */
export async function storeFlags(
  connection: Connection,
  mailbox: string,
  uids: readonly number[],
  { add = [], remove = [] }: FlagChange,
): Promise<boolean> {
  const removed = normalizeFlags(remove);
  // A flag that is both added and removed is removed, as in every store.
  const added = changeFlags([], add, remove);
  const { exists } = await connection.select(mailbox, 'SELECT');
  if (exists === 0) return false;
  const current = await currentFlags(connection, setOf(uids));
  let changed = false;
  for (const [sign, flags] of [
    ['+FLAGS.SILENT', added],
    ['-FLAGS.SILENT', removed],
  ] as const) {
    const has = (held: readonly string[]) => {
      const keys = new Set(held.map((flag) => flag.toLowerCase()));
      return (flag: string) => keys.has(flag.toLowerCase());
    };
    const lacking = [...current].filter(([, held]) =>
      sign.startsWith('+') ? !flags.every(has(held)) : flags.some(has(held)),
    );
    for (const text of UidSet.of(lacking.map(([uid]) => uid)).texts()) {
      changed = true;
      const args = [sequence(text), atom(sign), flags.map(atom)];
      await connection.command('UID STORE', args);
    }
  }
  return changed;
}

/** Removes messages for good. @returns those that existed */
export async function expungeMessages(
  connection: Connection,
  mailbox: string,
  uids: readonly number[],
): Promise<number[]> {
  requireUidplus(connection);
  const { exists } = await connection.select(mailbox, 'SELECT');
  const there = exists === 0 ? new Map() : await currentFlags(connection, setOf(uids));
  for (const text of UidSet.of(there.keys()).texts()) await removeSet(connection, text);
  return [...there.keys()].sort((a, b) => a - b);
}

async function removeSet(connection: Connection, text: string): Promise<void> {
  const args = [sequence(text), atom('+FLAGS.SILENT'), [atom('\\Deleted')]];
  await connection.command('UID STORE', args);
  // UID EXPUNGE removes only these (RFC 4315 section 2.1). EXPUNGE would also remove what others marked \Deleted.
  await connection.command('UID EXPUNGE', [sequence(text)]);
}

function requireUidplus(connection: Connection): void {
  if (!connection.has('UIDPLUS')) throw new ImapFailure('lacking', { said: 'UIDPLUS' });
}

/**
 * Copies messages, or moves them (by RFC 6851, or else by copy and removal).
 *
 * @returns old UID to new UID
 */
export async function relocateMessages(
  connection: Connection,
  verb: 'move' | 'copy',
  { mailbox, uids, target }: { mailbox: string; uids: readonly number[]; target: string },
): Promise<Map<number, number>> {
  const moves = verb === 'move';
  const hasMove = moves && connection.has('MOVE');
  if (moves && !hasMove) requireUidplus(connection);
  const { exists } = await connection.select(mailbox, moves ? 'SELECT' : 'EXAMINE');
  const there = exists === 0 ? new Map() : await currentFlags(connection, setOf(uids));
  const relocated = new Map<number, number>();
  for (const text of UidSet.of(there.keys()).texts()) {
    const args = [sequence(text), quoted(encodeMailboxName(target))];
    const asked = UidSet.parse(text) ?? UidSet.empty;
    const note = (response: ImapResponse) => readCopied(response, asked, relocated);
    try {
      const ok = await connection.command(hasMove ? 'UID MOVE' : 'UID COPY', args, { OK: note });
      note(ok);
    } catch (error) {
      const isNo = error instanceof ImapFailure && error.kind === 'said_no';
      // RFC 3501 section 6.4.7: TRYCREATE where there is no such mailbox.
      if (isNo && /TRYCREATE|NONEXISTENT/i.test(error.details.responseCode ?? '')) {
        throw mailboxNotFound(target);
      }
      throw error;
    }
    if (moves && !hasMove) await removeSet(connection, text);
  }
  return relocated;
}

/**
 * Reads `[COPYUID uidvalidity from to]` (RFC 4315 section 3), whose two sets are in the same order. A code that cannot
 * be right, which any server may send, counts as missing: the messages were moved all the same.
 */
function readCopied(response: ImapResponse, asked: UidSet, moved: Map<number, number>): void {
  const code = codeOf(response);
  if (code?.name !== 'COPYUID') return;
  const from = UidSet.parse(textOf(code.values[1]) ?? '');
  const to = UidSet.parse(textOf(code.values[2]) ?? '');
  if (!from || !to || from.size !== to.size || from.without(asked).size > 0) return;
  const targets = to.take();
  for (const uid of from.take()) {
    const { value } = targets.next();
    if (typeof value === 'number') moved.set(uid, value);
  }
}
