/** What the engine keeps in the tables of a store. Plain data: members that are absent are left out. */
import type { CancelSendAnswer, Content, Envelope } from '../api-types.ts';
import type { MessageId, OutgoingMail } from './client.ts';
import type { Change, RangeQuery, TableName } from './store.ts';

/** Raised when rows of an older program cannot be read any more. */
export const SCHEMA = 1;

export type AccountRow = {
  readonly account: string;
  readonly origin: string;
  readonly address: string;
  readonly schema: number;
  /** Counts the tabs that led; writes of an earlier one fail. */
  readonly epoch: number;
  readonly leader?: string;
  /** Whether the leader holds the lock, whose end says that it is gone. */
  readonly byLock?: boolean;
  /** Milliseconds since 1970 until which the leader leads without a sign of life. */
  readonly leaseUntil: number;
  /** Of the next operation. */
  readonly seq: number;
  /** Nothing is taken any more. */
  readonly signedOut?: boolean;
};

export type MailboxRow = {
  readonly account: string;
  /** Names it in other tables, over renames. */
  readonly box: number;
  readonly name: string;
  readonly mailboxId?: string;
  readonly specialUse?: string;
  /** Absent before the first page of the first sync. */
  readonly uidvalidity?: string;
  readonly token?: string;
  /** The token leads to the next page of a sync. */
  readonly paging: boolean;
  /** All of the mailbox was seen since it began anew. */
  readonly complete: boolean;
  /** Rows of earlier generations are waste. */
  readonly generation: number;
  /** What the copy has. */
  readonly total: number;
  readonly unseen: number;
  /** What the server said that it has. */
  readonly serverTotal: number;
  readonly serverUnseen: number;
  /** Deleted: its rows are still being swept. */
  readonly gone?: true;
};

/** What a list shows of a message. */
export type MessageFacts = {
  readonly envelope: Envelope;
  readonly flags: readonly string[];
  readonly size: number;
  readonly internalDate: string;
  readonly preview: string;
  readonly threadId?: string;
  readonly hasAttachment: boolean;
};

export type MessageRow = MessageFacts & {
  readonly account: string;
  readonly box: number;
  readonly generation: number;
  readonly uid: number;
  /** `internalDate` in milliseconds since 1970. */
  readonly date: number;
};

export type BodyRow = {
  readonly account: string;
  readonly box: number;
  readonly generation: number;
  readonly uid: number;
  readonly usedAt: number;
  /** Octets, roughly. */
  readonly weight: number;
  readonly content: Content;
};

export type BlobRow = {
  readonly account: string;
  /** The operation's id and a number. */
  readonly blob: string;
  readonly type: string;
  readonly bytes: Uint8Array;
};

/** Flags of a message that a change of flags really changed, so that it can be undone. */
export type FlagsBefore = readonly [
  id: MessageId,
  added: readonly string[],
  removed: readonly string[],
];

export type OperationState =
  | 'queued'
  /** The request may have gone. */
  | 'inflight'
  /** The server has it; the copy does not show it yet. */
  | 'acked'
  | 'done'
  | 'rejected'
  | 'cancelled'
  /** A send whose fate cannot be known any more. */
  | 'uncertain';

export type OperationKind = 'flag' | 'move' | 'copy' | 'delete' | 'append' | 'send' | 'mailbox';

