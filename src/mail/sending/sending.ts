/**
 * Mail that accounts send: accepts a composed message, keeps a copy in the account's Sent, delivers it to its
 * recipients and tracks the status of each.
 *
 * `sends` has a row for each message, `send_recipients` one for each of its recipients. The queue has deliveries of
 * kind `send` for the mail itself; those of kind `copy` change the sender's mailboxes on a mail server. The source
 * of a message is one body, with Bcc, as in the copy in Sent; Bcc is left out whenever it is sent. `suppressions`
 * has the addresses that a domain's accounts can no longer write to.
 */
export { type CarryOutSendsOptions, carryOutSends } from './carry-out-sends.ts';
export { type Copies, EmbeddedCopies, type PinnedLocation } from './copies.ts';
export type { ComposeRequest, GivenAttachment, SendTimes } from './read-request.ts';
export { type Receiver, topReceivers } from './receivers.ts';
export { readReport } from './reports.ts';
export { renewSends } from './restored-sends.ts';
export type { SavedDraft } from './save-draft.ts';
export { Sending } from './send.ts';
export { type Accepted, deleteSendsOf, SEND, type SendStatus } from './send-rows.ts';
export { ServerCopies } from './server-copies.ts';
export { AccountSubmitter } from './submission.ts';
export { findSuppressed, removeSuppressionsOf, Suppressions } from './suppressions.ts';
export { pruneSends } from './waiting-sends.ts';
