/**
 * What every mail store offers, the embedded one and an IMAP server alike; and what brings mail to a mail
 * server.
 */
import type { StagedBody } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import type { BodyStructure, Envelope, MessagePart, ParsedMessage } from '../message/message.ts';
import type { QueryTexts } from '../search/search.ts';
import type { ThreadHeaders } from './threads.ts';

/** Whose mail is meant; every operation is bound to one account. */
export interface MailUser {
  readonly accountId: number;
  readonly address: string;
}

export interface MailboxState {
  readonly mailbox: string;
  readonly uidvalidity: string;
  /** The token that a sync would return now. */
  readonly token: string;
  /** RFC 6154 attribute such as `\Sent`. */
  readonly specialUse?: string;
}

/** A mailbox in the list of an account's. */
export interface MailboxSummary extends MailboxState {
  /**
   * Kept over a rename (RFC 8474). Absent on a mail server: Cyrus 3.6 answers LIST with freed memory in
   * place of MAILBOXID, and to ask for each by itself costs a round trip.
   */
  readonly mailboxId?: string;
  readonly messages: number;
  /** Messages without `\\Seen`. */
  readonly unseen: number;
}

export const messageFields = [
  'envelope',
  'flags',
  'size',
  'internalDate',
  'bodyStructure',
  'preview',
  'threadId',
  'emailId',
  'hasAttachment',
] as const;

/** What a sync can add to each new message. */
export type MessageField = (typeof messageFields)[number];

/** Whether any of the fields is as long as the sender of the message made it. */
export function hasTexts(fields: readonly MessageField[]): boolean {
  return fields.includes('envelope') || fields.includes('bodyStructure');
}

export interface SyncRequest {
  /** Name as the client wrote it; `inbox` in any case is INBOX (RFC 3501 section 5.1). */
  readonly mailbox: string;
  readonly uidvalidity?: string;
  /** A token of an earlier sync of the same mailbox. */
  readonly token?: string;
  /** Changes in one answer at most. */
  readonly limit?: number;
  readonly fields?: readonly MessageField[];
  /** Whether a first sync, or one that starts anew, begins with the highest UIDs. */
  readonly newest?: boolean;
}

export interface AddedMessage {
  readonly uid: number;
  readonly envelope?: Envelope;
  /** Of the last change; told together with the flags. */
  readonly modseq?: string;
  readonly flags?: readonly string[];
  /** Octets of the source. */
  readonly size?: number;
  /** RFC 3339, UTC. */
  readonly internalDate?: string;
  readonly bodyStructure?: BodyStructure;
  /** The first words, on one line. */
  readonly preview?: string;
  /** The same for all messages of a conversation. */
  readonly threadId?: string;
  /** RFC 8474: names these bytes, also where the message is moved. Absent where a mail server has none. */
  readonly emailId?: string;
  readonly hasAttachment?: boolean;
}

export interface UpdatedMessage {
  readonly uid: number;
  readonly modseq: string;
  readonly flags: readonly string[];
}

export interface SyncResult {
  readonly mailbox: string;
  readonly uidvalidity: string;
  /** To be passed on the next sync; while `hasMore`, a cursor within this one. */
  readonly token: string;
  readonly changes: {
    readonly added: readonly AddedMessage[];
    readonly updated: readonly UpdatedMessage[];
    readonly removed: readonly { readonly uid: number }[];
  };
  /** The client drops what it has of this mailbox first. */
  readonly reset?: true;
  /** The page was cut, by `limit` or for its size: the token leads to the next one. */
  readonly hasMore?: true;
}

/** Bytes from `start` up to but not including `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** What a list of messages shows of one besides its envelope. */
export interface Description {
  /** The first words, on one line. */
  readonly preview: string;
  /** The same for all messages of a conversation. */
  readonly threadId: string;
  readonly hasAttachment: boolean;
}

export interface Message {
  readonly uid: number;
  readonly envelope: Envelope;
  readonly flags: readonly string[];
  readonly bodyStructure: BodyStructure;
  /** The same with where each part lies in the source. */
  readonly structure: MessagePart;
  /** Octets of the source. */
  readonly size: number;
  /** RFC 3339, UTC. */
  readonly internalDate: string;
  /** What a list shows of it. */
  describe(): Promise<Description>;
  /** The source as it was received, or the bytes of it in `range`. */
  open(range?: ByteRange): AsyncIterable<Uint8Array>;
}