export type OperationRow = {
  readonly account: string;
  readonly seq: number;
  /** Also the Idempotency-Key. */
  readonly id: string;
  /** The id of the first of those that one call made. */
  readonly group: string;
  readonly kind: OperationKind;
  readonly state: OperationState;
  /** Name of the mailbox that it changes, when it was made; the box has its name of today. */
  readonly mailbox: string;
  readonly box?: number;
  readonly uidvalidity?: string;
  readonly ids: readonly MessageId[];
  /** Of a move and a copy; of a mailbox, its new name. */
  readonly to?: string;
  readonly toBox?: number;
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
  readonly before?: readonly FlagsBefore[];
  /** What the messages of `ids` looked like, for the mailbox that gets them. */
  readonly shown?: readonly (MessageFacts | null)[];
  /** Of a mailbox. */
  readonly action?: 'create' | 'rename' | 'delete';
  /** Of a send and a draft; files are in `blobs`. */
  readonly mail?: StoredMail;
  readonly undoSeconds?: number;
  /** Takes back the operation with this seq. */
  readonly inverseOf?: number;
  /** Only once that one was carried out. */
  readonly needs?: number;
  /** Of those that went in one request: the id of the first. */
  readonly batch?: string;
  /** The request that went, so that it goes again unchanged. On the first of a batch. */
  readonly request?: unknown;
  /** Milliseconds since 1970: when it first went. */
  readonly sentAt?: number;
  /** Boxes that show it only after a sync that began later than the answer. */
  readonly awaits?: readonly number[];
  /** UIDs that the messages of `ids` got; 0 where there was no such message. */
  readonly placed?: readonly number[];
  /** UIDVALIDITY of the mailbox that has them. */
  readonly placedIn?: string;
  readonly sendId?: string;
  /** The answer to what took a mail back. */
  readonly cancelled?: CancelSendAnswer;
  readonly error?: StoredError;
};

export type StoredError = {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
};

/** Mail that waits: its files are blobs of the store. */
export type StoredMail = Omit<OutgoingMail, 'attachments' | 'draft' | 'inReplyTo'> & {
  readonly draft?: NamedMessage;
  readonly inReplyTo?: NamedMessage;
  readonly attachments?: readonly StoredAttachment[];
};

/** A message that mail names. */
export type NamedMessage = {
  readonly mailbox: string;
  readonly id: MessageId;
  /** Of the mailbox, when the user named it; undefined where the id is no UID, or is of an older version. */
  readonly uidvalidity?: string;
};

export type StoredAttachment = {
  readonly filename?: string;
  readonly contentType?: string;
  readonly contentId?: string;
  readonly inline?: boolean;
  /** Of `blobs`; or, in place of it, a part of a message. */
  readonly blob?: string;
  readonly size?: number;
  readonly from?: NamedMessage & { readonly part: string };
};

/** Puts a row of a table; the one place where a row loses its type. */
export function put(
  table: TableName,
  row: AccountRow | MailboxRow | MessageRow | BodyRow | BlobRow | OperationRow,
): Change {
  return { put: table, row };
}

/** Messages of a mailbox, by their date. */
export function byDate({ box, generation }: MailboxRow): RangeQuery {
  return { table: 'messages', index: 'byDate', prefix: [box, generation] };
}

/** What a list needs, without what belongs to a row of the store. */
export function factsOf(facts: MessageFacts): MessageFacts {
  const { envelope, flags, size, internalDate, preview, threadId, hasAttachment } = facts;
  const always = { envelope, flags, size, internalDate, preview, hasAttachment };
  return { ...always, ...(threadId !== undefined && { threadId }) };
}

export const isSeen = (flags: readonly string[]): boolean => flags.includes('\\Seen');

/** Whether it waits in the queue, or is under way. */
export function isWaiting({ state }: OperationRow): boolean {
  return state === 'queued' || state === 'inflight';
}

/** Whether it changes what is shown. */
export function isLive(operation: OperationRow): boolean {
  return isWaiting(operation) || operation.state === 'acked';
}

/** The id of a message that an operation makes, until the server gives a UID. */
export function localId(seq: number, index: number): MessageId {
  return `~${seq * MAX_IDS + index}`;
}

export function readLocalId(
  id: MessageId,
): { readonly seq: number; readonly index: number } | undefined {
  if (typeof id === 'number') return undefined;
  const number = Number(id.slice(1));
  return { seq: Math.floor(number / MAX_IDS), index: number % MAX_IDS };
}

/** The most messages of one operation, as of one request. */
export const MAX_IDS = 1000;
