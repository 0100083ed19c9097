/**
 * Mailboxes on a mail server that the operator runs: `imap/` is the mail store on an IMAP server, `lmtp.ts`
 * brings inbound mail to it. Owns the tables `shadow_*`: what was seen of a mailbox whose server cannot tell what
 * changed.
 */
export { ImapMailstore, type ImapServer } from './imap/imap.ts';
export { logIn } from './imap/log-in.ts';
export { buryAllShadows, buryShadowsOf, purgeShadows } from './imap/purge-shadows.ts';
export { type ImapAppend, ServerDelivery, type ServerDeliveryOptions } from './server-delivery.ts';
