/**
 * Mailboxes and their messages by UID and MODSEQ (RFC 3501, RFC 7162), behind one interface.
 *
 * `embedded.ts` keeps them in Postroom's own database: `mailboxes` (UIDVALIDITY, UIDNEXT,
 * HIGHESTMODSEQ), `messages` (flags, envelope, MIME tree with byte offsets; the source is in
 * `bodies/`), and `tombstones` of removed messages, so that a sync can report them. `mail-server/` has the
 * second implementation of the interface, on an IMAP server that the operator runs.
 */
import type { ListChange, MailboxChange } from '../changes/changes.ts';
import type { ChangedMailbox, Mailstore, MailUser } from './store.ts';

export {
  type Advanced,
  advanceByName,
  lockByName,
  type PlainMessage,
  plainColumns,
} from './append-messages.ts';
export { EmbeddedMailstore } from './embedded.ts';
export { type ImapColumn, type ImapRow, ImapStore } from './imap-store.ts';
export type { ImapTexts } from './kept-texts.ts';
export { type MailboxIndex, positionOf } from './mailbox-indexes.ts';
export {
  mailboxColumns,
  mailboxNotFound,
  type OpenMailbox,
  renewUidvalidity,
  requireSame,
} from './mailboxes.ts';
export { isFact, type MessageFact } from './message-facts.ts';
export type { MadeNumbers } from './message-numbers.ts';
export { marked, pruneTombstones } from './purge-mailboxes.ts';
export { fits, type Quotas, quotaExceeded } from './quotas.ts';
export type { SearchMatch, SearchRequest, SearchResult } from './search-request.ts';
export { createSearchSource } from './search-source.ts';
export {
  describeMessage,
  describeStored,
  formatThreadId,
  prependHeader,
  stageMessage,
  threadByHeader,
  threadHeaders,
} from './stage-message.ts';
export {
  type AddedMessage,
  type Appended,
  type AppendedByClient,
  type AppendRequest,
  type AppendTarget,
  type ByteRange,
  type ChangedMailbox,
  type Expunged,
  enterTurnOf,
  type FlagChange,
  type Flagged,
  type FlagStore,
  hasTexts,
  type MailboxRow,
  type MailboxState,
  type MailboxSummary,
  type Mailstore,
  type MailUser,
  type Message,
  type MessageField,
  type MessageSet,
  type MessageTexts,
  messageFields,
  type NewMessage,
  OF_A_TURN,
  type PartContent,
  partiesOf,
  type Relocated,
  type StagedMessage,
  type SyncRequest,
  type SyncResult,
  takeTurnOf,
  tenantOf,
  type UpdatedMessage,
} from './store.ts';
export {
  canonicalLevels,
  canonicalMailboxName,
  changeFlags,
  defaultMailboxes,
  flagsFromText,
  flagsToText,
  hasFlag,
  isBelow,
  KEYWORD,
  NEW_NAME_MAX,
  normalizeFlags,
  readNewName,
  readToken,
  SEPARATOR,
  SYSTEM_FLAGS,
} from './syntax.ts';
export {
  bytesOfAllAccounts,
  type MailTotals,
  totalsOfAccounts,
  totalsOfDomains,
} from './totals.ts';

type Publish = (change: MailboxChange | ListChange) => void;

/** Publishes the changes that an operation of a store made, and returns its result. */
export function publishing(publish: Publish) {
  return <Changed extends ChangedMailbox>(changed: Changed): Changed => {
    for (const change of changed.changes) publish(change);
    return changed;
  };
}

/**
 * Wraps a mail store so that every change it makes is published after its commit. The store itself knows no
 * listeners: its operations return the changes they made.
 */
export function publishChanges(mailstore: Mailstore, publish: Publish): Mailstore {
  const published = publishing(publish);
  /** Published last: a client that lists the mailboxes after it finds the new list. */
  const listed = ({ accountId }: MailUser, changed: ChangedMailbox): ChangedMailbox => {
    published(changed);
    publish({ kind: 'mailboxes', accountId });
    return changed;
  };
  return {
    listMailboxes: (user) => mailstore.listMailboxes(user),
    search: (user, request) => mailstore.search(user, request),
    checkSync: (request) => mailstore.checkSync(request),
    sync: (user, request) => mailstore.sync(user, request),
    fetchMessage: (user, mailbox, uid) => mailstore.fetchMessage(user, mailbox, uid),
    fetchPart: (user, mailbox, uid, part) => mailstore.fetchPart(user, mailbox, uid, part),
    createMailbox: async (user, ...of) => listed(user, await mailstore.createMailbox(user, ...of)),
    renameMailbox: async (user, ...to) => listed(user, await mailstore.renameMailbox(user, ...to)),
    deleteMailbox: async (user, ...of) => listed(user, await mailstore.deleteMailbox(user, ...of)),
    appendMessage: async (user, request, source, within) =>
      published(await mailstore.appendMessage(user, request, source, within)),
    setFlags: async (user, set, ...to) => published(await mailstore.setFlags(user, set, ...to)),
    move: async (user, set, target, within) =>
      published(await mailstore.move(user, set, target, within)),
    copy: async (user, set, target, within) =>
      published(await mailstore.copy(user, set, target, within)),
    expunge: async (user, ...of) => published(await mailstore.expunge(user, ...of)),
  };
}

/* Mail on its way to a mail server that the operator runs, where it has the mailboxes, and what becomes of it. */

/** Why a mailbox did not get a message. */
export interface MailboxFailure {
  /** Reply code (RFC 5321 section 4.2); absent where the failure is no reply. */
  readonly status?: number;
  /** RFC 3463: the mail server's, or ours where it gave none. */
  readonly enhancedStatus: string;
  /** One line of at most 500 characters. */
  readonly text: string;
}

/** How an attempt for one mailbox ended. */
export type MailboxResult =
  | { readonly result: 'delivered' }
  | { readonly result: 'temporary' | 'permanent'; readonly error: MailboxFailure };

/** A message on its way to the mail server, with its trace fields. */
export interface ServerMail {
  /** Reads the source from its start; may be called several times. */
  readonly open: () => AsyncIterable<Uint8Array>;
  /** Octets. */
  readonly size: number;
  /** Reverse-path without angle brackets; `''` is the null sender. */
  readonly from: string;
}
