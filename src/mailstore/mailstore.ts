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
export {
  enqueueForMailbox,
  type InboundDelivery,
  MAILBOX,
  type MailboxFailure,
  type MailboxPayload,
  type MailboxResult,
  mailboxDestination,
  mailboxPayloads,
  mailOrigin,
  mailUser,
} from './mailbox-delivery.ts';
export { canonicalMailboxName, defaultMailboxes, readNewName } from './mailbox-names.ts';
export { prependHeader, stageMessage } from './stage-message.ts';
export {
  type AddedMessage,
  type Alongside,
  type Appended,
  type AppendTarget,
  type ByteRange,
  type ChangedMailbox,
  type Expunged,
  type FlagChange,
  type Flagged,
  hasTexts,
  type KeptMessage,
  type MailboxState,
  type MailboxSummary,
  type MailOrigin,
  type Mailstore,
  type MailUser,
  type Message,
  type MessageField,
  type MessageSet,
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
  type Transit,
  type UpdatedMessage,
} from './store.ts';
