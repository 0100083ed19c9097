/** Flags, moves, copies and expunges on the server: UID STORE, MOVE, COPY, EXPUNGE. */

import { invalidField } from '../../../platform/errors/errors.ts';
import { UID_MAX, UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import {
  changeFlags,
  type FlagChange,
  mailboxNotFound,
  normalizeFlags,
} from '../../mailstore/mailstore.ts';
import { type Connection, mailboxArgument, type Selected } from './connection.ts';
import { ImapFailure, saysNo } from './failure.ts';
import { eachRow, type FetchedItems, fetchRows } from './fetch.ts';
import type { ImapResponse } from './responses.ts';
import { stateOf } from './sync-modseq.ts';
import type { SyncState } from './token.ts';
import { atom, listOf, modseqOf, readFlags, sequence, textOf } from './wire.ts';

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

/** A message after a change of flags. */
export interface FlagRow {
  readonly uid: number;
  readonly modseq: bigint | undefined;
  readonly flags: readonly string[];
}

/** @returns undefined for a row without flags, which reports something else */
function readRow(uid: number, row: FetchedItems): FlagRow | undefined {
  const flags = row.get('FLAGS');
  const modseq = modseqOf(listOf(row.get('MODSEQ'))[0]);
  return flags === undefined ? undefined : { uid, modseq, flags: readFlags(listOf(flags)) };
}

/** The current flags of existing messages on the server. */
export async function readCurrent(
  connection: Connection,
  mailbox: string,
  uids: readonly number[],
): Promise<FlagRow[]> {
  const { exists } = await connection.select(mailbox, 'EXAMINE');
  if (exists === 0) return [];
  const items = [atom('FLAGS'), ...(connection.hasQresync ? [atom('MODSEQ')] : [])];
  const rows = new Map<number, FlagRow>();
  await fetchRows(connection, setOf(uids), items, (uid, items) => {
    const row = readRow(uid, items);
    if (row) rows.set(uid, row);
  });
  return sorted(rows);
}

function sorted(rows: ReadonlyMap<number, FlagRow>): FlagRow[] {
  return [...rows.values()].sort((a, b) => a.uid - b.uid);
}

export interface Stored {
  readonly changed: boolean;
  /** The named messages that exist, and the mailbox, afterwards: where the answers told both. */
  readonly told?: { readonly rows: readonly FlagRow[]; readonly state: SyncState };
}

/**
 * As `normalizeFlags`, and no `NIL`: servers say that for nothing, some refuse it as a keyword, and
 * nobody can tell it from nothing.
 */
export function flagsForServer(flags: readonly string[], field = 'flags'): string[] {
  const wanted = normalizeFlags(flags, field);
  if (wanted.some((flag) => /^nil$/i.test(flag))) {
    throw invalidField(field, 'must not have NIL on a mail server');
  }
  return wanted;
}

/** Changes flags in the mailbox that was just opened. Messages that have the wanted flags keep their MODSEQ. */
export async function storeFlags(
  connection: Connection,
  selected: Selected,
  uids: readonly number[],
  { add = [], remove = [] }: FlagChange,
): Promise<Stored> {
  // A flag that is both added and removed is removed, as in every store.
  const added = changeFlags([], flagsForServer(add, 'add'), remove);
  const changes = [
    { sign: '+', flags: added },
    { sign: '-', flags: normalizeFlags(remove) },
  ].filter(({ flags }) => flags.length > 0);
  return connection.hasQresync && selected.modseq !== undefined
    ? storeByModseq(connection, selected, setOf(uids), changes)
    : { changed: await storeWhereLacking(connection, selected, setOf(uids), changes) };
}

interface SignedFlags {
  readonly sign: string;
  readonly flags: readonly string[];
}

/**
 * Changes flags where every change has a MODSEQ, without a command before or after: UID STORE returns the flags and
 * the MODSEQ of each message that it changes (RFC 7162 section 3.1). Servers return nothing for a message that has
 * the flags already, or does not exist: only such messages are fetched.
 */
async function storeByModseq(
  connection: Connection,
  selected: Selected,
  uids: UidSet,
  changes: readonly SignedFlags[],
): Promise<Stored> {
  const before = stateOf(selected);
  const rows = new Map<number, FlagRow>();
  const note = (uid: number, items: FetchedItems) => {
    const row = readRow(uid, items);
    if (row?.modseq === undefined) rows.delete(uid);
    else rows.set(uid, row);
  };
  if (before.count > 0) {
    for (const { sign, flags } of changes) {
      for (const text of uids.texts()) {
        const args = [sequence(text), atom(`${sign}FLAGS`), flags.map(atom)];
        await connection.command('UID STORE', args, { FETCH: eachRow(uids, note, connection) });
      }
    }
    const untold = uids.without(UidSet.of(rows.keys()));
    await fetchRows(connection, untold, [atom('FLAGS'), atom('MODSEQ')], note);
  }
  let { modseq } = before;
  for (const row of rows.values()) if (row.modseq && row.modseq > modseq) modseq = row.modseq;
  // Another client changed the mailbox since it was opened: only a new look shows the UIDNEXT and the highest MODSEQ.
  if (selected.news) return { changed: true };
  return {
    changed: modseq > before.modseq,
    told: { rows: sorted(rows), state: { ...before, modseq } },
  };
}

/** Changes flags of the messages that have other ones. @returns whether there were any */
async function storeWhereLacking(
  connection: Connection,
  { exists }: Selected,
  uids: UidSet,
  changes: readonly SignedFlags[],
): Promise<boolean> {
  if (exists === 0) return false;
  const current = await currentFlags(connection, uids);
  let changed = false;
  for (const { sign, flags } of changes) {
    const has = (held: readonly string[]) => {
      const keys = new Set(held.map((flag) => flag.toLowerCase()));
      return (flag: string) => keys.has(flag.toLowerCase());
    };
    const lacking = [...current].filter(([, held]) =>
      sign === '+' ? !flags.every(has(held)) : flags.some(has(held)),
    );
    for (const text of UidSet.of(lacking.map(([uid]) => uid)).texts()) {
      changed = true;
      const args = [sequence(text), atom(`${sign}FLAGS.SILENT`), flags.map(atom)];
      await connection.command('UID STORE', args);
    }
  }
  return changed;
}

export interface Removal {
  readonly removed: UidSet;
  /** Of the mailbox, where the server told it. */
  readonly state: SyncState | undefined;
}

/** Removes messages of the mailbox that was just opened, for good: those that exist. */
export async function expungeMessages(
  connection: Connection,
  selected: Selected,
  uids: readonly number[],
): Promise<Removal> {
  requireUidplus(connection);
  const before = stateOf(selected);
  const removed = await existing(connection, selected, setOf(uids));
  let ok: ImapResponse | undefined;
  for (const text of removed.texts()) ok = await removeSet(connection, text);
  return { removed, state: stateAfter(selected, before, removed, ok) };
}

async function existing(
  connection: Connection,
  { exists }: Selected,
  uids: UidSet,
): Promise<UidSet> {
  return exists === 0 ? UidSet.empty : UidSet.of((await currentFlags(connection, uids)).keys());
}

/** @returns the OK of the removal */
async function removeSet(connection: Connection, text: string): Promise<ImapResponse> {
  const args = [sequence(text), atom('+FLAGS.SILENT'), [atom('\\Deleted')]];
  await connection.command('UID STORE', args);
  // UID EXPUNGE removes only these (RFC 4315 section 2.1). EXPUNGE would also remove what others marked \Deleted.
  return connection.command('UID EXPUNGE', [sequence(text)]);
}

/**
 * The state of the open mailbox after a removal, without another look: servers return HIGHESTMODSEQ with the OK (RFC
 * 7162 section 3.2.9, RFC 6851 section 4.4), and with QRESYNC the UIDs that are gone. If anything else came or went
 * since the mailbox was opened, only a new look shows the UIDNEXT.
 */
function stateAfter(
  { gone, exists }: Selected,
  before: SyncState,
  removed: UidSet,
  ok: ImapResponse | undefined,
): SyncState | undefined {
  const code = ok?.code;
  const modseq = code?.name === 'HIGHESTMODSEQ' ? modseqOf(code.values[0]) : undefined;
  const isAll =
    UidSet.empty.union(...gone).equals(removed) && exists === before.count - removed.size;
  return modseq !== undefined && isAll ? { ...before, modseq, count: exists } : undefined;
}

function requireUidplus(connection: Connection): void {
  if (!connection.has('UIDPLUS')) throw new ImapFailure('lacking', { said: 'UIDPLUS' });
}

export interface Relocation {
  /** Old UID to new UID. */
  readonly uids: ReadonlyMap<number, number>;
  /** Of the mailbox that they were moved from, where the server told it. */
  readonly state: SyncState | undefined;
}

/** Copies messages of the mailbox that was just opened, or moves them (by RFC 6851, or else by copy and removal). */
export async function relocateMessages(
  connection: Connection,
  verb: 'move' | 'copy',
  selected: Selected,
  { uids, to: target }: { uids: readonly number[]; to: string },
): Promise<Relocation> {
  const moves = verb === 'move';
  const hasMove = moves && connection.has('MOVE');
  if (moves && !hasMove) requireUidplus(connection);
  const before = stateOf(selected);
  const relocated = new Map<number, number>();
  let ok: ImapResponse | undefined;
  const relocate = async (there: UidSet) => {
    for (const text of there.texts()) {
      const args = [sequence(text), mailboxArgument(target)];
      const asked = UidSet.parse(text) ?? UidSet.empty;
      const note = (response: ImapResponse) => readCopied(response, asked, relocated);
      ok = await connection.command(hasMove ? 'UID MOVE' : 'UID COPY', args, { OK: note });
      note(ok);
      if (moves && !hasMove) ok = await removeSet(connection, text);
    }
  };
  const wanted = selected.exists === 0 ? UidSet.empty : setOf(uids);
  // UIDs that do not exist are passed over (RFC 3501 section 6.4.8).
  const isQuick = hasMove && connection.hasQresync;
  try {
    await relocate(isQuick ? wanted : await existing(connection, selected, wanted));
  } catch (error) {
    // RFC 3501 section 6.4.7: TRYCREATE where there is no such mailbox.
    if (saysNo(error, 'TRYCREATE', 'NONEXISTENT')) throw mailboxNotFound(target);
    if (!saysNo(error)) throw error;
    // Some servers refuse them instead.
    const there = isQuick ? await existing(connection, selected, wanted) : wanted;
    if (there.size === wanted.size) throw error;
    await relocate(there);
  }
  const removed = UidSet.of(relocated.keys());
  return { uids: relocated, state: stateAfter(selected, before, removed, ok) };
}

/**
 * Reads `[COPYUID uidvalidity from to]` (RFC 4315 section 3), whose two sets are in the same order. A code that cannot
 * be right, which any server may send, counts as missing: the messages were moved all the same.
 */
function readCopied({ code }: ImapResponse, asked: UidSet, moved: Map<number, number>): void {
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
