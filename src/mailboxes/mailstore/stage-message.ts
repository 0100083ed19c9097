import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  hasAttachments,
  MessageParser,
  type ParsedMessage,
  parseMessage,
  putInFront,
  readPreview,
  shiftParsed,
} from '../../protocols/message/message.ts';
import { type Bodies, prependBody, type StagedBody, type StoredBody } from '../bodies/bodies.ts';
import type { MessageTexts, StagedMessage } from './store.ts';
import { threadHeaders } from './threads.ts';

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
