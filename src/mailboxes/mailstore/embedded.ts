/** The mail store in Postroom's own database. */

import type { Database, Queries } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { Search } from '../search/search.ts';
import { ClientAppends } from './append-by-client.ts';
import { isSurviving, MessageWriter } from './append-messages.ts';
import { MessageEditor } from './edit-messages.ts';
import { type Expired, expireSome } from './expire-messages.ts';
import { ImapStore } from './imap-store.ts';
import { LongRequests, takeTurnOf, WriteLine } from './mail-user.ts';
import { Mailboxes, mailboxNotFound, stateOf } from './mailboxes.ts';
import { OpaqueIds } from './opaque-ids.ts';
import {
  markMailboxesOf,
  ownTombstones,
  pruneTombstones,
  purgeMailboxes,
} from './purge-mailboxes.ts';
import { Quotas } from './quotas.ts';
import { ChangeReader, type ChangeWindow, pieceOf } from './read-changes.ts';
import { MessageReader } from './read-message.ts';
import { MessageSearch } from './search-messages.ts';
import type {
  MailboxRow,
  Mailstore,
  MailUser,
  MessageSet,
  SyncRequest,
  SyncResult,
} from './store.ts';
import { formatCursor, parseSyncToken, readToken, type SyncToken } from './syntax.ts';
import { MailboxWriter } from './write-mailboxes.ts';

export interface EmbeddedOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  /** The secret of the ids that accounts see; the same on each node, and after each start. */
  readonly idSecret: string;
  /** The search index; without it a search for words is refused. */
  readonly search?: Pick<Search, 'find' | 'isBehind'> | undefined;
  /** Octets that an account may hold where it has no quota of its own; 0 for no limit. */
  readonly quotaBytes?: number;
  readonly now?: () => EpochMs;
  /** Octets of envelopes and structures in one page of a sync. */
  readonly pageBytes?: number;
}

/** Messages of a change that is a long request: writes of others wait behind it. */
const MANY_MESSAGES = 200;

/** A page with more fields than UIDs is limited also when the client set no limit. */
const PAGE_WITH_FIELDS = 1_000;

/**
 * Octets of stored envelopes and structures in one page. A thousand usual messages have less. One message of
 * 300 KB can have half a megabyte of them: without this limit a page of such messages would take all memory.
 */
const PAGE_BYTES = 4 * 1024 * 1024;

export class EmbeddedMailstore implements Mailstore {
  readonly quotas: Quotas;
  /** Where writes to an account's mailboxes wait for each other. */
  readonly line: WriteLine;
  /** What only the IMAP server reads. */
  readonly imap: ImapStore;
  /** Adds messages in transactions of its callers, who publish the changes after the commit. */
  readonly writer: MessageWriter;
  /** Changes and removes them, also in transactions of its callers. */
  readonly editor: MessageEditor;
  readonly #database: Database;
  readonly #bodies: Bodies;
  readonly #mailboxes: Mailboxes;
  readonly #reader: MessageReader;
  readonly #changes: ChangeReader;
  readonly #appends: ClientAppends;
  readonly #search: MessageSearch;
  readonly #mailboxWriter: MailboxWriter;
  readonly #longRequests = new LongRequests();
  readonly #now: () => number;