export interface PartContent {
  /** Octets with the transfer encoding removed. */
  readonly size: number;
  readonly filename?: string;
  /** Strong validator: a message never changes under its UIDVALIDITY and UID. */
  readonly etag: string;
  open(range?: ByteRange): AsyncIterable<Uint8Array>;
}

/** A message that has been read to its end, parsed, and (where large) put on disk. */
export interface StagedMessage {
  readonly parsed: ParsedMessage;
  readonly body: StagedBody;
}

export interface AppendTarget {
  readonly user: MailUser;
  readonly mailbox: string;
  readonly flags?: readonly string[];
  /** Milliseconds since 1970; now when left out. */
  readonly internalDate?: number;
}

export interface Appended {
  readonly user: MailUser;
  readonly uid: number;
  readonly change: MailboxChange;
}

/**
 * What a mailbox keeps of a message besides its source. It is written before the transaction that stores
 * it, by `describeMessage`: of hostile mail it has a megabyte.
 */
export interface MessageTexts {
  /** Octets of the source. */
  readonly size: number;
  /** JSON of the Envelope. */
  readonly envelope: string;
  /** JSON of the MessagePart that holds all others. */
  readonly structure: string;
  /** The first words, on one line. */
  readonly preview: string;
  readonly hasAttachment: boolean;
  readonly thread: ThreadHeaders;
}

export interface FlagChange {
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
}

/** What a change left a mailbox in, and what is to be announced of it. */
export interface ChangedMailbox {
  readonly state: MailboxState;
  /** Empty where nothing changed. */
  readonly changes: readonly MailboxChange[];
}

export interface Flagged extends ChangedMailbox {
  /** Every message that was named and is there, also where its flags were as wanted before. */
  readonly updated: readonly UpdatedMessage[];
}

/** Messages that are in another mailbox now: `state` is of that one. */
export interface Relocated extends ChangedMailbox {
  /** Old UID to new UID. */
  readonly uids: ReadonlyMap<number, number>;
}

/** Where a client puts a message. */
export interface AppendRequest {
  readonly mailbox: string;
  readonly flags?: readonly string[];
  /** Octets that the message has at most. */
  readonly octets: number;
}

export interface AppendedByClient extends ChangedMailbox {
  readonly uid: number;
}

export interface Expunged extends ChangedMailbox {
  readonly removed: readonly number[];
}

/** Messages of one mailbox that a change names. */
export interface MessageSet {
  readonly mailbox: string;
  readonly uids: readonly number[];
  /** Refused with `uidvalidity_changed` where the mailbox has another one. */
  readonly uidvalidity?: string;
}

/** What a message must be like, besides its words. */
export interface SearchFilter {
  /** INTERNALDATE from here on, milliseconds since 1970. */
  readonly since?: number;
  /** INTERNALDATE before that. */
  readonly before?: number;
  /** More octets than that. */
  readonly larger?: number;
  /** Fewer octets than that. */
  readonly smaller?: number;
  /** All of them. */
  readonly flags?: readonly string[];
  /** None of them. */
  readonly notFlags?: readonly string[];
  readonly hasAttachment?: boolean;
}

export interface SearchRequest extends SearchFilter {
  /** All mailboxes where left out. */
  readonly mailbox?: string;
  readonly texts: QueryTexts;
  /** Matches in one answer at most. */
  readonly limit: number;
  /** Of the answer before. */
  readonly cursor?: string;
}

export interface SearchMatch {
  readonly mailbox: string;
  readonly uid: number;
  readonly envelope: Envelope;
  readonly flags: readonly string[];
  /** RFC 3339, UTC. */
  readonly internalDate: string;
  /** The first words, on one line. */
  readonly preview: string;
  readonly threadId: string;
}

export interface SearchResult {
  /** Newest first. */
  readonly matches: readonly SearchMatch[];
  /** Leads to the next page; absent where there is none. */
  readonly cursor?: string;
  /** Some of the account's newest mail is not in the index yet. */
  readonly indexing?: true;
}

