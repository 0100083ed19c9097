/** What IMAP clients and servers write alike: sets of UIDs and sequence numbers, and names of mailboxes. Pure. */
export { decodeMailboxName, encodeMailboxName } from './mailbox-names.ts';
export { UID_MAX, UidSet } from './uid-set.ts';
