/** What the engine keeps in the tables of a store. Plain data: a member that is undefined is one that is left out. */
import type { CancelSendAnswer, Content } from '../api-types.ts';
import type { ApiError } from '../errors.ts';
import type {
  MailMessage,
  MessageId,
  MessageLocation,
  Operation,
  OutgoingAttachment,
  OutgoingMail,
} from './client.ts';
import { type Change, type RangeQuery, type Row, TABLES, type TableName } from './store.ts';

export type AccountRow = {
  readonly account: string;
  readonly origin: string;
  readonly address: string;
  /** Counts the tabs that led; writes of an earlier one fail. */
  readonly epoch: number;
  /** Whether the leader holds the lock, whose end says that it is gone. */
  readonly byLock?: boolean | undefined;
  /** Milliseconds since 1970 until which the leader leads without a sign of life. */
  readonly leaseUntil: number;
  /** What the leader said of itself with its last sign of life. */
  readonly state?: string | undefined;
  readonly stateReason?: string | undefined;
  /** Counts the writes of leaders, each of which counts itself: who knows it, has read all that they wrote. */
  readonly revision?: number | undefined;
  /** Mailboxes that another tab wants to be read. */
  readonly asked?: readonly string[] | undefined;
  /** Of the next operation. */
  readonly seq: number;
  /** Nothing is taken any more. */
  readonly signedOut?: boolean | undefined;
};

/** What is read of the server: a box, or the list of mailboxes. */
export type Reading = number | 'list';

export type MailboxRow = {
  readonly account: string;
  /** Names it in other tables, over renames. */
  readonly box: number;
  readonly name: string;
  readonly mailboxId?: string | undefined;
  readonly specialUse?: string | undefined;
  /** Absent before the first page of the first sync. */
  readonly uidvalidity?: string | undefined;
  readonly token?: string | undefined;
  /** The token leads to the next page of a sync. */
  readonly paging: boolean;
  /** All of the mailbox was seen since it began anew. */
  readonly complete: boolean;
  /** Rows of earlier generations are waste. */
  readonly generation: number;
  /** What the copy has. */
  readonly total: number;
  readonly unseen: number;
  /** What the server said that it has: shown until the copy is whole. */
  readonly serverTotal: number;
  readonly serverUnseen: number;
  /** Deleted: its rows are still being swept. */
  readonly gone?: true | undefined;
};

/** What a list shows of a message. */
export type MessageFacts = Omit<MailMessage, 'id' | 'mailbox' | 'pending'>;

/** Names a message, in tables of messages. */
type OfMessage = {
  readonly account: string;
  readonly box: number;
  readonly generation: number;
  readonly uid: number;
};

export type MessageRow = MessageFacts &
  OfMessage & {
    /** `internalDate` in milliseconds since 1970. */
    readonly date: number;
  };

export type BodyRow = OfMessage & {
  readonly usedAt: number;
  /** Octets, roughly. */
  readonly weight: number;
  readonly content: Content;
};

