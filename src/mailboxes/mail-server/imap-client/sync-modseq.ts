/**
 * Sync of a mailbox whose server keeps MODSEQs and reports removals (CONDSTORE and QRESYNC, RFC 7162): nothing of it
 * is stored on our side.
 *
 * One `EXAMINE mailbox (QRESYNC (uidvalidity modseq))` is both the question whether anything changed and the answer:
 * state and changes of one moment, in one round trip. STATUS would not work: for a mailbox that the connection has
 * selected, servers return what that session saw last.
 *
 * The client is brought to the state of the EXAMINE, without the messages that are removed while the rest is fetched,
 * or while the client fetches its pages: they belong to that state, so the next sync reports their removal. A server
 * may list too many removals (RFC 7162 section 3.2.10.1: one that has forgotten them lists every UID that does not
 * exist): its list is used only where it is as long as the client's count of messages requires; otherwise the client
 * gets a reset.
 */
import { UID_MAX, UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import type {
  AddedMessage,
  SyncRequest,
  SyncResult,
  UpdatedMessage,
} from '../../mailstore/mailstore.ts';
import type { Connection, Selected } from './connection.ts';
import { describe } from './describe-messages.ts';
import { ChangeCollector, listUids } from './fetch.ts';
import { formatCursor, formatState, type ImapToken, isSameState, type SyncState } from './token.ts';
import { atom, listOf, readFlags, sequence } from './wire.ts';

/** A page with more fields than UIDs is limited also when the client set no limit. */
export const PAGE_WITH_FIELDS = 1_000;

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
export interface SyncPage {
  readonly added: readonly AddedMessage[];
  readonly updated: readonly UpdatedMessage[];
  readonly removed: readonly number[];
}

export function stateOf({ modseq, uidnext, exists }: Selected): SyncState {
  return { modseq: modseq ?? 0n, uidnext, count: exists };
}

export function pageLimit({ limit, fields = [] }: SyncRequest): number {
  return limit ?? (fields.length > 0 ? PAGE_WITH_FIELDS : Number.POSITIVE_INFINITY);
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

/** The state after which changes are requested; the pages of a first sync need none. */
function sinceOf(token: ImapToken | undefined): SyncState | undefined {
  const state = token?.kind === 'cursor' ? token.base : token?.kind === 'state' && token.state;
  return state ? usable(state) : undefined;
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
  const changed = [...collector.changed.keys()].filter(
    (uid) => uid > afterUid && uid < snapshot.uidnext,
  );
  const { uids, nextAfterUid } = cut(
    [changed, told.within(afterUid + 1, UID_MAX).take()],
    pageLimit(context.request),
  );
  const added: number[] = [];
  const updated: UpdatedMessage[] = [];
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
  if (!base) return readAll(context, view, { snapshot, afterUid, newest }, undefined);
  let lost = UidSet.empty;
  if (!isSameState(snapshot, stateOf(view))) {
    // The next sync reports what was removed after the snapshot.
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

/** Returns all messages of a state that still exist. */
async function readAll(
  context: SyncContext,
  view: Selected,
  { snapshot, afterUid, newest }: AllOf,
  reset: true | undefined,
): Promise<SyncResult> {
  const { connection, request } = context;
  const last = snapshot.uidnext - 1;
  const [from, to] = newest ? [1, Math.min(last, afterUid - 1)] : [afterUid + 1, last];
  const there = await listUids(connection, from, to);
  const limit = pageLimit(request);
  const some = newest ? there.takeLast(limit + 1) : there.take(limit + 1);
  const { uids, nextAfterUid } = cut([some], limit, newest);
  const { added, fullAt } = await describe(context, uids);
  const end = fullAt ?? nextAfterUid;
  const token = tokenAfter(undefined, snapshot, end, newest);
  return answer(context, view, { added, updated: [], removed: [] }, token, end, reset);
}

/** The token of a page, by where the next one begins. */
export function tokenAfter(
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

export function answer(
  { mailbox }: Pick<SyncContext, 'mailbox'>,
  { uidvalidity }: Pick<Selected, 'uidvalidity'>,
  { added, updated, removed }: SyncPage,
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
