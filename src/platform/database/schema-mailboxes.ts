/** Tables of mailboxes, apart from their messages. */
import type { Generated } from 'kysely';

/** `mailstore/` */
export interface MailboxTable {
  id: Generated<number>;
  /** Negative where the mailbox was deleted and its messages are being removed. */
  account_id: number;
  name: string;
  /** RFC 6154 attribute such as `\Sent`. */
  special_use: string | null;
  uidvalidity: number;
  uidnext: Generated<number>;
  highestmodseq: Generated<number>;
  /** The history of the server in which the last change was made (`Database.timeline`); 0: not known. */
  timeline: Generated<number>;
  /** The last MODSEQ that was given before that history began. */
  fork_modseq: Generated<number>;
  /** Tombstones up to this MODSEQ were removed: older tokens get a reset. */
  pruned_modseq: Generated<number>;
  /** Messages in it, those without `\\Seen`, and octets of their sources: updated with each change. */
  messages: Generated<number>;
  unseen: Generated<number>;
  octets: Generated<number>;
  /** Keywords of its messages, as the first one spelled each, apart by spaces; null: not collected yet. */
  keywords: Generated<string | null>;
  /** Messages from this UID on were told to no IMAP session as recent. */
  recent_uid: Generated<number>;
}

/** `mailstore/`: subscriptions of IMAP that differ from the default: a mailbox that exists is subscribed. */
export interface SubscriptionTable {
  account_id: number;
  name: string;
  /** 1 where it is subscribed, also where there is no such mailbox; 0 where it is not. */
  is_on: number;
}

/** `mailstore/`: what IMAP tells of a body, ready to be sent; made when it is asked for the first time. */
export interface ImapTextTable {
  body_id: number;
  /** ENVELOPE and BODYSTRUCTURE, one character an octet. */
  envelope: string;
  structure: string;
  /** JSON: From, To, Cc, Bcc and Subject, decoded, in small letters. */
  search: string;
}
