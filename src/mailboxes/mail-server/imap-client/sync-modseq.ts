/**
 * Sync of a mailbox whose server keeps MODSEQs and reports removals (CONDSTORE and QRESYNC, RFC 7162): nothing of it
 * is stored on our side.
 *
 * One `EXAMINE mailbox (QRESYNC (uidvalidity modseq))` is both the question whether anything changed and the answer:
 * state and changes of one moment, in one round trip. STATUS would not work: for a mailbox that the connection has
 * selected, servers return what that session saw last.
 *
 * The client is brought to the state of the EXAMINE. Messages that are removed while the rest is fetched are
 * returned as `added` without fields: they belong to that state, and the next sync reports their removal. A server
 * may list too many removals (RFC 7162 section 3.2.10.1: one that has forgotten them lists every UID that does not
 * exist): its list is used only where it is as long as the client's count of messages requires; otherwise the client
 * gets a reset.
 */
import { invalidField } from '../../errors/errors.ts';
import {
  type AddedMessage,
  hasTexts,
  type MessageField,
  type SyncRequest,
  type SyncResult,
} from '../../mailstore/mailstore.ts';
import type { BodyStructure } from '../../message/message.ts';
import { readBodyStructure } from './body-structure.ts';
import type { Connection } from './connection.ts';
import { ChangeCollector, fetchRows, listUids, requirePlausible } from './fetch.ts';
import { fetchPreviews, fieldItems, readFields } from './message-fields.ts';
import type { Selected } from './selected.ts';
import {
  formatCursor,
  formatState,
  type ImapToken,
  isSameState,
  parseImapToken,
  type SyncState,
} from './token.ts';
import { UID_MAX, UidSet } from './uid-set.ts';
import { atom, listOf, readFlags, sequence } from './wire.ts';

/** A page with more fields than UIDs is limited also when the client set no limit. */
export const PAGE_WITH_FIELDS = 1_000;

/**
 * Characters, as JSON, of the new messages in one page with envelopes or structures: both are as long as the sender
 * made them.
 */
const PAGE_TEXT = 4 * 1024 * 1024;

/** Messages whose envelopes are fetched in one command: its whole answer is in memory before it is measured. */
const TEXTS_AT_A_TIME = 100;

/** The most removals in one answer; more cause a reset. */
const REMOVED_MAX = 500_000;

export interface SyncContext {
  readonly connection: Connection;
  /** The name on the server. */
  readonly mailbox: string;
  readonly request: SyncRequest;
  readonly token: ImapToken | undefined;
}

/** The content of one page; UIDs in no order. */
export interface Page {
  readonly added: readonly AddedMessage[];
  readonly updated: readonly {
    readonly uid: number;
    readonly modseq: string;
    readonly flags: readonly string[];
  }[];
  readonly removed: readonly number[];
}

export function stateOf({ modseq, uidnext, exists }: Selected): SyncState {
  return { modseq: modseq ?? 0n, uidnext, count: exists };
}

export function pageLimit({ limit, fields = [] }: SyncRequest): number {
  return limit ?? (fields.length > 0 ? PAGE_WITH_FIELDS : Number.POSITIVE_INFINITY);
}

/** @throws Refusal `invalid_request` for a malformed token, or one without a UIDVALIDITY */
export function readToken({ token, uidvalidity }: SyncRequest): ImapToken | undefined {
  if (token === undefined) return undefined;
  const read = parseImapToken(token);
  if (uidvalidity === undefined) {
    throw invalidField('uidvalidity', 'is required together with token');
  }
  return read;
}

/** Attempts in all: if the mailbox changes during one, the next asks again. */
const ATTEMPTS = 3;

/**
 * @returns undefined where the mailbox keeps no MODSEQs; it is selected then
 */
export async function syncByModseq(context: SyncContext): Promise<SyncResult | undefined> {
  for (let attempt = 1; ; attempt++) {
    const { view, told } = await look(context);
    if (!view) return undefined;
    if (told) return told;
    const isRace = context.connection.selected?.news === true;
    if (!isRace || attempt === ATTEMPTS) {
      return readAll(context, view, begin(context, view), true);
    }
  }
}