export type BlobRow = {
  readonly account: string;
  /** The operation's id and a number. */
  readonly blob: string;
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

export type OperationRow = {
  readonly account: string;
  readonly seq: number;
  /** Also the Idempotency-Key. */
  readonly id: string;
  /** The id of the first of those that one call made. */
  readonly group: string;
  readonly kind: Operation['kind'];
  readonly state: OperationState;
  /** Name of the mailbox that it changes, when it was made; the box has its name of today. */
  readonly mailbox: string;
  readonly box?: number | undefined;
  readonly uidvalidity?: string | undefined;
  readonly ids: readonly MessageId[];
  /** Of a move and a copy; of a mailbox, its new name. */
  readonly to?: string | undefined;
  readonly toBox?: number | undefined;
  readonly add?: readonly string[] | undefined;
  readonly remove?: readonly string[] | undefined;
  readonly before?: readonly FlagsBefore[] | undefined;
  /** What the messages of `ids` looked like, for the mailbox that gets them. */
  readonly shown?: readonly (MessageFacts | null)[] | undefined;
  /** Of a mailbox. */
  readonly action?: 'create' | 'rename' | 'delete' | undefined;
  /** Of a send and a draft; files are in `blobs`. */
  readonly mail?: StoredMail | undefined;
  readonly undoSeconds?: number | undefined;
  /** Takes back the operation with this seq. */
  readonly inverseOf?: number | undefined;
  /** Only once that one was carried out. */
  readonly needs?: number | undefined;
  /** Of those that went in one request: the id of the first. */
  readonly batch?: string | undefined;
  /** The request that went, so that it goes again unchanged. On the first of a batch. */
  readonly request?: unknown | undefined;
  /** Milliseconds since 1970: when it first went. */
  readonly sentAt?: number | undefined;
  /** What shows it only after it was read anew, from later than the answer on. */
  readonly awaits?: readonly Reading[] | undefined;
  /** UIDs that the messages of `ids` got; 0 where there was no such message. */
  readonly placed?: readonly number[] | undefined;
  /** Of a draft that the server has: the part numbers of its files. */
  readonly parts?: readonly string[] | undefined;
  /** UIDVALIDITY of the mailbox that has them. */
  readonly placedIn?: string | undefined;
  readonly sendId?: string | undefined;
  /** The answer to what took a mail back. */
  readonly cancelled?: CancelSendAnswer | undefined;
  readonly error?: StoredError | undefined;
};

export type StoredError = Pick<ApiError, 'status' | 'code' | 'detail'> &
  Partial<Pick<ApiError, 'errors' | 'requestId'>>;

/** Mail that waits: its files are blobs of the store. */
export type StoredMail = Omit<OutgoingMail, 'attachments' | 'draft' | 'inReplyTo'> & {
  readonly draft?: NamedMessage | undefined;
  readonly inReplyTo?: NamedMessage | undefined;
  readonly attachments?: readonly StoredAttachment[] | undefined;
};

/** A message that mail names. */
export type NamedMessage = MessageLocation & {
  /** Of the mailbox, when the user named it; undefined where the id is no UID, or is of an older version. */
  readonly uidvalidity?: string | undefined;
};

export type StoredAttachment = Omit<OutgoingAttachment, 'content' | 'from'> & {
  /** Of `blobs`; or, in place of it, a part of a message. */
  readonly blob?: string | undefined;
  readonly size?: number | undefined;
  readonly from?: NamedPart | undefined;
  /** Of a file of a draft that waits: where that has it from, once nothing is known of the draft. */
  readonly before?: NamedPart | undefined;
};

export type NamedPart = NamedMessage & { readonly part: string };

/** Puts a row of a table; the one place where a row loses its type. */
export function put(
  table: TableName,
  row: AccountRow | MailboxRow | MessageRow | BodyRow | BlobRow | OperationRow,
): Change {
  return { put: table, row };
}

/** Puts a mailbox, where it is not as it was. */
export function putChanged(row: MailboxRow, before: MailboxRow | undefined): Change[] {
  return JSON.stringify(row) === JSON.stringify(before) ? [] : [put('mailboxes', row)];
}

/** What removes a row of a table. */
export function removal(table: TableName, row: Row): Change {
  return { remove: table, key: TABLES[table].key.map((member) => row[member] as string | number) };
}

/** Messages of a mailbox, by their date. */
export function byDate({ box, generation }: MailboxRow): RangeQuery {
  return { table: 'messages', index: 'byDate', prefix: [box, generation] };
}

/** What a list needs, without what belongs to a row of the store. */
export function factsOf(row: MessageFacts): MessageFacts {
  return Object.fromEntries(FIELDS.map((name) => [name, row[name]])) as unknown as MessageFacts;
}

/** What is known of each message, and asked for in a sync. */
export const FIELDS: (keyof MessageFacts)[] = [
  'envelope',
  'flags',
  'size',
  'internalDate',
  'preview',
  'threadId',
  'hasAttachment',
];

export const isSeen = (flags: readonly string[]): boolean => flags.includes('\\Seen');

/** Whether it waits in the queue, or is under way. */
export function isWaiting({ state }: OperationRow): boolean {
  return state === 'queued' || state === 'inflight';
}

/** The names of its files in the store. */
export function blobsOf({ mail }: OperationRow): string[] {
  return mail?.attachments?.flatMap(({ blob }) => blob ?? []) ?? [];
}

/** Whether it changes what is shown. */
export function isLive(operation: OperationRow): boolean {
  return isWaiting(operation) || operation.state === 'acked';
}

/** The id of a message that an operation makes, until the server gives a UID. */
export function localId(seq: number, index: number): MessageId {
  return `~${seq * MAX_IDS + index}`;
}

/** The number of a file of a draft, until the server gives it one. */
export function localPart(index: number): string {
  return `~${index}`;
}

/** Which file it is; undefined for a number of the server. */
export function readLocalPart(part: string): number | undefined {
  return part.startsWith('~') ? Number(part.slice(1)) : undefined;
}

/** What made the message, and as which of its messages; 0 for a UID. */
export function readLocalId(id: MessageId): { readonly seq: number; readonly index: number } {
  const number = typeof id === 'number' ? 0 : Number(id.slice(1));
  return { seq: Math.floor(number / MAX_IDS), index: number % MAX_IDS };
}

export const bySeq = (
  wanted: number | undefined,
  operations: readonly OperationRow[],
): OperationRow | undefined => operations.find(({ seq }) => seq === wanted);

/** The change that brought, or brings, a message that has a local id. */
export const madeBy = (
  id: MessageId,
  operations: readonly OperationRow[],
): OperationRow | undefined => bySeq(readLocalId(id).seq, operations);

/** The UID of a message; 0 where it never came to be, or is not known yet. */
export function uidOf(id: MessageId, operations: readonly OperationRow[]): number {
  if (typeof id === 'number') return id;
  return madeBy(id, operations)?.placed?.[readLocalId(id).index] ?? 0;
}

/** UIDVALIDITY that the UID of a message belongs to, where a change brought the message to its mailbox. */
export function placedIn(id: MessageId, operations: readonly OperationRow[]): string | undefined {
  return madeBy(id, operations)?.placedIn;
}

/**
 * UIDs of messages, 0 for those that never came to be, and what they belong to: of two mailboxes, the one that was made anew
 * since, so that a change of it is refused.
 *
 * @param now UIDVALIDITY of the mailbox
 * @param named that the UIDs among the ids belong to
 */
export function locateIn(
  ids: readonly MessageId[],
  operations: readonly OperationRow[],
  now: string | undefined,
  named: string | undefined = now,
): { readonly uids: readonly number[]; readonly uidvalidity: string | undefined } {
  const uids = ids.map((id) => uidOf(id, operations));
  const all = ids.map((id) => placedIn(id, operations) ?? named);
  return { uids, uidvalidity: all.find((one) => one !== now) ?? now };
}

/** The name of a mailbox after another one has a new name: it has one, too, where it is below that. */
export function renamed(name: string, from: string, to: string): string {
  const isOf = name === from || name.startsWith(`${from}/`);
  return isOf ? to + name.slice(from.length) : name;
}

/** The most messages of one operation, as of one request. */
export const MAX_IDS = 1000;
