/** What a mailbox keeps of a message: its source, what is read of it in one pass, and which conversation it belongs to. */
import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Queries } from '../../platform/database/database.ts';
import {
  hasAttachments,
  MessageParser,
  type ParsedMessage,
  parseMessage,
  putInFront,
  readMessageId,
  readPreview,
  shiftParsed,
} from '../../protocols/message/message.ts';
import { type Bodies, prependBody, type StagedBody, type StoredBody } from '../bodies/bodies.ts';
import type { MessageTexts, StagedMessage, ThreadHeaders } from './store.ts';

/**
 * Reads a message to its end in one pass: parses it and keeps its source, large ones on disk.
 *
 * @param head lines to put in front (trace headers), ending in CRLF
 * @throws any error of the source or the disk; then nothing of the message is kept
 */
export async function stageMessage(
  bodies: Pick<Bodies, 'stage'>,
  source: AsyncIterable<Uint8Array>,
  head?: Uint8Array,
): Promise<StagedMessage> {
  const parser = new MessageParser();
  const turns = yieldTurn(source);
  const body = await bodies.stage(head ? putInFront(head, turns) : turns, (chunk) =>
    parser.write(chunk),
  );
  return { parsed: parser.end(), body };
}

/** Octets after which other work gets a turn. */
const TURN = 256 * 1024;

/** Lets the event loop continue now and then: a source that is already complete would hold it to its end. */
async function* yieldTurn(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let taken = 0;
  for await (const chunk of source) {
    yield chunk;
    taken += chunk.length;
    if (taken < TURN) continue;
    taken = 0;
    await nextTurn();
  }
}

/** Puts more header lines in front of a staged message, above those it has. */
export function prependHeader(lines: Buffer, message: StagedMessage): StagedMessage {
  const { parsed, body, ...rest } = message;
  return {
    ...rest,
    parsed: shiftParsed(parsed, lines.length),
    body: prependBody(lines, body),
  };
}

/** A message that was parsed, and where its source is. */
export interface ReadMessage {
  readonly parsed: ParsedMessage;
  readonly body: StagedBody | StoredBody;
}

/** What a mailbox keeps of a message in addition to its source. */
export async function describeMessage(
  bodies: Pick<Bodies, 'read'>,
  { parsed, body }: ReadMessage,
): Promise<MessageTexts> {
  const { size, envelope, structure, references } = parsed;
  return {
    size,
    envelope: JSON.stringify(envelope),
    structure: JSON.stringify(structure),
    preview: await readPreview(structure, (range) => bodies.read(body, range)),
    hasAttachment: hasAttachments(structure),
    thread: threadHeaders(envelope.messageId, references),
  };
}

/** The same for a message that is stored: its source is read once more. */
export async function describeStored(
  bodies: Pick<Bodies, 'read'>,
  body: StoredBody,
): Promise<MessageTexts> {
  return describeMessage(bodies, { parsed: await parseMessage(bodies.read(body)), body });
}

/*
 * Which conversation a message belongs to, by the ids in its header. The thread is a number made from the id of
 * the message that began it: all messages that name this id get the same number, in whatever order they come. A
 * message that names only the one it answers gets the thread of that one, if the account has it.
 */

/** @param messageId the field as it is written */
export function threadHeaders(
  messageId: string | undefined,
  references: readonly string[],
): ThreadHeaders {
  if (messageId === undefined) return { references };
  return { messageId: readMessageId(messageId) ?? messageId, references };
}

/**
 * The thread by the header alone.
 *
 * @param other the name of a message that has no id and answers none
 */
export function threadByHeader(
  { messageId, references }: ThreadHeaders,
  other: () => string,
): number {
  return hashOf(references[0] ?? messageId ?? other());
}

/** A number of 52 bits, which every engine and JSON keep without rounding. */
function hashOf(text: string): number {
  const bytes = hash('sha256', text, 'buffer');
  return bytes.readUIntBE(0, 6) * 16 + (bytes.readUInt8(6) >> 4);
}

/** An ObjectID (RFC 8474 section 4). */
export function formatThreadId(thread: number): string {
  return `t${thread.toString(36)}`;
}

/** The columns of a message's row that belong to its conversation. */
export interface ThreadColumns {
  readonly thread_id: number;
  /** The key by which answers find it; null where it has no Message-ID. */
  readonly message_key: number | null;
}

/** The account is part of the key: a message to a thousand accounts has a thousand keys. */
function keyOf(accountId: number, messageId: string): number {
  return hashOf(`${accountId} ${messageId}`);
}

/** The same where the header alone decides: the message has an id and answers none. Else undefined. */
export function plainThread(
  accountId: number,
  { messageId, references }: ThreadHeaders,
): ThreadColumns | undefined {
  if (messageId === undefined || references.length > 0) return undefined;
  return { thread_id: hashOf(messageId), message_key: keyOf(accountId, messageId) };
}

/**
 * An answer joins the thread of the message that it answers, or of another one that it names. If none of them has
 * come yet, or it names none, its header decides the thread. A thread that was returned once never changes.
 *
 * @param otherName stands for the id of a message that has none
 */
export async function findThread(
  tx: Queries,
  accountId: number,
  headers: ThreadHeaders,
  otherName: () => string,
): Promise<ThreadColumns> {
  const { messageId, references } = headers;
  const message_key = messageId === undefined ? null : keyOf(accountId, messageId);
  const byHeader = threadByHeader(headers, otherName);
  if (references.length === 0) return { thread_id: byHeader, message_key };
  // Last first: the one that is answered.
  const keys = references.map((id) => keyOf(accountId, id)).reverse();
  // A second copy of a message joins the thread of the first one.
  if (message_key !== null) keys.unshift(message_key);
  const rows = await threadsQuery(tx, accountId, keys).execute();
  const threads = new Map(rows.map((row) => [row.message_key, row.thread_id]));
  const found = keys.map((key) => threads.get(key)).find((thread) => typeof thread === 'number');
  return { thread_id: found ?? byHeader, message_key };
}

/** No join: SQLite would read all messages of the account for it. */
export function threadsQuery(queries: Queries, accountId: number, keys: readonly number[]) {
  return queries
    .selectFrom('messages')
    .select(['message_key', 'thread_id'])
    .where('message_key', 'in', keys)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('mailboxes')
          .select('mailboxes.id')
          .whereRef('mailboxes.id', '=', 'messages.mailbox_id')
          .where('mailboxes.account_id', '=', accountId),
      ),
    );
}