/** One attempt. @returns nothing where the client has to get a reset */
async function look(
  context: SyncContext,
): Promise<{ readonly view?: Selected; readonly told?: SyncResult | undefined }> {
  const { connection, mailbox, request, token } = context;
  const collector = new ChangeCollector();
  const since = sinceOf(token);
  const uidvalidity = uidvalidityOf(request);
  const args =
    since && uidvalidity ? [[atom('QRESYNC'), [atom(uidvalidity), atom(`${since.modseq}`)]]] : [];
  // A copy: changes that later commands report do not belong to the state of this answer.
  const view = { ...(await connection.select(mailbox, 'EXAMINE', args, collector.untagged)) };
  if (view.modseq === undefined) return {};
  const now = stateOf(view);
  const sameMailbox = request.uidvalidity === undefined || request.uidvalidity === view.uidvalidity;
  if (!token) {
    const reset = sameMailbox ? undefined : true;
    return { view, told: await readAll(context, view, begin(context, view), reset) };
  }
  if (token.kind === 'foreign' || !sameMailbox || !uidvalidity || !isPast(token, now)) {
    return { view };
  }
  if (token.kind === 'cursor') return { view, told: await goOn(context, view, token, collector) };
  const window = { base: token.state, snapshot: now, afterUid: 0 };
  return { view, told: await readChanges(context, view, window, collector) };
}

/** Which messages of a state a page has. */
interface AllOf {
  readonly snapshot: SyncState;
  /** Those after it, in the order of the pages. */
  readonly afterUid: number;
  readonly newest: boolean;
}

/** A sync of everything, from its first page on. */
function begin({ request: { newest = false } }: SyncContext, view: Selected): AllOf {
  const snapshot = stateOf(view);
  return { snapshot, afterUid: newest ? snapshot.uidnext : 0, newest };
}

/** The state after which changes are requested. */
function sinceOf(token: ImapToken | undefined): SyncState | undefined {
  if (token?.kind === 'state') return usable(token.state);
  return token?.kind === 'cursor' ? usable(token.base ?? token.snapshot) : undefined;
}

/** RFC 7162 section 7: a mod-sequence of a command is 1 to 2^63-1. */
function usable(state: SyncState): SyncState | undefined {
  return state.modseq >= 1n && state.modseq < 2n ** 63n ? state : undefined;
}

function uidvalidityOf({ uidvalidity }: SyncRequest): string | undefined {
  const isNumber = uidvalidity !== undefined && /^[1-9]\d{0,9}$/.test(uidvalidity);
  return isNumber && Number(uidvalidity) <= UID_MAX ? uidvalidity : undefined;
}

/** Whether the token's state can be before the present one, by its numbers. */
export function isPast(token: ImapToken, now: SyncState): boolean {
  if (token.kind === 'foreign') return false;
  const earlier = (a: SyncState, b: SyncState) =>
    a.modseq >= 1n && a.modseq <= b.modseq && a.uidnext <= b.uidnext && a.count < a.uidnext;
  if (token.kind === 'state') return earlier(token.state, now);
  const { base, snapshot } = token;
  return earlier(snapshot, now) && (base === undefined || earlier(base, snapshot));
}

/** The two states of a page, and the UID after which it starts. */
interface Window {
  readonly base: SyncState;
  readonly snapshot: SyncState;
  readonly afterUid: number;
}

