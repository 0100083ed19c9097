/**
 * What `@postroom/sdk/mail` gives to an app: one account's mailboxes, as they are in the local copy, with what the
 * user did laid over it. Reading never waits for the network where the copy has the answer.
 */
import type {
  Address,
  Attachment,
  BodyStructure,
  CancelSendAnswer,
  Content,
  Envelope,
  SearchMatch,
  SearchMessagesBody,
  Send,
  SendMessageBody,
} from '../api-types.ts';

export type { Address, Attachment, BodyStructure, Content, Envelope, SearchMatch, Send };

/** How the copy stands to the server. */
export type MailState =
  /** Shows what is stored; nothing was asked of the server yet. */
  | 'cached'
  | 'syncing'
  /** A WebSocket tells of each change. */
  | 'live'
  /** No WebSocket can be had: INBOX is looked at every minute. */
  | 'polling'
  /** No network; tried again by itself. */
  | 'offline'
  /**
   * Not tried again. `stateReason` is `signed out`, `account_inactive` where the account is suspended or deleted, or says
   * why there is no token.
   */
  | 'stopped';

/**
 * Names a message of a mailbox as the copy has it at the time of the call: its UID, or `~` and a number while a move or a
 * draft has not reached the server yet. An id stays valid when the server gives the UID: both lead to the message. Whoever
 * keeps UIDs longer than what is shown keeps the mailbox's `uidvalidity` with them.
 */
export type MessageId = number | `~${number}`;

/** A message, with the mailbox that has it. */
export interface MessageLocation {
  readonly mailbox: string;
  readonly id: MessageId;
}

/** A row of a list. Pending changes of the user are in it already. */
export interface MailMessage extends MessageLocation {
  readonly envelope: Envelope;
  readonly flags: readonly string[];
  /** Octets of the source. */
  readonly size: number;
  /** RFC 3339 */
  readonly internalDate: string;
  readonly preview: string;
  readonly threadId: string | undefined;
  readonly hasAttachment: boolean;
  /** A change of the user has not reached the server yet. */
  readonly pending: boolean;
}

/** A mailbox as a list shows it. */
export interface MailboxInfo {
  readonly name: string;
  readonly mailboxId: string | undefined;
  /** Ids of messages are of this one: where it is another, they name other messages. Undefined before the first sync. */
  readonly uidvalidity: string | undefined;
  /** RFC 6154 attribute, such as `\Sent`. */
  readonly specialUse: string | undefined;
  /** Messages in it, pending changes applied. */
  readonly total: number;
  readonly unseen: number;
  /** Whether the copy has all of it. */
  readonly complete: boolean;
}

/** Which messages of a mailbox are watched. */
export interface WatchOptions {
  /** The newest so many; 50 when left out. */
  readonly limit?: number;
  /** All of these flags. */
  readonly flags?: readonly string[];
  /** None of these flags. */
  readonly notFlags?: readonly string[];
}

/** What a watcher is told, at once and after each change. */
export interface MailboxView {
  /** Newest first, by `internalDate`. Rows that did not change are the same objects as before. */
  readonly messages: readonly MailMessage[];
  /** Of all messages that match, not only of those that are shown. */
  readonly total: number;
  readonly unseen: number;
  readonly state: MailState;
}

/** A change of the user: stored when its method's promise is fulfilled, at the server when `applied` is. */
export interface Operation {
  readonly id: string;
  readonly kind: 'flag' | 'move' | 'copy' | 'delete' | 'append' | 'send' | 'mailbox';
  /** Rejected with the server's refusal. */
  readonly applied: Promise<void>;
  /**
   * Takes it out of the queue, or queues its inverse; a mail or a draft that was refused is a draft again, with its files.
   * Rejected where it cannot be undone: deleted for good, gone out; or refused before many others were, so that its text is
   * not kept any more.
   */
  undo(): Promise<void>;
  /** Of one that was refused: it is told of no more, and what it had is removed. Of others nothing. */
  forget(): Promise<void>;
}

/** Mail that is being sent. */
export interface SendOperation extends Operation {
  /** The id of the send once the server has it. */
  readonly sendId: Promise<string>;
  /**
   * Before it went out, or after the server refused it: it is a draft again, with its files. ApiError `already_sent` when too
   * late; undefined where it was taken back before.
   */
  cancel(): Promise<TakenBack | undefined>;
}

