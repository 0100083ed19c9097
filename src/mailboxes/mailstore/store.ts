/**
 * The interface of every mail store, the embedded one and an IMAP server alike.
 */

import type { InTransaction, Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type {
  BodyStructure,
  Envelope,
  MessagePart,
  ParsedMessage,
} from '../../protocols/message/message.ts';
import type { ByteRange, StagedBody } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import type { MailUser } from './mail-user.ts';
import type { SearchRequest, SearchResult } from './search-request.ts';

export type { ByteRange } from '../bodies/bodies.ts';
export {
  enterTurnOf,
  type MailUser,
  OF_A_TURN,
  partiesOf,
  takeTurnOf,
  tenantOf,
} from './mail-user.ts';

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
   * Kept when the mailbox is renamed (RFC 8474). Absent on a mail server: Cyrus 3.6 answers LIST with freed
   * memory in place of MAILBOXID, and to ask for each mailbox by itself costs a round trip.
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

/** Whether the length of any of the fields depends on the sender of the message. */
export function hasTexts(fields: readonly MessageField[]): boolean {
  return fields.includes('envelope') || fields.includes('bodyStructure');
}

/** A mailbox in our own database. */
export type MailboxRow = Pick<
  Row<'mailboxes'>,
  'id' | 'name' | 'uidvalidity' | 'highestmodseq' | 'pruned_modseq' | 'fork_modseq' | 'messages'
>;

export interface SyncRequest {
  /** Name as the client wrote it; `inbox` in any case is INBOX (RFC 3501 section 5.1). */
  readonly mailbox: string;
  readonly uidvalidity?: string | undefined;
  /** A token of an earlier sync of the same mailbox. */
  readonly token?: string | undefined;
  /** The most changes in one answer. */
  readonly limit?: number | undefined;
  readonly fields?: readonly MessageField[] | undefined;
  /** Whether a first sync, or one after a reset, begins with the highest UIDs. */
  readonly newest?: boolean;
  /** Where it was read with the account just now. */
  readonly row?: MailboxRow | undefined;
}

export interface AddedMessage
  extends Partial<Pick<Message, 'envelope' | 'flags' | 'size' | 'internalDate' | 'bodyStructure'>>,
    Partial<Description> {
  readonly uid: number;
  /** Of the last change; sent together with the flags. */
  readonly modseq?: string;
  /** Names these bytes, also after a move (RFC 8474). Absent where a mail server has none. */
  readonly emailId?: string;
}

export interface UpdatedMessage {
  readonly uid: number;
  readonly modseq: string;
  readonly flags: readonly string[];
}

export interface SyncResult {
  readonly mailbox: string;
  readonly uidvalidity: string;
  /** For the next sync; while `hasMore`, a cursor within this one. */
  readonly token: string;
  readonly changes: {
    readonly added: readonly AddedMessage[];
    readonly updated: readonly UpdatedMessage[];
    readonly removed: readonly { readonly uid: number }[];
  };
  /** The client drops its data of this mailbox first. */
  readonly reset?: true;
  /** The page ended before the last change, by `limit` or its size: the token leads to the next one. */
  readonly hasMore?: true;
}

/** What a list shows of a message in addition to its envelope. */
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
  /** With the place of each part in the source. */
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
  readonly filename?: string | undefined;
  /** Strong validator: a message never changes under its UIDVALIDITY and UID. */
  readonly etag: string;
  open(range?: ByteRange): AsyncIterable<Uint8Array>;
}

/** A message that was read to its end, parsed, and (where large) written to disk. */
export interface StagedMessage {
  readonly parsed: ParsedMessage;
  readonly body: StagedBody;
  /** What is indexed of it (`readTerms` of `search/`), where that was read already. */
  readonly terms?: string | undefined;
}

export interface AppendTarget {
  readonly user: MailUser;
  readonly mailbox: string;
  /** In stored form (`normalizeFlags`). */
  readonly flags?: readonly string[];
  /** By default now. */
  readonly internalDate?: EpochMs | undefined;
}

export interface Appended {
  readonly user: MailUser;
  readonly uid: number;
  readonly change: MailboxChange;
}

/** The header fields that decide the conversation. */
export interface ThreadHeaders {
  /** Of the message itself; absent where it has none. */
  readonly messageId?: string;
  /** Of earlier messages, the first of the conversation first. */
  readonly references: readonly string[];
}

/**
 * What a mailbox keeps of a message in addition to its source. `describeMessage` writes it before the
 * transaction that stores it: a hostile message can have a megabyte of it.
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
  readonly add?: readonly string[] | undefined;
  readonly remove?: readonly string[] | undefined;
}

/** The change of flags that IMAP has: to a list of flags, and only of messages that did not change since. */
export interface FlagStore extends FlagChange {
  /** All flags from now on, in place of `add` and `remove`. */
  readonly replace?: readonly string[];
  /** Messages with a higher MODSEQ stay as they are (RFC 7162 section 3.1.3). */
  readonly unchangedSince?: number;
}

