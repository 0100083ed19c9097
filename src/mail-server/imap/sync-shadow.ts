/**
 * Sync of a mailbox whose server does not tell what changed: no CONDSTORE (RFC 7162), NOMODSEQ, or
 * CONDSTORE without QRESYNC, which tells nothing of removals. Postroom compares the server with what
 * it saw last, the shadow, and gives each difference a synthetic MODSEQ.
 *
 * A connection that stays selected and is in step with the shadow needs one NOOP to know that nothing
 * changed: servers tell a session of what others did to its mailbox (RFC 3501 section 5.2). Otherwise
 * the flags of all messages are fetched, or with CONDSTORE those that changed, and the UIDs.
 */
import type { Database } from '../../database/database.ts';
import type {
  MailUser,
  SyncRequest,
  SyncResult,
  UpdatedMessage,
} from '../../mailstore/mailstore.ts';
import { flagsFromText } from '../../mailstore/mailstore.ts';
import type { Connection } from './connection.ts';
import { ImapFailure } from './failure.ts';
import { ChangeCollector, fetchRows, listUids } from './fetch.ts';
import type { Selected } from './selected.ts';
import { readFlags } from './server-flags.ts';
import {
  findShadow,
  readGone,
  readLive,
  readMessages,
  type Seen,
  type ShadowRow,
  type ShadowWindow,
  shadowState,
  writeShadow,
} from './shadow-rows.ts';
import { cut, describe, pageLimit } from './sync-modseq.ts';
import { formatCursor, formatState, type ImapToken, type SyncState } from './token.ts';
import { UID_MAX, UidSet } from './uid-set.ts';
import { atom, listOf, sequence } from './wire.ts';

/** Others may bring the shadow further while the server is being asked: then it is asked again. */
const ATTEMPTS = 6;

/** For so long a mailbox is taken for the one of its name without asking; see `confirmSelected`. */
const CONFIRMED_MS = 10_000;

export interface ShadowOptions {
  readonly database: Database;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

export class Shadows {
  readonly #database: Database;
  readonly #now: () => number;

  constructor({ database, now }: ShadowOptions) {
    this.#database = database;
    this.#now = now;
  }

  /** Brings the shadow of a mailbox to what the server has now. */
  async refresh(connection: Connection, user: MailUser, mailbox: string): Promise<ShadowRow> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const before = await findShadow(this.#database.read, user, mailbox);
      const inStep = await checkInStep(connection, mailbox, before);
      if (inStep === 'unchanged' && before) return before;
      // After NOOP the session's view is up to date; else only a new one surely is.
      const selected =
        (inStep === 'changed' && connection.selected) ||
        (await connection.select(mailbox, 'EXAMINE'));
      if (before && isUntouched(before, selected)) return before;
      selected.news = false;
      const seen = await this.#look(connection, selected, before);
      const row = await this.#database.write((tx) =>
        writeShadow(tx, { user, mailbox, before, seen, now: this.#now() }),
      );
      if (!row) continue;
      selected.shadowVersion = row.modseq;
      return row;
    }
    throw new ImapFailure('busy', { retryAfter: 1 });
  }

  async #look(
    connection: Connection,
    selected: Selected,
    before: ShadowRow | undefined,
  ): Promise<Seen> {
    const { uidvalidity, modseq: serverModseq } = selected;
    const known =
      before?.server_modseq && before.uidvalidity === uidvalidity && serverModseq !== undefined
        ? before
        : undefined;
    const messages = known
      ? await this.#lookForChanges(connection, known)
      : await fetchFlags(connection, UidSet.between(1, UID_MAX));
    let uidnext = selected.uidnext;
    for (const uid of messages.keys()) uidnext = Math.max(uidnext, uid + 1);
    return { uidvalidity, uidnext, messages, serverModseq };
  }