/** What became of a mail that was taken back. */
export interface TakenBack {
  /** As the server says it; where the mail never left, it has an `id` alone. */
  readonly draft: MessageLocation & Partial<CancelSendAnswer['draft']>;
}

/** What became of a mail. Until it goes out, `operation.cancel()` makes it a draft again. */
export interface SentMail extends Send {
  readonly subject: string;
  /** What it was made of here: until it goes out, both are there. */
  readonly draft: MessageLocation | undefined;
  readonly operation: SendOperation;
}

/**
 * As `POST /mail/send` takes it; messages are named by their ids, files by their bytes, people as envelopes name them. Who
 * has no address there, is the name of a group: it is left out.
 */
export type OutgoingMail = Omit<
  SendMessageBody,
  'to' | 'cc' | 'bcc' | 'replyTo' | 'inReplyTo' | 'draft' | 'attachments' | 'delaySeconds'
> & {
  readonly to?: readonly Address[] | undefined;
  readonly cc?: readonly Address[] | undefined;
  readonly bcc?: readonly Address[] | undefined;
  readonly replyTo?: readonly Address[] | undefined;
  readonly inReplyTo?: MessageLocation | undefined;
  /** The draft that this replaces: it is removed once the mail goes out. */
  readonly draft?: MessageLocation | undefined;
  readonly attachments?: readonly OutgoingAttachment[] | undefined;
};

/** A file that goes with mail. */
export interface OutgoingAttachment {
  readonly filename?: string | undefined;
  readonly contentType?: string | undefined;
  /** Its bytes, or its text; or, in place of them, a part of a message, which counts as long as it is known. */
  readonly content?: Uint8Array | ArrayBuffer | Blob | string | undefined;
  readonly from?: (MessageLocation & { readonly part: string }) | undefined;
  readonly contentId?: string | undefined;
  readonly inline?: boolean | undefined;
}

/** A draft that was saved. */
export interface StoredDraft extends MessageLocation {
  /** Its files as parts of it, in their order. */
  readonly attachments: readonly OutgoingAttachment[];
  readonly operation: Operation;
}

/** When mail goes out. */
export interface SendOptions {
  /** The server waits so long before it sends: `cancel()` works until then; 0 when left out. */
  readonly undoSeconds?: number | undefined;
}

/** A message with its text, from the copy where it is there. */
export interface ReadMessage {
  readonly message: MailMessage;
  readonly text: string | undefined;
  /** As it came: make it safe before it is shown. */
  readonly html: string | undefined;
  readonly truncated: boolean;
  readonly attachments: readonly Attachment[];
  readonly auth: Content['auth'];
  /** The message that it answers, where the copy has it; of a draft, what its answer is written to. */
  readonly inReplyTo: MessageLocation | undefined;
}

/**
 * One mailbox: its list, its messages, and what the user does with them.
 *
 * Where there is nothing to do (no ids, no flags, a move to where the messages are), the operation is over at once: nothing
 * is stored or sent, and `undo()` does nothing. A flag that the messages show already is set all the same: another program
 * may have taken it meanwhile.
 */
export interface MailboxHandle {
  readonly name: string;
  /** Calls back at once with what is stored, then after each change; returns what ends it. */
  watch(options: WatchOptions, tell: (view: MailboxView) => void): () => void;
  /** One look, without watching. */
  list(options?: WatchOptions): Promise<MailboxView>;
  /** @throws ConnectionError where the copy lacks it and there is no network */
  read(id: MessageId): Promise<ReadMessage>;
  /** The bytes of a part. */
  attachment(id: MessageId, part: string): Promise<Blob>;
  /** The source (RFC 5322). */
  source(id: MessageId): Promise<Blob>;
  flag(ids: readonly MessageId[], change: FlagChange): Promise<Operation>;
  move(ids: readonly MessageId[], to: string): Promise<Operation>;
  /** @throws TypeError where `to` is this mailbox */
  copy(ids: readonly MessageId[], to: string): Promise<Operation>;
  /** Into Trash; for good where `forever`, or where they are in Trash or there is none. */
  delete(ids: readonly MessageId[], options?: { readonly forever?: boolean }): Promise<Operation>;
  /** Ids of all that match, also of what no watcher shows: for "select all". */
  ids(options?: Omit<WatchOptions, 'limit'>): Promise<MessageId[]>;
  /** Looks now, in place of at the next event. */
  sync(): Promise<void>;
}