  constructor({
    database,
    bodies,
    idSecret,
    search,
    quotaBytes = 0,
    now = Date.now,
    pageBytes = PAGE_BYTES,
  }: EmbeddedOptions) {
    this.#database = database;
    this.#bodies = bodies;
    this.#now = now;
    this.#mailboxes = new Mailboxes(database, now);
    this.#mailboxWriter = new MailboxWriter(database, this.#mailboxes);
    this.quotas = new Quotas(database, quotaBytes);
    this.line = new WriteLine(database);
    const sources = { bodies, ids: new OpaqueIds(idSecret) };
    const reading = { ...sources, database, mailboxes: this.#mailboxes };
    this.#reader = new MessageReader(reading);
    this.#changes = new ChangeReader({ queries: database.read, sources, pageBytes });
    const { quotas, line } = this;
    const longRequests = this.#longRequests;
    this.imap = new ImapStore({ ...reading, quotas, longRequests });
    this.#search = new MessageSearch({ ...reading, search, longRequests });
    this.writer = new MessageWriter({ ...reading, now });
    this.editor = new MessageEditor({ ...reading, line, quotas, now });
    const { writer, editor } = this;
    this.#appends = new ClientAppends({ ...reading, line, quotas, writer, editor });
  }

  /** Makes the mailboxes of a new account, in the transaction that creates it. */
  async makeMailboxes(tx: Queries, user: MailUser): Promise<void> {
    await this.#mailboxes.makeDefaults(tx, user);
  }

  readonly listMailboxes: Mailstore['listMailboxes'] = (user) => this.#mailboxes.list(user);

  /** The current state of the accounts' mailboxes, by account: one query for all. */
  readonly tipsOf: Mailboxes['tipsOf'] = (ids) => this.#mailboxes.tipsOf(ids);

  checkSync(request: SyncRequest): void {
    readToken(request, parseSyncToken);
  }

  async sync(user: MailUser, request: SyncRequest): Promise<SyncResult> {
    const token = readToken(request, parseSyncToken);
    const mailbox = request.row ?? (await this.#mailboxes.find(user, request.mailbox));
    if (isUpToDate(mailbox, request, token)) return unchanged(mailbox);
    const result = await this.#readInTurn(user, mailbox, request, token);
    if (!result) throw mailboxNotFound(request.mailbox);
    return result;
  }

  /** Changes many messages when it is the account's turn. */
  #inTurn<T>(user: MailUser, { uids }: MessageSet, change: () => Promise<T>): Promise<T> {
    return uids.length > MANY_MESSAGES ? this.#longRequests.run(user, change) : change();
  }

  /** What is more than one piece of work is a long request; where that turns out, it begins anew as one. */
  async #readInTurn(
    user: MailUser,
    mailbox: MailboxRow,
    request: SyncRequest,
    token: SyncToken | undefined,
  ) {
    const read = (between: () => Promise<void>) => this.#readChanges(user, request, token, between);
    if (!mayBeLong(mailbox, request, token)) {
      try {
        return await read(stopHere);
      } catch (error) {
        if (!(error instanceof MorePieces)) throw error;
      }
    }
    return this.#longRequests.run(user, () => read(() => takeTurnOf(user)));
  }

