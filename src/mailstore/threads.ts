/**
 * Which conversation a message belongs to, by the ids that its header names. The thread is a number made
 * of the id of the message that began it: so all messages that name it have the same, in whatever order
 * they come. `embedded/find-thread.ts` finds it as well where a message names only the one that it answers.
 */
import { hash } from 'node:crypto';
import { readMessageIds } from '../message/message.ts';

/** What of a header tells the conversation. */
export interface ThreadHeaders {
  /** Of the message itself; absent where it has none. */
  readonly messageId?: string;
  /** Of messages before it, the first of the conversation first. */
  readonly references: readonly string[];
}

/** @param messageId as it stands in the field */
export function threadHeaders(
  messageId: string | undefined,
  references: readonly string[],
): ThreadHeaders {
  if (messageId === undefined) return { references };
  return { messageId: readMessageIds(messageId)[0] ?? messageId, references };
}

/**
 * The thread as the header alone tells it.
 *
 * @param other names a message that has no id and answers none
 */
export function threadByHeader(
  { messageId, references }: ThreadHeaders,
  other: () => string,
): number {
  return hashOf(references[0] ?? messageId ?? other());
}

/** A number of 52 bits, which every engine and JSON keep exactly. */
export function hashOf(text: string): number {
  const bytes = hash('sha256', text, 'buffer');
  return bytes.readUIntBE(0, 6) * 16 + (bytes.readUInt8(6) >> 4);
}

/** An ObjectID (RFC 8474 section 4). */
export function formatThreadId(thread: number): string {
  return `t${thread.toString(36)}`;
}
