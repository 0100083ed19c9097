/**
 * Sync of a mailbox whose server does not report all changes: no QRESYNC (RFC 7162), or NOMODSEQ. CONDSTORE alone, which
 * Gmail has, reports no removals. Postroom compares the server with the state that it saw last, the shadow, and gives each
 * difference a synthetic MODSEQ.
 *
 * Each sync opens the mailbox by EXAMINE and asks by one SEARCH for each flag whether anything changed. Only after a change
 * it fetches the flags of all messages. NOOP on an open session would be shorter, but such a session continues with a
 * mailbox that was renamed, or deleted and created again, and reports the new one's messages under the old UIDVALIDITY.
 */
import type { Database, Queries } from '../../../platform/database/database.ts';
import type { EpochMs } from '../../../platform/time/time.ts';
import { UID_MAX, UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import {
  flagsFromText,
  flagsToText,
  type MailUser,
  SYSTEM_FLAGS,
  type SyncRequest,
  type SyncResult,
  type UpdatedMessage,
} from '../../mailstore/mailstore.ts';
import type { Connection, Selected } from './connection.ts';
import { describe } from './describe-messages.ts';
import { ImapFailure } from './failure.ts';
import { fetchRows, searchUids } from './fetch.ts';
import {
  findDifferences,
  findShadow,
  isEmpty,
  isUpToDate,
  type KnownShadow,
  readKnown,
  type Seen,
  type ShadowRow,
  shadowState,
  writeShadow,
} from './shadow-rows.ts';
import { answer, cut, pageLimit, tokenAfter } from './sync-modseq.ts';
import type { ImapToken, SyncState } from './token.ts';
import { atom, listOf, readFlags, searchKeyOf } from './wire.ts';

/** Attempts in all: if another session updates the shadow meanwhile, the server is asked again. */
const ATTEMPTS = 6;

export interface ShadowOptions {
  readonly database: Database;
  readonly now: () => EpochMs;
}

export class Shadows {
  readonly #database: Database;
  readonly #now: () => number;

  constructor({ database, now }: ShadowOptions) {
    this.#database = database;
    this.#now = now;
  }

  /** Updates the shadow of a mailbox to the server's current state. */
  async refresh(connection: Connection, user: MailUser, mailbox: string): Promise<ShadowRow> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const row = await findShadow(this.#database.read, user, mailbox);
      const selected = await connection.select(mailbox, 'EXAMINE');
      const before = row && (await readKnown(this.#database, row));
      // Another session has updated the shadow since: what this session sees may be older.
      if (row && !before) continue;
      if (before && (await isUnchanged(connection, selected, before))) return before.row;
      const seen = await look(connection, selected);
      const differences = findDifferences(before, seen);
      if (row && isEmpty(differences) && isUpToDate(row, seen)) return row;
      const written = await this.#database.write((tx) =>
        writeShadow(tx, {
          user,
          mailbox,
          before: row,
          seen,
          differences,
          now: this.#now(),
          timeline: this.#database.timeline,
        }),
      );
      if (written) return written;
    }
    throw new ImapFailure('busy', { retryAfter: 1 });
  }

  async sync(
    connection: Connection,
    user: MailUser,
    mailbox: string,
    request: SyncRequest,
    token: ImapToken | undefined,
  ): Promise<SyncResult> {
    const row = await this.refresh(connection, user, mailbox);
    const { uidvalidity } = row;
    const sameMailbox = request.uidvalidity === undefined || request.uidvalidity === uidvalidity;
    const known = token && sameMailbox ? knownToken(token, row) : undefined;
    const reset = sameMailbox && (!token || known) ? undefined : true;
    const { base, snapshot, afterUid, newest } = known ?? {
      base: undefined,
      snapshot: shadowState(row),
      afterUid: request.newest ? UID_MAX + 1 : 0,
      newest: request.newest ?? false,
    };
    const page = await this.#readPage(connection, request, {
      shadowId: row.id,
      base: Number(base?.modseq ?? 0),
      snapshot: Number(snapshot.modseq),
      afterUid,
      newest,
      most: pageLimit(request) + 1,
    });
    const { nextAfterUid } = page;
    const next = tokenAfter(base, snapshot, nextAfterUid, newest);
    return answer({ mailbox }, row, page, next, nextAfterUid, reset);
  }

  async #readPage(connection: Connection, request: SyncRequest, window: ShadowWindow) {
    const { live, gone } =
      window.base === window.snapshot
        ? { live: [], gone: [] }
        : await this.#database.snapshot(async (tx) => ({
            live: await readLive(tx, window),
            gone: await readGone(tx, window),
          }));
    const rows = new Map(live.map((row) => [row.uid, row]));
    const { uids, nextAfterUid } = cut(
      [rows.keys(), gone.map(({ uid }) => uid)],
      pageLimit(request),
      window.newest,
    );
    const isNew = (uid: number) => (rows.get(uid)?.created_modseq ?? 0) > window.base;
    const { added: described, fullAt } = await describe(
      { connection, request },
      uids.filter(isNew),
    );
    const updated: UpdatedMessage[] = [];
    const removed: number[] = [];
    for (const uid of uids) {
      // Pages go downwards only in a first sync: all of their messages are new.
      if (fullAt !== undefined && uid > fullAt) break;
      if (isNew(uid)) continue;
      const row = rows.get(uid);
      if (!row) removed.push(uid);
      else updated.push({ uid, modseq: `${row.modseq}`, flags: flagsFromText(row.flags) });
    }
    // The flags of the shadow: only differences from them are reported later.
    const added = described.map((message) => {
      const row = message.flags && rows.get(message.uid);
      if (!row) return message;
      return { ...message, flags: flagsFromText(row.flags), modseq: `${row.modseq}` };
    });
    return { added, updated, removed, nextAfterUid: fullAt ?? nextAfterUid };
  }
}

