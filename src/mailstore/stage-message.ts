import { type Bodies, holdBody, prependBody } from '../bodies/bodies.ts';
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

/**
 * The same for a message that is all there and stays in memory, at once: a stream takes several turns
 * for each of its chunks.
 *
 * @param pieces whose bytes must not change any more; a handful
 */
export function holdMessage(pieces: readonly Uint8Array[], head: Uint8Array): StagedMessage {
  const parser = new MessageParser();
  const front = new HeadInFront(head);
  const held = [...pieces.flatMap((piece) => front.take(piece)), ...front.end()];
  for (const piece of held) parser.write(piece);
  return { parsed: parser.end(), body: holdBody(held) };
}

/** Puts more header lines in front of a staged message, on top of those it has. */
export function prependHeader(lines: Buffer, { parsed, body }: StagedMessage): StagedMessage {
  return { parsed: shiftParsed(parsed, lines.length), body: prependBody(lines, body) };
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
class HeadInFront {
  readonly #head: Uint8Array;
  /** The start of the text, until there is enough of it; undefined from then on. */
  #start: Uint8Array | undefined = new Uint8Array();

  constructor(head: Uint8Array) {
    this.#head = head;
  }

  /** Takes the next bytes; answers those that come next. */
  take(chunk: Uint8Array): Uint8Array[] {
    if (!this.#start) return [chunk];
    const start = this.#start.length > 0 ? Buffer.concat([this.#start, chunk]) : chunk;
    this.#start = start;
    return start.length < PEEKED && !start.includes(LF) ? [] : this.end();
  }

  /** Ends the text. */
  end(): Uint8Array[] {
    const start = this.#start;
    if (!start) return [];
    this.#start = undefined;
    return hasHeader(start) ? [this.#head, start] : [this.#head, EMPTY_LINE, start];
  }
}

function hasHeader(start: Uint8Array): boolean {
  const first = Buffer.from(start.subarray(0, PEEKED)).toString('latin1');
  return first === '' || /^\r?\n/.test(first) || HEADER_START.test(first);
}

async function* follow(
  head: Uint8Array,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const front = new HeadInFront(head);
  for await (const chunk of source) yield* front.take(chunk);
  yield* front.end();
}