  /** Reads token and changes from one state, which may be later than the one that was read before. */
  #readChanges(
    user: MailUser,
    request: SyncRequest,
    token: SyncToken | undefined,
    between: () => Promise<void>,
  ): Promise<SyncResult | undefined> {
    return this.#database.snapshot(async (tx) => {
      const current = await this.#mailboxes.findIn(tx, user, request.mailbox);
      if (!current) return undefined;
      const { window, reset } = openWindow(current, request, token);
      const page = await this.#changes.read(tx, { ...window, between });
      const { nextAfterUid, ...changes } = page;
      return {
        ...stateOf(current),
        token:
          nextAfterUid === undefined ? String(window.snapshot) : formatCursor(window, nextAfterUid),
        changes,
        ...(reset && { reset }),
        ...(nextAfterUid !== undefined && { hasMore: true as const }),
      };
    });
  }

  readonly fetchMessage: Mailstore['fetchMessage'] = (...one) => this.#reader.message(...one);

  readonly fetchPart: Mailstore['fetchPart'] = (...one) => this.#reader.part(...one);

  readonly appendMessage: Mailstore['appendMessage'] = (user, request, source, within) => {
    const { mailbox, ...message } = request;
    async function* one() {
      yield { ...message, source };
    }
    return this.#appends.append(user, mailbox, one(), within);
  };

  /** Appends messages as they come, all in one transaction (RFC 3502). @throws Refusal as `appendMessage` does */
  readonly appendMessages: ClientAppends['append'] = (...messages) =>
    this.#appends.append(...messages);

  /**
   * Puts messages in the place of others, which are removed, in one transaction (RFC 8508).
   *
   * @throws Refusal as `appendMessage` does, and message_not_found where one of them is gone: then nothing is done
   */
  readonly replaceMessages: ClientAppends['replace'] = (...messages) =>
    this.#appends.replace(...messages);

  readonly search: Mailstore['search'] = (...search) => this.#search.run(...search);

  readonly createMailbox: Mailstore['createMailbox'] = (...of) => this.#mailboxWriter.create(...of);

  readonly renameMailbox: Mailstore['renameMailbox'] = (...of) => this.#mailboxWriter.rename(...of);

  readonly deleteMailbox: Mailstore['deleteMailbox'] = (...of) => this.#mailboxWriter.remove(...of);

  readonly setFlags: MessageEditor['setFlags'] = (user, set, ...to) =>
    this.#inTurn(user, set, () => this.editor.setFlags(user, set, ...to));

  readonly move: Mailstore['move'] = (user, set, ...to) =>
    this.#inTurn(user, set, () => this.editor.relocate(user, 'move', set, ...to));

  readonly copy: Mailstore['copy'] = (user, set, ...to) =>
    this.#inTurn(user, set, () => this.editor.relocate(user, 'copy', set, ...to));

  readonly expunge: Mailstore['expunge'] = (user, set, ...within) =>
    this.#inTurn(user, set, () => this.editor.expunge(user, set, ...within));

  /** Deletes the mailboxes of deleted accounts, in the caller's transaction. */
  readonly markForPurge = markMailboxesOf;

  /** Removes a part of what deleted mailboxes have. @returns false where nothing is left */
  purge(): Promise<boolean> {
    return purgeMailboxes(this.#database, this.#bodies);
  }

  /**
   * Removes messages that were in Trash or Junk for longer than `keptMs`, of some mailboxes at a time; see
   * `expireSome`. The caller publishes the changes.
   */
  expireTrash(keptMs: number, after: number): Promise<Expired | undefined> {
    const options = { database: this.#database, bodies: this.#bodies, editor: this.editor };
    const now = this.#now;
    return expireSome({ ...options, now }, now() - keptMs, after);
  }

  /**
   * Removes tombstones that are older than `keptMs`; tokens from before then get a reset.
   *
   * @param keptMs how long tombstones are kept
   * @param signal stops it early
   */
  pruneTombstones(keptMs: number, signal?: AbortSignal): Promise<number> {
    return pruneTombstones(this.#database, ownTombstones, this.#now() - keptMs, signal);
  }
}

/** The most frequent sync by far: nothing has changed since the last one. */
function isUpToDate(mailbox: MailboxRow, request: SyncRequest, token: SyncToken | undefined) {
  return (
    token?.kind === 'modseq' &&
    token.modseq === mailbox.highestmodseq &&
    request.uidvalidity === String(mailbox.uidvalidity)
  );
}

function unchanged(mailbox: MailboxRow): SyncResult {
  return { ...stateOf(mailbox), changes: { added: [], updated: [], removed: [] } };
}

/** A sync that was thought to be short is not. */
class MorePieces extends Error {}

async function stopHere(): Promise<never> {
  throw new MorePieces();
}

/** Whether a sync is expected to be more than one piece of work: a first one, or the next page of one. */
function mayBeLong(
  { messages }: MailboxRow,
  { limit = Number.POSITIVE_INFINITY, fields = [] }: SyncRequest,
  token: SyncToken | undefined,
): boolean {
  return token?.kind !== 'modseq' && Math.min(limit, messages) >= pieceOf(fields);
}

/** The two states between which this sync reports changes, and the UID after which it starts. */
function openWindow(
  mailbox: MailboxRow,
  request: SyncRequest,
  token: SyncToken | undefined,
): { window: Omit<ChangeWindow, 'between'>; reset: true | undefined } {
  const fields = request.fields ?? [];
  const shared = {
    mailboxId: mailbox.id,
    fields,
    limit: request.limit ?? (fields.length > 0 ? PAGE_WITH_FIELDS : undefined),
  };
  const { newest = false } = request;
  const upwards = {
    ...shared,
    base: 0,
    snapshot: mailbox.highestmodseq,
    afterUid: 0,
    newest: false,
  };
  const anew = newest ? { ...upwards, newest, afterUid: Number.MAX_SAFE_INTEGER } : upwards;
  const sameMailbox =
    request.uidvalidity === undefined || request.uidvalidity === String(mailbox.uidvalidity);
  if (!token) return { window: anew, reset: sameMailbox ? undefined : true };
  if (!sameMailbox || !isKnown(mailbox, token)) return { window: anew, reset: true };
  const window =
    token.kind === 'modseq'
      ? { ...upwards, base: token.modseq }
      : { ...shared, ...cursorOf(token) };
  return { window, reset: undefined };
}

function cursorOf({ base, snapshot, uid, newest }: Extract<SyncToken, { kind: 'cursor' }>) {
  return { base, snapshot, afterUid: uid, newest };
}

/** Whether all changes after the token are still known, and none of them is in the future or was lost. */
function isKnown(mailbox: MailboxRow, token: SyncToken): boolean {
  const { highestmodseq, pruned_modseq } = mailbox;
  const last = token.kind === 'modseq' ? token.modseq : token.snapshot;
  if (!isSurviving(mailbox, last)) return false;
  if (token.kind === 'modseq') {
    return token.modseq >= 1 && token.modseq >= pruned_modseq && token.modseq <= highestmodseq;
  }
  const { base, snapshot, newest } = token;
  // Only a client that has nothing yet can begin with the newest.
  if (newest && base !== 0) return false;
  const oldest = base === 0 ? snapshot : base;
  if (!isSurviving(mailbox, oldest)) return false;
  return oldest >= pruned_modseq && base < snapshot && snapshot <= highestmodseq;
}