/** The changes that EXAMINE reported. @returns undefined where they are not certain */
async function readChanges(
  context: SyncContext,
  view: Selected,
  window: Window,
  collector: ChangeCollector,
  lost: UidSet = UidSet.empty,
): Promise<SyncResult | undefined> {
  const { base, snapshot, afterUid } = window;
  if (isSameState(base, stateOf(view))) {
    return answer(context, view, { added: [], updated: [], removed: [] }, formatState(snapshot));
  }
  const gone = knownGone(view, collector, base);
  if (!gone) return undefined;
  const told = gone.without(lost);
  const ghosts = lost.within(Math.max(base.uidnext, afterUid + 1), snapshot.uidnext - 1);
  const changed = [...collector.changed.keys()].filter(
    (uid) => uid > afterUid && uid < snapshot.uidnext,
  );
  const { uids, nextAfterUid } = cut(
    [changed, told.within(afterUid + 1, UID_MAX).take(), ghosts.take()],
    pageLimit(context.request),
  );
  const added: number[] = [];
  const updated: { uid: number; modseq: string; flags: string[] }[] = [];
  const removed: number[] = [];
  for (const uid of uids) {
    const row = collector.changed.get(uid);
    if (uid >= base.uidnext) added.push(uid);
    else if (!row) removed.push(uid);
    else updated.push({ uid, modseq: `${row.modseq}`, flags: readFlags(listOf(row.flags)) });
  }
  const described = await describe(context, added, collector);
  const page = { added: described.added, updated, removed };
  // Updates and removals stay: all that the client has is below the new messages.
  const end = described.fullAt ?? nextAfterUid;
  return answer(context, view, page, tokenAfter(base, snapshot, end), end);
}

/** The UIDs that a client of state `base` had and that are removed, or undefined where that is uncertain. */
function knownGone(
  view: Selected,
  collector: ChangeCollector,
  base: SyncState,
): UidSet | undefined {
  const gone = collector.vanished().within(1, base.uidnext - 1);
  let newer = 0;
  // A message that came after that state has a higher MODSEQ, so it is among the changed ones.
  for (const uid of collector.changed.keys()) {
    if (uid >= base.uidnext && uid < view.uidnext) newer++;
  }
  const left = view.exists - newer;
  return gone.size === base.count - left && gone.size <= REMOVED_MAX ? gone : undefined;
}

/** The next page of a paged sync. @returns undefined where it is not certain */
async function goOn(
  context: SyncContext,
  view: Selected,
  { base, snapshot, afterUid, newest }: Extract<ImapToken, { kind: 'cursor' }>,
  collector: ChangeCollector,
): Promise<SyncResult | undefined> {
  const { connection } = context;
  if (!base) {
    const lost = knownGone(view, collector, snapshot);
    return lost && readAll(context, view, { snapshot, afterUid, newest }, undefined, lost);
  }
  let lost = UidSet.empty;
  if (!isSameState(snapshot, stateOf(view))) {
    // The next sync reports what was removed after the snapshot; in the snapshot it existed.
    const later = new ChangeCollector();
    const modifiers = [atom('CHANGEDSINCE'), atom(`${snapshot.modseq}`), atom('VANISHED')];
    // Not `1:*`: where the last messages were removed, `*` is less than their UIDs.
    await connection.command(
      'UID FETCH',
      [sequence(`1:${UID_MAX}`), [atom('UID'), atom('FLAGS')], modifiers],
      later.untagged,
    );
    const found = knownGone(view, later, snapshot);
    if (!found) return undefined;
    lost = found;
  }
  return readChanges(context, view, { base, snapshot, afterUid }, collector, lost);
}

/**
 * Returns all messages of a state.
 *
 * @param lost messages that were removed since that state
 */
async function readAll(
  context: SyncContext,
  view: Selected,
  { snapshot, afterUid, newest }: AllOf,
  reset: true | undefined,
  lost: UidSet = UidSet.empty,
): Promise<SyncResult> {
  const { connection, request } = context;
  const last = snapshot.uidnext - 1;
  const [from, to] = newest ? [1, Math.min(last, afterUid - 1)] : [afterUid + 1, last];
  const there = await listUids(connection, from, to);
  // Cyrus leaves a message that was expunged since the EXAMINE out of the list, and reports its removal with the next
  // command. It belongs to this state: the next sync will report that it was removed.
  await connection.command('NOOP');
  const meanwhile = goneMeanwhile(connection).within(from, to);
  const gone = requirePlausible(meanwhile, view.exists).union(lost.within(from, to));
  const limit = pageLimit(request);
  const all = there.union(gone);
  const some = newest ? all.takeLast(limit + 1) : all.take(limit + 1);
  const { uids, nextAfterUid } = cut([some], limit, newest);
  const { added, fullAt } = await describe(context, uids);
  const end = fullAt ?? nextAfterUid;
  const token = tokenAfter(undefined, snapshot, end, newest);
  return answer(context, view, { added, updated: [], removed: [] }, token, end, reset);
}

