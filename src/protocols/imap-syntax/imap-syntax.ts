/** What IMAP clients and servers write alike: sets of UIDs and sequence numbers, names of mailboxes, and dates. Pure. */
export { imapDate, imapDateTime, readDate, readDateTime } from './dates.ts';
export { decodeMailboxName, encodeMailboxName } from './mailbox-names.ts';
export { UID_MAX, UidSet } from './uid-set.ts';
