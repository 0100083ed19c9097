/** Mailboxes and their messages, ours and those of a mail server, and their search index. */
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
  /** Messages in it, those without `\\Seen`, and bytes of their sources: updated with each change. */
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

/** `mailstore/`: the fields of a body's header that mail programs ask for; read when they are asked for the first time. */
export interface ImapHeaderTable {
  body_id: number;
  /** As in the source, one character an octet; `''` where they are too long to be kept, or have NUL. */
  fields: string;
}

/** `mailstore/`: numbers of messages that never change, of many in one row; made when they are asked for the first time. */
export interface ImapNumberTable {
  mailbox_id: number;
  /** What they say (`message-numbers.ts`). */
  kind: number;
  /** UIDs of this many spans are lower than all of these. */
  span: number;
  /** Doubles, little endian. */
  numbers: Uint8Array;
}

/** `mailstore/`: a message in a mailbox. */
export interface MessageTable {
  mailbox_id: number;
  uid: number;
  /** MODSEQ with which the message came in. */
  created_modseq: number;
  /** MODSEQ of the last change. */
  modseq: number;
  /** IMAP flags separated by a space, sorted. */
  flags: string;
  size: number;
  internal_date: number;
  body_id: number;
  /** JSON of the Envelope. */
  envelope: string;
  /** JSON of the MessagePart tree with byte offsets. */
  structure: string;
  /** The first words, on one line. This and the following are null in rows from before 0.3.0. */
  preview: string | null;
  /** 1 where there are attachments. */
  has_attachment: number | null;
  /** The same for all messages of a conversation. */
  thread_id: number | null;
  /** Hash of account and Message-ID; also null where a message has none. */
  message_key: number | null;
  /** When it came into this mailbox; null in rows from before 0.3.0. */
  saved_at: number | null;
}

/** `mailstore/`: a removed message. */
export interface TombstoneTable {
  mailbox_id: number;
  uid: number;
  created_modseq: number;
  /** MODSEQ of the removal. */
  modseq: number;
  expunged_at: number;
}

/** `bodies/`: the source of a message, in the row or in a file. */
export interface BodyTable {
  id: Generated<number>;
  size: number;
  content: Uint8Array | null;
  file: string | null;
}

/** `mailstore/`: UIDVALIDITY values that were given so far. */
export interface CounterTable {
  name: string;
  value: number;
}

/** `event-hook/`: events accepted in the last day. */
export interface MailserverEventTable {
  event_id: string;
  received_at: number;
}

/** `mail-server/`: the last known state of a mailbox whose server does not report removals. */
export interface ShadowMailboxTable {
  id: Generated<number>;
  /** Negative where the shadow was dropped and its messages are being removed. */
  account_id: number;
  name: string;
  uidvalidity: string;
  uidnext: number;
  messages: number;
  /** Messages without `\Seen`. */
  unseen: number;
  /** Increases with each change that was seen; starts at the time the shadow was made, in ms. */
  modseq: number;
  /** Tokens older than this get a reset: tombstones were removed, or the shadow was made again. */
  oldest_modseq: number;
  /** Not read or written any more. */
  server_modseq: string | null;
  /** The history of the database in which the last change was written (`Database.timeline`); 0: not known. */
  timeline: Generated<number>;
}

/** `mail-server/`: a message as it was last seen. */
export interface ShadowMessageTable {
  shadow_id: number;
  uid: number;
  created_modseq: number;
  modseq: number;
  /** IMAP flags separated by a space, sorted. */
  flags: string;
}

/** `mail-server/`: a message that was seen and is removed. */
export interface ShadowTombstoneTable extends Omit<TombstoneTable, 'mailbox_id'> {
  shadow_id: number;
}

/** `search/`: changes that the search index still has to make. */
export interface SearchQueueTable {
  id: Generated<number>;
  account_id: number;
  /** 0 where the account itself was deleted. */
  body_id: number;
  /** 1 where the account has no message of this body any more. */
  gone: number;
  /** What is indexed of a new body, separated by spaces; null: it is read from the body. Only on PostgreSQL. */
  terms: string | null;
  /** INTERNALDATE, where there are terms. */
  date: number | null;
}

/** `search/`: a message whose body could not be read when it was to be indexed. */
export interface SearchUnreadTable {
  account_id: number;
  body_id: number;
  /** When it is queued again. */
  next_at: number;
}

/** `search/`: the search index, on PostgreSQL; `terms` is written by statements of its own. */
export interface SearchDocumentTable {
  id: Generated<number>;
  account_id: number;
  body_id: number;
  /** INTERNALDATE, milliseconds since 1970. */
  date: number;
}