/** The state of a mailbox after a change, and the changes to publish. */
export interface ChangedMailbox {
  readonly state: MailboxState;
  /** Empty where nothing changed. */
  readonly changes: readonly MailboxChange[];
}

export interface Flagged extends ChangedMailbox {
  /** Every message that was named and exists, also where its flags were already as requested. */
  readonly updated: readonly UpdatedMessage[];
  /** UIDs that had changed since; absent where this was not asked. */
  readonly modified?: readonly number[];
  /** The MODSEQ that each of `updated` had before; absent on a mail server. */
  readonly before?: ReadonlyMap<number, number>;
}

/** Messages that are in another mailbox now: `state` is that mailbox's. */
export interface Relocated extends ChangedMailbox {
  /** Old UID to new UID. */
  readonly uids: ReadonlyMap<number, number>;
}

/** A message that a client puts into a mailbox. */
export interface AppendRequest extends Omit<NewMessage, 'source'> {
  readonly mailbox: string;
}

export interface NewMessage {
  readonly flags?: readonly string[];
  /** By default now. */
  readonly internalDate?: EpochMs | undefined;
  /** The most octets that the message may have. */
  readonly octets: number;
  /** Whether it may have NUL, and is stored as {@link encodeBinary} writes it. */
  readonly isBinary?: boolean;
  readonly source: AsyncIterable<Uint8Array>;
}

export interface AppendedByClient extends ChangedMailbox {
  readonly uid: number;
  /** Of each message, where there were several. */
  readonly uids?: readonly number[];
}

export interface Expunged extends ChangedMailbox {
  readonly removed: readonly number[];
}

/** Messages of one mailbox that a change names. */
export interface MessageSet {
  readonly mailbox: string;
  readonly uids: readonly number[];
  /** Refused with `uidvalidity_changed` where the mailbox has another value. */
  readonly uidvalidity?: string | undefined;
}

export interface Mailstore {
  /** Every mailbox of the account, INBOX first. */
  listMailboxes(user: MailUser): Promise<MailboxSummary[]>;
  /**
   * Checks the form of a sync request, and reads nothing: for a caller that changes messages before it syncs.
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
   * Creates a mailbox.
   *
   * @param within not called for a mail server, which has no transaction; the same below
   * @throws Refusal invalid_request, mailbox_exists
   */
  createMailbox(
    user: MailUser,
    name: string,
    within?: InTransaction<ChangedMailbox>,
  ): Promise<ChangedMailbox>;
  /**
   * Renames a mailbox and those below it; it keeps its messages and its id.
   *
   * @param noselect whether a name will do that is no mailbox, with others below it; the state is of the first of these
   * @throws Refusal invalid_request, mailbox_not_found, mailbox_exists, mailbox_protected
   */
  renameMailbox(
    user: MailUser,
    name: string,
    to: string,
    noselect?: true,
    within?: InTransaction<ChangedMailbox>,
  ): Promise<ChangedMailbox>;
  /**
   * Removes a mailbox with its messages, for good; those below it stay.
   *
   * @throws Refusal mailbox_not_found, mailbox_protected
   */
  deleteMailbox(
    user: MailUser,
    name: string,
    within?: InTransaction<ChangedMailbox>,
  ): Promise<ChangedMailbox>;
  /**
   * Appends a message byte for byte, after it was read to its end (RFC 3501 section 6.3.11).
   *
   * @throws Refusal mailbox_not_found, invalid_request, quota_exceeded, storage_full; any error of the source
   */
  appendMessage(
    user: MailUser,
    request: AppendRequest,
    source: AsyncIterable<Uint8Array>,
    within?: InTransaction<AppendedByClient>,
  ): Promise<AppendedByClient>;
  /** Changes flags. Messages that already have them keep their MODSEQ; a UID that does not exist is no error. */
  setFlags(
    user: MailUser,
    set: MessageSet,
    change: FlagChange,
    within?: InTransaction<Flagged>,
  ): Promise<Flagged>;
  /** Moves messages to another mailbox of the account (RFC 6851). */
  move(
    user: MailUser,
    set: MessageSet,
    target: string,
    within?: InTransaction<Relocated>,
  ): Promise<Relocated>;
  /**
   * Copies messages to a mailbox of the account, with their flags and their time.
   *
   * @throws Refusal quota_exceeded where there is no room for all of them
   */
  copy(
    user: MailUser,
    set: MessageSet,
    target: string,
    within?: InTransaction<Relocated>,
  ): Promise<Relocated>;
  /** Removes messages for good. */
  expunge(user: MailUser, set: MessageSet, within?: InTransaction<Expunged>): Promise<Expunged>;
}
