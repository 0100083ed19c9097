/**
 * Mailboxes and their messages by UID and MODSEQ (RFC 3501, RFC 7162), behind one interface.
 *
 * `embedded/` keeps them in Postroom's own database: `mailboxes` (UIDVALIDITY, UIDNEXT,
 * HIGHESTMODSEQ), `messages` (flags, envelope, MIME tree with byte offsets; the source is in
 * `bodies/`), and `tombstones` of what was removed, so that a sync can tell. `imap/` has them on an
 * IMAP server that the operator runs, the second implementation of the same interface; `lmtp/` brings
 * inbound mail to it.
 */
export { announceChanges } from './announce.ts';
export { EmbeddedMailstore, type EmbeddedOptions } from './embedded/embedded.ts';
export {
  ImapMailstore,
  type ImapOptions,
  type ImapServer,
  imapDefaults,
} from './imap/imap.ts';
export {
  createInboundDelivery,
  type InboundDelivery,
  type InboundOptions,
} from './lmtp/inbound.ts';
export type { ImapAppend } from './lmtp/transport.ts';
export {
  MAILBOX,
  type MailboxPayload,
  type MailboxResult,
  mailboxDestination,
} from './mailbox-delivery.ts';
export { holdMessage, prependHeader, stageMessage } from './stage-message.ts';
export {
  type AddedMessage,
  type Alongside,
  type Appended,
  type AppendTarget,
  type ByteRange,
  type FlagChange,
  hasTexts,
  type KeptMessage,
  type MailboxState,
  type MailOrigin,
  type Mailstore,
  type MailUser,
  type Message,
  type MessageField,
  type Moved,
  messageFields,
  type PartContent,
  type StagedMessage,
  type SyncRequest,
  type SyncResult,
  type Transit,
  type UpdatedMessage,
} from './store.ts';