/** The server's state of the mailbox that was just opened. */
async function look(connection: Connection, selected: Selected): Promise<Seen> {
  const messages = new Map<number, string>();
  if (selected.exists > 0) {
    await fetchRows(connection, UidSet.between(1, UID_MAX), [atom('FLAGS')], (uid, items) => {
      // A row without flags reports something else.
      const flags = items.get('FLAGS');
      if (flags !== undefined) messages.set(uid, flagsToText(readFlags(listOf(flags))));
    });
  }
  let { uidnext } = selected;
  for (const uid of messages.keys()) uidnext = Math.max(uidnext, uid + 1);
  return { uidvalidity: selected.uidvalidity, uidnext, messages };
}

/**
 * Whether a mailbox is the same as its shadow, tested flag by flag: a list of UIDs takes a tenth of
 * the time of a row for each message. UIDs only grow, so a mailbox with as many messages below the same UIDNEXT has
 * the same messages.
 */
async function isUnchanged(
  connection: Connection,
  { uidvalidity, uidnext, exists, keywords }: Selected,
  { row, messages }: KnownShadow,
): Promise<boolean> {
  if (uidvalidity !== row.uidvalidity || uidnext !== row.uidnext) return false;
  if (exists !== messages.size) return false;
  if (exists === 0) return true;
  const byFlag = new Map([...SYSTEM_FLAGS, ...keywords].map((flag) => [flag, UidSet.empty]));
  for (const [flag, uids] of uidsByFlag(messages)) byFlag.set(flag, UidSet.of(uids));
  for (const [flag, uids] of byFlag) {
    const key = searchKeyOf(flag);
    if (!key || !(await searchUids(connection, key)).equals(uids)) return false;
  }
  return true;
}

function uidsByFlag(messages: KnownShadow['messages']): Map<string, number[]> {
  const byFlag = new Map<string, number[]>();
  for (const [uid, { flags }] of messages) {
    for (const flag of flagsFromText(flags)) {
      const uids = byFlag.get(flag);
      if (uids) uids.push(uid);
      else byFlag.set(flag, [uid]);
    }
  }
  return byFlag;
}

/** The window that a token opens; undefined where the changes after it are no longer known. */
function knownToken(
  token: ImapToken,
  row: ShadowRow,
): Omit<Extract<ImapToken, { kind: 'cursor' }>, 'kind'> | undefined {
  const within = ({ modseq }: SyncState, last: bigint) =>
    modseq >= BigInt(row.oldest_modseq) && modseq <= last;
  const now = shadowState(row);
  if (token.kind === 'state') {
    const { state } = token;
    if (!within(state, now.modseq)) return undefined;
    return { base: state, snapshot: now, afterUid: 0, newest: false };
  }
  if (token.kind === 'foreign') return undefined;
  const { base, snapshot } = token;
  const isKnown = within(snapshot, now.modseq) && (!base || within(base, snapshot.modseq));
  return isKnown ? token : undefined;
}

interface ShadowWindow {
  readonly shadowId: number;
  /** 0: the client has nothing yet. */
  readonly base: number;
  readonly snapshot: number;
  readonly afterUid: number;
  /** Whether the highest UIDs come first. */
  readonly newest: boolean;
  /** The most rows of each kind. */
  readonly most: number;
}

/** Existing messages that changed in the window, in the order of the page. */
function readLive(queries: Queries, window: ShadowWindow) {
  const { shadowId, base, snapshot, afterUid, newest, most } = window;
  const query = queries
    .selectFrom('shadow_messages')
    .select(['uid', 'created_modseq', 'modseq', 'flags'])
    .where('shadow_id', '=', shadowId)
    .where('modseq', '>', base)
    .where('created_modseq', '<=', snapshot)
    .where('uid', newest ? '<' : '>', afterUid)
    .orderBy('uid', newest ? 'desc' : 'asc');
  return (most === Number.POSITIVE_INFINITY ? query : query.limit(most)).execute();
}

/** Messages that the client had and that were removed in the window; the next sync reports later removals. */
function readGone(queries: Queries, { shadowId, base, snapshot, ...page }: ShadowWindow) {
  const query = queries
    .selectFrom('shadow_tombstones')
    .select('uid')
    .where('shadow_id', '=', shadowId)
    .where('uid', '>', page.afterUid)
    .where('created_modseq', '<=', base)
    .where('modseq', '>', base)
    .where('modseq', '<=', snapshot)
    .orderBy('uid');
  return (page.most === Number.POSITIVE_INFINITY ? query : query.limit(page.most)).execute();
}
