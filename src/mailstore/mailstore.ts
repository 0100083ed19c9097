/**
 * Mailboxes and their messages by UID and MODSEQ (RFC 3501, RFC 7162), behind one interface.
 *
 * `embedded/` keeps them in Postroom's own database: `mailboxes` (UIDVALIDITY, UIDNEXT,
 * HIGHESTMODSEQ), `messages` (flags, envelope, MIME tree with byte offsets; the source is in
 * `bodies/`), and `tombstones` of what was removed, so that a sync can tell. `mail-server/` has the
 * second implementation of the interface, on an IMAP server that the operator runs.
 */
export { announceChanges } from './announce.ts';
export { EmbeddedMailstore, type EmbeddedOptions } from './embedded/embedded.ts';
export { createSearchSource } from './embedded/search-source.ts';
export { changeFlags, flagsFromText, flagsToText, normalizeFlags } from './flags.ts';
export type { MailboxFailure, MailboxResult, MailServer, ServerMail } from './mail-server.ts';
export { canonicalMailboxName, defaultMailboxes, readNewName } from './mailbox-names.ts';
export { describeMessage, prependHeader, stageMessage } from './stage-message.ts';
export {
  type AddedMessage,
  type Appended,
  type AppendedByClient,
  type AppendRequest,
  type AppendTarget,
  type ByteRange,
  type ChangedMailbox,
  type Description,
  type Expunged,
  type FlagChange,
  type Flagged,
  hasTexts,
  type MailboxState,
  type MailboxSummary,
  type Mailstore,
  type MailUser,
  type Message,
  type MessageField,
  type MessageSet,
  type MessageTexts,
  messageFields,
  type PartContent,
  type Relocated,
  type SearchFilter,
  type SearchMatch,
  type SearchRequest,
  type SearchResult,
  type StagedMessage,
  type SyncRequest,
  type SyncResult,
  type UpdatedMessage,
} from './store.ts';
export { formatThreadId, threadByHeader, threadHeaders } from './threads.ts';
