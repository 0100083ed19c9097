import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  asBuffer,
  HEADER_START,
  hasAttachments,
  MessageParser,
  type ParsedMessage,
  parseMessage,
  readPreview,
  shiftParsed,
  startsHeader,
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
export function prependHeader(lines: Buffer, { parsed, body }: StagedMessage): StagedMessage {
  return { parsed: shiftParsed(parsed, lines.length), body: prependBody(lines, body) };
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

const LF = 0x0a;
const EMPTY_LINE = Buffer.from('\r\n');

/**
 * Puts header lines in front. Text without a header gets the empty line that begins a body: without it the
 * first line of the text would become part of the header, or even of the last line in front.
 */
async function* putInFront(
  head: Uint8Array,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  /** The start of the text, until there is enough of it to decide; then undefined. */
  let start: Uint8Array | undefined = new Uint8Array();
  for await (const chunk of source) {
    if (!start) {
      yield chunk;
      continue;
    }
    start = start.length > 0 ? Buffer.concat([start, chunk]) : chunk;
    if (start.length < HEADER_START && !start.includes(LF)) continue;
    yield hasHeader(start) ? head : Buffer.concat([head, EMPTY_LINE]);
    yield start;
    start = undefined;
  }
  if (!start) return;
  yield hasHeader(start) ? head : Buffer.concat([head, EMPTY_LINE]);
  yield start;
}

/** Whether a text begins with header fields, so that no empty line has to go in front of it. */
function hasHeader(start: Uint8Array): boolean {
  const text = asBuffer(start);
  return text.length === 0 || text[0] === LF || text.indexOf('\r\n') === 0 || startsHeader(text);
}
