/**
 * Mailboxes on a mail server that the operator runs: `imap/` is the mail store on an IMAP server, `lmtp.ts` delivers
 * inbound mail to it. Owns the tables `shadow_*`: the last known state of mailboxes whose server does not report all
 * changes.
 */
export type { ImapAppend } from './imap-client/append-message.ts';
export { ImapMailstore, type ImapServer, type RawConnection } from './imap-client/imap.ts';
export { logIn } from './imap-client/log-in.ts';
export { findFailure } from './imap-client/probe.ts';
export { markAllShadows, markShadowsOf, purgeShadows } from './imap-client/shadow-rows.ts';
export { ServerDelivery, type ServerDeliveryOptions } from './server-delivery.ts';