/** Flags that are added and removed; others stay. */
export interface FlagChange {
  readonly add?: readonly string[] | undefined;
  readonly remove?: readonly string[] | undefined;
}

/** All messages of a conversation, in every mailbox of the copy; oldest first. */
export interface ThreadView {
  readonly threadId: string;
  readonly messages: readonly MailMessage[];
}

/** What the client tells its listeners. */
export interface MailEvents {
  state: { readonly state: MailState; readonly stateReason: string | undefined };
  mailboxes: { readonly mailboxes: readonly MailboxInfo[] };
  /** Changes were made, or are over, also those that were refused: what `pending()` gives now. */
  pending: { readonly pending: readonly Operation[] };
  /**
   * The server refused a change: it is taken back on the screen. Each new listener is told of those of before, too, that
   * were neither undone nor forgotten; as of sends whose fate is not known.
   */
  rejected: { readonly operation: Operation; readonly error: Error };
  /** One of those is kept no more, since later ones need its room: it can neither be undone nor told of again. */
  dropped: { readonly operation: Operation; readonly error: Error };
  /** Whether a send arrived cannot be known any more: the user decides. */
  uncertain: { readonly operation: SendOperation };
  /** New mail, told once for each message; not for the first sync. */
  received: { readonly messages: readonly MailMessage[] };
  /** Every request, answer and WebSocket message, without credentials: for a panel that shows the protocol. */
  traffic: TrafficEvent;
}

/** A request or a message of the WebSocket, for those who look on. */
export interface TrafficEvent {
  readonly direction: 'sent' | 'received';
  readonly channel: 'http' | 'websocket';
  /** `POST /mail/sync`, `200`, or the type of a WebSocket message. */
  readonly title: string;
  readonly body: unknown;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** All mailboxes of one account. */
export interface MailClient {
  readonly address: string | undefined;
  readonly state: MailState;
  /** Where the copy is: `memory` when the store could not be used. */
  readonly storage: 'stored' | 'memory';
  mailbox(name: string): MailboxHandle;
  mailboxes(): Promise<readonly MailboxInfo[]>;
  thread(threadId: string): Promise<ThreadView>;
  createMailbox(name: string): Promise<void>;
  renameMailbox(name: string, to: string): Promise<void>;
  deleteMailbox(name: string): Promise<void>;
  send(mail: OutgoingMail, options?: SendOptions): Promise<SendOperation>;
  /**
   * Stores or replaces a draft; the id is valid at once, also without a network. The next save, or the mail, is given the
   * `attachments` of the draft: the server has their bytes.
   */
  saveDraft(mail: OutgoingMail, replaces?: MessageLocation): Promise<StoredDraft>;
  /**
   * Mail that went from here, newest first, as far as it is remembered; also after a reload. Before it, what other apps of the
   * account sent and waits: for later, or to be tried again. Needs the network.
   */
  sends(): Promise<readonly SentMail[]>;
  /** What has not reached the server yet, oldest first. */
  pending(): Promise<readonly Operation[]>;
  /** The server first; the copy's envelopes where there is no network, then `offline` is true. */
  search(
    query: SearchMessagesBody,
    options?: { readonly signal?: AbortSignal },
  ): Promise<SearchResult>;
  /** Names and addresses of people that the copy knows, best first: for To, Cc and Bcc. */
  correspondents(prefix: string, limit?: number): Promise<readonly Address[]>;
  on<Name extends keyof MailEvents>(
    name: Name,
    tell: (event: MailEvents[Name]) => void,
  ): () => void;
  /** Tries the network now: after the user asked for it. */
  reconnect(): void;
  /** Ends work and closes the store; what is stored stays. */
  close(): Promise<void>;
  /** Ends work and removes all that is stored of this account. */
  signOut(): Promise<void>;
}

/** What a search found. */
export interface SearchResult {
  readonly matches: readonly (SearchMatch & { readonly id: MessageId })[];
  readonly cursor: string | undefined;
  readonly indexing: boolean;
  readonly offline: boolean;
}
