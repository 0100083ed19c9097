import { type Bodies, prependBody } from '../bodies/bodies.ts';
import { MessageParser, shiftParsed } from '../message/message.ts';
import type { StagedMessage } from './store.ts';

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
  const body = await bodies.stage(head ? follow(head, source) : source, (chunk) =>
    parser.write(chunk),
  );
  return { parsed: parser.end(), body };
}

/** Puts more header lines in front of a staged message, on top of those it has. */
export function prependHeader(lines: Buffer, { parsed, body }: StagedMessage): StagedMessage {
  return { parsed: shiftParsed(parsed, lines.length), body: prependBody(lines, body) };
}

/** Enough of a message to tell whether it begins with a header field; names are short. */
const PEEKED = 256;

/** The name of a header field and its colon (RFC 5322 section 2.2), or an mbox line before it. */
const HEADER_START = /^(?:[!-9;-~]+[ \t]*:|>?From )/;

/**
 * Puts header lines in front. Text that has no header gets the empty line that begins a body:
 * otherwise its first line would become part of the header, or even of the last line in front.
 */
async function* follow(
  head: Uint8Array,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield head;
  let start: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of source) {
    if (!start) {
      yield chunk;
      continue;
    }
    start = Buffer.concat([start, chunk]);
    if (start.length < PEEKED && !start.includes('\n')) continue;
    yield* separate(start);
    start = undefined;
  }
  if (start) yield* separate(start);
}

function* separate(start: Buffer): Generator<Uint8Array> {
  const first = start.toString('latin1', 0, PEEKED);
  const hasHeader = first === '' || /^\r?\n/.test(first) || HEADER_START.test(first);
  if (!hasHeader) yield Buffer.from('\r\n');
  yield start;
}