  /** With CONDSTORE, flags are asked for where they changed, and UIDs tell what is gone. */
  async #lookForChanges(
    connection: Connection,
    { id, server_modseq }: ShadowRow,
  ): Promise<Map<number, readonly string[]>> {
    const uids = await listUids(connection, 1, UID_MAX);
    const collector = new ChangeCollector();
    if (uids.size > 0) {
      const modifiers = [atom('CHANGEDSINCE'), atom(server_modseq ?? '1')];
      const args = [sequence('1:*'), [atom('UID'), atom('FLAGS')], modifiers];
      await connection.command('UID FETCH', args, { FETCH: collector.onFetch });
    }
    const known = new Map<number, string>();
    for (const { uid, flags } of await readMessages(this.#database.read, id)) {
      known.set(uid, flags);
    }
    const messages = new Map<number, readonly string[]>();
    const missing: number[] = [];
    for (const uid of uids.take()) {
      const changed = collector.changed.get(uid);
      const flags = known.get(uid);
      if (changed) messages.set(uid, readFlags(listOf(changed.flags)));
      else if (flags !== undefined) messages.set(uid, flagsFromText(flags));
      else missing.push(uid);
    }
    for (const [uid, flags] of await fetchFlags(connection, UidSet.of(missing))) {
      messages.set(uid, flags);
    }
    return messages;
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
    const { base, snapshot, afterUid } = known ?? {
      base: undefined,
      snapshot: shadowState(row),
      afterUid: 0,
    };
    const page = await this.#readPage(connection, request, {
      shadowId: row.id,
      base: Number(base?.modseq ?? 0),
      snapshot: Number(snapshot.modseq),
      afterUid,
      most: pageLimit(request) + 1,
    });
    const { nextAfterUid, ...changes } = page;
    return {
      mailbox,
      uidvalidity,
      token:
        nextAfterUid === undefined
          ? formatState(snapshot)
          : formatCursor(base, snapshot, nextAfterUid),
      changes,
      ...(reset && { reset }),
      ...(nextAfterUid !== undefined && { hasMore: true as const }),
    };
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
    const goneRows = new Map(gone.map((row) => [row.uid, row]));
    const { uids, nextAfterUid } = cut([rows.keys(), goneRows.keys()], pageLimit(request));
    const isNew = (uid: number) => {
      const row = rows.get(uid) ?? goneRows.get(uid);
      return (row?.created_modseq ?? 0) > window.base;
    };
    const { added: described, fullAt } = await describe(
      { connection, request },
      uids.filter(isNew),
    );
    const updated: UpdatedMessage[] = [];
    const removed: { uid: number }[] = [];
    for (const uid of uids) {
      if (fullAt !== undefined && uid > fullAt) break;
      if (isNew(uid)) continue;
      const row = rows.get(uid);
      if (!row) removed.push({ uid });
      else updated.push({ uid, modseq: `${row.modseq}`, flags: flagsFromText(row.flags) });
    }
    // The flags that the shadow has: only what differs from them is told later.
    const added = described.map((message) => {
      const row = message.flags && rows.get(message.uid);
      return row ? { ...message, flags: flagsFromText(row.flags) } : message;
    });
    return { added, updated, removed, nextAfterUid: fullAt ?? nextAfterUid };
  }
}

/** Whether the session of a connection shows that nothing happened since the shadow was written. */
async function checkInStep(
  connection: Connection,
  mailbox: string,
  before: ShadowRow | undefined,
): Promise<'unchanged' | 'changed' | 'unknown'> {
  const { selected } = connection;
  if (!before || selected?.mailbox !== mailbox || selected.uidvalidity !== before.uidvalidity) {
    return 'unknown';
  }
  if (selected.shadowVersion !== before.modseq || connection.hasCondstore) return 'unknown';
  if (performance.now() - selected.confirmedAt > CONFIRMED_MS) {
    if (!(await connection.confirmSelected())) return 'unknown';
  }
  await connection.command('NOOP');
  return selected.news ? 'changed' : 'unchanged';
}

/** With CONDSTORE these three tell by themselves that nothing came, went or changed. */
function isUntouched(before: ShadowRow, { uidvalidity, modseq, uidnext, exists }: Selected) {
  return (
    modseq !== undefined &&
    before.server_modseq === `${modseq}` &&
    before.uidvalidity === uidvalidity &&
    before.uidnext === uidnext &&
    before.messages === exists
  );
}

async function fetchFlags(
  connection: Connection,
  uids: UidSet,
): Promise<Map<number, readonly string[]>> {
  const messages = new Map<number, readonly string[]>();
  if (uids.size === 0 || connection.selected?.exists === 0) return messages;
  await fetchRows(connection, uids, [atom('FLAGS')], (uid, items) => {
    // A row without flags tells of something else.
    if (items.has('FLAGS')) messages.set(uid, readFlags(listOf(items.get('FLAGS'))));
  });
  return messages;
}

/** The window that a token opens; undefined where what came after it is not known any more. */
function knownToken(
  token: ImapToken,
  row: ShadowRow,
): { base: SyncState | undefined; snapshot: SyncState; afterUid: number } | undefined {
  const within = ({ modseq }: SyncState, last: bigint) =>
    modseq >= BigInt(row.oldest_modseq) && modseq <= last;
  const now = shadowState(row);
  if (token.kind === 'state') {
    const { state } = token;
    return within(state, now.modseq) ? { base: state, snapshot: now, afterUid: 0 } : undefined;
  }
  if (token.kind === 'foreign') return undefined;
  const { base, snapshot, afterUid } = token;
  const isKnown = within(snapshot, now.modseq) && (!base || within(base, snapshot.modseq));
  return isKnown ? { base, snapshot, afterUid } : undefined;
}
