import { type Bodies, prependBody } from '../bodies/bodies.ts';
import { MessageParser, type ParsedMessage, shiftParsed } from '../message/message.ts';
import type { MessageTexts, StagedMessage } from './store.ts';

/**
 * Reads a message to its end in one pass: parses it and keeps its source, large ones on disk.
 *
 * @param head lines to put in front (trace headers), ending in CRLF
 * @throws whatever the source or the disk throws; then nothing is left behind
 */
export async function stageMessage(
  bodies: Pick<Bodies, 'stage'>,
  source: AsyncIterable<Uint8Array>,
  head?: Uint8Array,
): Promise<StagedMessage> {
  const parser = new MessageParser();
  const body = await bodies.stage(head ? putInFront(head, source) : source, (chunk) =>
    parser.write(chunk),
  );
  return { parsed: parser.end(), body };
}

/** Puts more header lines in front of a staged message, on top of those it has. */
export function prependHeader(lines: Buffer, { parsed, body }: StagedMessage): StagedMessage {
  return { parsed: shiftParsed(parsed, lines.length), body: prependBody(lines, body) };
}

export function describeMessage({ size, envelope, structure }: ParsedMessage): MessageTexts {
  return { size, envelope: JSON.stringify(envelope), structure: JSON.stringify(structure) };
}

/** Enough of a message to tell whether it begins with a header field; names are short. */
const PEEKED = 256;

const LF = 0x0a;
const EMPTY_LINE = Buffer.from('\r\n');

/** The name of a header field and its colon (RFC 5322 section 2.2), or an mbox line before it. */
const HEADER_START = /^(?:[!-9;-~]+[ \t]*:|>?From )/;

/**
 * Puts header lines in front. Text that has no header gets the empty line that begins a body:
 * otherwise its first line would become part of the header, or even of the last line in front.
 */
async function* putInFront(
  head: Uint8Array,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  /** The start of the text, until there is enough of it; undefined from then on. */
  let start: Uint8Array | undefined = new Uint8Array();
  for await (const chunk of source) {
    if (!start) {
      yield chunk;
      continue;
    }
    start = start.length > 0 ? Buffer.concat([start, chunk]) : chunk;
    if (start.length < PEEKED && !start.includes(LF)) continue;
    yield hasHeader(start) ? head : Buffer.concat([head, EMPTY_LINE]);
    yield start;
    start = undefined;
  }
  if (!start) return;
  yield hasHeader(start) ? head : Buffer.concat([head, EMPTY_LINE]);
  yield start;
}

function hasHeader(start: Uint8Array): boolean {
  const first = Buffer.from(start.subarray(0, PEEKED)).toString('latin1');
  return first === '' || /^\r?\n/.test(first) || HEADER_START.test(first);
}