export interface Mailstore {
  /** Every mailbox of the account, INBOX first. */
  listMailboxes(user: MailUser): Promise<MailboxSummary[]>;
  /**
   * Checks the form of a sync request, and reads nothing: for whoever changes messages first and syncs then.
   *
   * @throws Refusal invalid_request
   */
  checkSync(request: SyncRequest): void;
  /** What changed since the token (contract 4.3); refuses with `mailbox_not_found`. */
  sync(user: MailUser, request: SyncRequest): Promise<SyncResult>;
  /** Refuses with `mailbox_not_found` or `message_not_found`. Never sets `\Seen`. */
  fetchMessage(user: MailUser, mailbox: string, uid: number): Promise<Message>;
  /**
   * One MIME part.
   *
   * @param part number as in RFC 3501 section 6.4.5
   * @throws Refusal `mailbox_not_found`, `message_not_found` or `part_not_found`
   */
  fetchPart(user: MailUser, mailbox: string, uid: number, part: string): Promise<PartContent>;
  /** Messages by their words and properties (RFC 3501 section 6.4.4). */
  search(user: MailUser, request: SearchRequest): Promise<SearchResult>;
  /**
   * Makes a mailbox.
   *
   * @throws Refusal invalid_request, mailbox_exists
   */
  createMailbox(user: MailUser, name: string): Promise<ChangedMailbox>;
  /**
   * Renames a mailbox and those below it; it keeps its messages and its id.
   *
   * @throws Refusal invalid_request, mailbox_not_found, mailbox_exists, mailbox_protected
   */
  renameMailbox(user: MailUser, name: string, to: string): Promise<ChangedMailbox>;
  /**
   * Removes a mailbox with its messages, for good; those below it stay.
   *
   * @throws Refusal mailbox_not_found, mailbox_protected
   */
  deleteMailbox(user: MailUser, name: string): Promise<ChangedMailbox>;
  /**
   * Adds a message, byte by byte as it is, once it was read to its end (RFC 3501 section 6.3.11).
   *
   * @throws Refusal mailbox_not_found, invalid_request, quota_exceeded, storage_full; whatever the source throws
   */
  appendMessage(
    user: MailUser,
    request: AppendRequest,
    source: AsyncIterable<Uint8Array>,
  ): Promise<AppendedByClient>;
  /** Changes flags; messages that already are as wanted keep their MODSEQ. No such UID is no error. */
  setFlags(user: MailUser, set: MessageSet, change: FlagChange): Promise<Flagged>;
  /** Moves messages to another mailbox of the account (RFC 6851). */
  move(user: MailUser, set: MessageSet, target: string): Promise<Relocated>;
  /**
   * Copies messages to a mailbox of the account, with their flags and their time.
   *
   * @throws Refusal quota_exceeded where there is no room for all of them
   */
  copy(user: MailUser, set: MessageSet, target: string): Promise<Relocated>;
  /** Removes messages for good. */
  expunge(user: MailUser, set: MessageSet): Promise<Expunged>;
}

/* What delivery needs of a mail server that the operator runs, where the mailboxes are on one. */

/** Why a mailbox did not get a message. */
export interface MailboxFailure {
  /** Reply code (RFC 5321 section 4.2); absent where no reply says it. */
  readonly status?: number;
  /** RFC 3463: the mail server's, or ours where it gave none. */
  readonly enhancedStatus: string;
  /** One line of at most 500 characters. */
  readonly text: string;
}

/** How an attempt for one mailbox ended. */
export type MailboxResult =
  | { readonly result: 'delivered' }
  | { readonly result: 'temporary' | 'permanent'; readonly error: MailboxFailure };

/** A message on its way to the mail server, with its trace fields. */
export interface ServerMail {
  /** Reads the source from its start; may be called several times. */
  readonly open: () => AsyncIterable<Uint8Array>;
  /** Octets. */
  readonly size: number;
  /** Reverse-path without angle brackets; `''` is the null sender. */
  readonly from: string;
}

export interface MailServer {
  /**
   * Makes one attempt for each target.
   *
   * @param signal ends it
   * @returns in the order of the targets
   * @throws what the source throws; nothing else
   */
  deliver(
    mail: ServerMail,
    targets: readonly AppendTarget[],
    signal?: AbortSignal,
  ): Promise<readonly MailboxResult[]>;
  /**
   * Whether the mailbox has the message with this id in a Received field already.
   *
   * @throws whatever keeps it from being told
   */
  hasReceived(user: MailUser, mailbox: string, receivedId: string): Promise<boolean>;
  /** The change to publish after something came into a mailbox. */
  changeOf(user: MailUser, mailbox: string): Promise<MailboxChange>;
  /** Ends the connections that are not in use. */
  close(): void;
}
