/**
 * Outgoing mail: what accounts send, forwarding and bounces. Prepares a message, makes one attempt to send it, and
 * reports the outcome. `delivery/` decides what follows a failure, and the queue decides when the next attempt is made.
 *
 * Stores nothing. A rewritten sender contains all that is needed to read it back (`rewrite-sender.ts`), and a message
 * is read from its source, twice for each attempt.
 */
export {
  buildDsn,
  type DsnOptions,
  mayBounce,
  type RecipientStatus,
} from './build-dsn.ts';
export {
  type DeliveredLocal,
  type LateBounce,
  type LocalMail,
  type LocalMailDelivery,
  MailboxClosed,
  type NotedReport,
  type NoteReport,
  type PlainLocal,
  type PreparedLocal,
  type ReadReport,
} from './local-mail.ts';
export {
  failure,
  mailDelays,
  mailDestination,
  type SendError,
  type SendOutcome,
  toAttempted,
} from './outcome.ts';
export type { SendSlot } from './patience.ts';
export {
  findLoop,
  type PreparedMessage,
  prepareForward,
  prepareSubmission,
} from './prepare-forward.ts';
export type { SenderVerdict } from './rewrite-from.ts';
export { REWRITTEN, SenderRewriting } from './rewrite-sender.ts';
export {
  MessageSender,
  type MessageSenderOptions,
  type Smarthost,
} from './send-message.ts';