function goneMeanwhile({ selected }: Connection): UidSet {
  return UidSet.empty.union(...(selected?.gone ?? []));
}

function tokenAfter(
  base: SyncState | undefined,
  snapshot: SyncState,
  nextAfterUid: number | undefined,
  newest = false,
): string {
  return nextAfterUid === undefined
    ? formatState(snapshot)
    : formatCursor(base, snapshot, nextAfterUid, newest);
}

/** Merges UIDs, in the order of the pages, and cuts them where the page is full. */
export function cut(
  lists: readonly Iterable<number>[],
  limit: number,
  newest = false,
): { uids: number[]; nextAfterUid: number | undefined } {
  const all = new Set<number>();
  for (const list of lists) for (const uid of list) all.add(uid);
  const uids = [...all].sort((a, b) => (newest ? b - a : a - b));
  if (uids.length <= limit) return { uids, nextAfterUid: undefined };
  const page = uids.slice(0, limit);
  return { uids: page, nextAfterUid: page.at(-1) };
}

/** The new messages of one page. */
export interface Described {
  readonly added: readonly AddedMessage[];
  /** The last of them, where the rest would make the page too large. */
  readonly fullAt: number | undefined;
}

/**
 * New messages with their requested fields, as many as fit into a page; at least one. A message that was removed
 * meanwhile has only its UID.
 *
 * @param uids in order
 */
export async function describe(
  { connection, request: { fields = [] } }: Pick<SyncContext, 'connection' | 'request'>,
  uids: readonly number[],
  known?: ChangeCollector,
): Promise<Described> {
  const wanted: MessageField[] = [...fields];
  if (wanted.length === 0) return { added: uids.map((uid) => ({ uid })), fullAt: undefined };
  if (known && wanted.every((field) => field === 'flags')) {
    const added = uids.map((uid) => {
      const row = known.changed.get(uid);
      if (!row) return { uid };
      return { uid, flags: readFlags(listOf(row.flags)), modseq: `${row.modseq}` };
    });
    return { added, fullAt: undefined };
  }
  const withTexts = hasTexts(wanted) || wanted.includes('preview');
  const step = withTexts ? TEXTS_AT_A_TIME : Math.max(1, uids.length);
  const added: AddedMessage[] = [];
  let length = 0;
  for (let at = 0; at < uids.length; at += step) {
    const chunk = uids.slice(at, at + step);
    const described = await fetchFields(connection, chunk, wanted);
    for (const uid of chunk) {
      const message = described.get(uid) ?? { uid };
      if (withTexts) length += JSON.stringify(message).length;
      const last = added.at(-1);
      if (last && length > PAGE_TEXT) return { added, fullAt: last.uid };
      added.push(message);
    }
  }
  return { added, fullAt: undefined };
}

async function fetchFields(
  connection: Connection,
  uids: readonly number[],
  wanted: readonly MessageField[],
): Promise<Map<number, AddedMessage>> {
  const described = new Map<number, AddedMessage>();
  const structures = new Map<number, BodyStructure>();
  await fetchRows(connection, UidSet.of(uids), fieldItems(connection, wanted), (uid, items) => {
    described.set(uid, { ...described.get(uid), ...readFields(uid, items, wanted) });
    const structure = readBodyStructure(items.get('BODYSTRUCTURE'));
    if (structure) structures.set(uid, structure);
  });
  if (!wanted.includes('preview')) return described;
  for (const [uid, preview] of await fetchPreviews(connection, structures)) {
    described.set(uid, { uid, ...described.get(uid), preview });
  }
  return described;
}

function answer(
  { mailbox }: SyncContext,
  { uidvalidity }: Selected,
  { added, updated, removed }: Page,
  token: string,
  nextAfterUid?: number,
  reset?: true,
): SyncResult {
  return {
    mailbox,
    uidvalidity,
    token,
    changes: { added, updated, removed: removed.map((uid) => ({ uid })) },
    ...(reset && { reset }),
    ...(nextAfterUid !== undefined && { hasMore: true as const }),
  };
}
