/**
 * Parses a raw message (RFC 5322) in one pass: bytes go in as they come, structure and envelope come out. Memory
 * stays flat: of a body nothing is kept, of a header at most its limit, and of the stream one line that may turn
 * out to be a boundary.
 *
 * Lines end at LF; a CR before it belongs to the line end. A CR alone is content.
 */
import { Buffer } from 'node:buffer';
import { type Envelope, readEnvelope, readReferences } from './envelope.ts';
import { firstValue, HEADER_START, HeaderReader, startsHeader } from './header.ts';
import { type Delimiter, type Next, OpenParts } from './open-parts.ts';
import { readContent } from './part-content.ts';
import type { MessagePart } from './structure.ts';
import { asBuffer } from './text.ts';

/** What is known of a message after it was parsed. All of it can be stored as JSON. */
export interface ParsedMessage {
  /** Octets of the raw source. */
  readonly size: number;
  readonly envelope: Envelope;
  readonly structure: MessagePart;
  /** Ids of earlier messages, without angle brackets: see {@link readReferences}. */
  readonly references: readonly string[];
  /** Offset where the body of the message begins; `size` where it has none. */
  readonly headerEnd: number;
}

/** RFC 5322 section 2.1.1: 998 characters and CRLF. A longer line is never a delimiter. */
const MAX_LINE = 1_000;

const LF = 0x0a;
const CR = 0x0d;
const DASH = 0x2d;
const EMPTY = Buffer.alloc(0);

/**
 * Offset of the next LF with two dashes after it, or -1. Not a search by Node: each call of one takes as long as
 * 50 bytes here, and a hostile body has dashes in every line.
 */
function findDashes(bytes: Buffer, start: number): number {
  for (let at = start; at + 2 < bytes.length; ) {
    const third = bytes[at + 2];
    if (third === DASH && bytes[at + 1] === DASH && bytes[at] === LF) return at;
    // An LF as third byte may start the pattern, so move there; a dash may be within it; else skip all three.
    at += third === DASH ? 1 : third === LF ? 2 : 3;
  }
  return -1;
}

function startsWithDashes(bytes: Buffer, at: number): boolean {
  return bytes[at] === DASH && bytes[at + 1] === DASH;
}

/** Offset of the line end whose LF is at `lf`. */
function lineEndStart(bytes: Buffer, lf: number): number {
  return bytes[lf - 1] === CR ? lf - 1 : lf;
}

/**
 * The start of what may be the beginning of a delimiter at the end of the bytes: CR, LF, CRLF, or one of the
 * last two and a dash.
 */
function possibleDelimiter(bytes: Buffer): number {
  let at = bytes.length;
  if (bytes[at - 1] === DASH && bytes[at - 2] === LF) at--;
  if (bytes[at - 1] === LF) at--;
  if (bytes[at - 1] === CR) at--;
  return at;
}

/** Parses a message that is read to its end. @throws what the source throws */
export async function parseMessage(source: AsyncIterable<Uint8Array>): Promise<ParsedMessage> {
  const parser = new MessageParser();
  for await (const chunk of source) parser.write(chunk);
  return parser.end();
}

/**
 * Parses a message in chunks of any size; the chunks make no difference.
 *
 * Any bytes give a result: what is not well formed is read leniently, and every offset is one of the real
 * source. It throws only where it is used wrongly.
 */
export class MessageParser {
  readonly #parts = new OpenParts();
  /** The current header; undefined in a body. */
  #header: HeaderReader | undefined = new HeaderReader();
  /** Bytes of a body that need more bytes to be judged. */
  #rest = EMPTY;
  /** Offset in the source of the next byte to read. */
  #offset = 0;
  /** In a body: the next byte starts a line whose line end is not part of the body. */
  #atLineStart = false;
  #envelope: Envelope | undefined;
  #references: readonly string[] = [];
  #headerEnd = 0;
  #ended = false;

  /** Adds bytes; keeps no reference to them. */
  write(chunk: Uint8Array): void {
    if (this.#ended) throw new Error('The message has ended');
    const bytes = asBuffer(chunk);
    if (this.#rest.length === 0) {
      this.#read(bytes, false);
      return;
    }
    // The rest is judged together with the start of the chunk, so that the chunk is not copied.
    const start = Math.min(bytes.length, 2 * MAX_LINE);
    this.#read(Buffer.concat([this.#rest, bytes.subarray(0, start)]), false);
    if (start === bytes.length) return;
    // The remaining rest is shorter than a line, so all of it is in the chunk.
    this.#read(bytes.subarray(start - this.#rest.length), false);
  }

  /** Ends the message. */
  end(): ParsedMessage {
    if (this.#ended) throw new Error('The message has ended');
    this.#ended = true;
    this.#read(this.#rest, true);
    const size = this.#offset;
    const structure = this.#parts.end(size);
    const envelope = this.#envelope ?? { subject: '' };
    const [references, headerEnd] = [this.#references, this.#headerEnd];
    return { size, envelope, structure, references, headerEnd };
  }

  #read(bytes: Buffer, isLast: boolean): void {
    let rest = bytes;
    while (rest.length > 0 || (isLast && this.#header)) {
      const behind = this.#header
        ? this.#readHeader(this.#header, rest, isLast)
        : this.#readBody(rest, isLast);
      if (!behind) break;
      rest = behind;
    }
    this.#rest = rest.length > 0 ? Buffer.from(rest) : EMPTY;
  }

  /** @returns the bytes after the header; empty while the header goes on */
  #readHeader(header: HeaderReader, bytes: Buffer, isLast: boolean): Buffer {
    const isDelimiter = (line: Buffer) => this.#parts.findDelimiter(line) !== undefined;
    const behind =
      header.write(bytes, isDelimiter) ?? (isLast ? header.end(isDelimiter) : undefined);
    this.#offset += bytes.length - (behind?.length ?? 0);
    if (!behind) return EMPTY;
    const { fields } = header.header;
    const content = readContent((name) => firstValue(fields, name), this.#parts.defaultType);
    if (this.#parts.isRoot) {
      this.#envelope = readEnvelope(fields);
      this.#references = readReferences(fields);
      this.#headerEnd = this.#offset;
    }
    this.#begin(this.#parts.headerRead(content, this.#offset, header.hasBody), true);
    return behind;
  }

  #begin(next: Next, atLineStart: boolean): void {
    this.#header = next === 'header' ? new HeaderReader() : undefined;
    this.#atLineStart = atLineStart;
  }

  /** @returns the bytes after the part that was read; undefined where more bytes are needed to decide */
  #readBody(bytes: Buffer, isLast: boolean): Buffer | undefined {
    if (!this.#parts.hasDelimiters) return this.#keepTo(bytes, bytes.length);
    let search = 0;
    while (search < bytes.length) {
      let line = search;
      let bodyEnd = search;
      if (this.#atLineStart) {
        const isCut = bytes[line] === DASH && line + 1 === bytes.length && !isLast;
        if (isCut) return undefined;
        this.#atLineStart = startsWithDashes(bytes, line);
        if (!this.#atLineStart) continue;
      } else {
        const lf = findDashes(bytes, search);
        if (lf < 0) break;
        line = lf + 1;
        bodyEnd = lineEndStart(bytes, lf);
      }
      if (!this.#parts.mayDelimit(bytes, line)) {
        this.#atLineStart = false;
        search = line;
        continue;
      }
      const lf = bytes.indexOf(LF, line);
      const end = lf < 0 ? bytes.length : lf + 1;
      const isShort = end - line < MAX_LINE || (lf >= 0 && end - line === MAX_LINE);
      if (lf < 0 && isShort && !isLast) return this.#keepTo(bytes, bodyEnd);
      const delimiter = isShort ? this.#parts.findDelimiter(bytes.subarray(line, end)) : undefined;
      if (delimiter) return this.#delimit(bytes, delimiter, bodyEnd, end);
      this.#atLineStart = false;
      search = lf < 0 ? end : lf;
    }
    return this.#keepTo(bytes, isLast ? bytes.length : possibleDelimiter(bytes));
  }

  /** Counts bytes as body, if there are any. */
  #keepTo(bytes: Buffer, end: number): Buffer | undefined {
    this.#parts.measure(bytes, end);
    this.#offset += end;
    return end > 0 ? bytes.subarray(end) : undefined;
  }

  /**
   * Continues after a delimiter line that ends at `end`.
   *
   * The line end of a closing delimiter stays to be read: where the delimiter of the multipart around it
   * follows, the line end belongs to that one.
   */
  #delimit(bytes: Buffer, delimiter: Delimiter, bodyEnd: number, end: number): Buffer {
    this.#parts.measure(bytes, bodyEnd);
    const next = this.#parts.delimit(delimiter, this.#offset + bodyEnd, this.#offset + end);
    this.#begin(next, false);
    const isLeft = next === 'body' && bytes[end - 1] === LF;
    const read = isLeft ? lineEndStart(bytes, end - 1) : end;
    this.#offset += read;
    return bytes.subarray(read);
  }
}

/* Puts header lines in front: of a message that comes in, and of one that was parsed. */

const EMPTY_LINE = Buffer.from('\r\n');

/**
 * Puts header lines, ending in CRLF, in front of a message. Text without a header gets the empty line that begins a
 * body: without it the first line of the text would become part of the header, or even of the last line in front.
 */
export async function* putInFront(
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

/**
 * A parsed message after `octets` of further header fields were put in front of it: the same parts with larger
 * offsets. Its own header begins with the new fields.
 */
export function shiftParsed(parsed: ParsedMessage, octets: number): ParsedMessage {
  return {
    ...parsed,
    size: parsed.size + octets,
    headerEnd: parsed.headerEnd + octets,
    structure: { ...shiftPart(parsed.structure, octets), headerStart: 0 },
  };
}

function shiftPart(part: MessagePart, octets: number): MessagePart {
  return {
    ...part,
    headerStart: part.headerStart + octets,
    bodyStart: part.bodyStart + octets,
    bodyEnd: part.bodyEnd + octets,
    ...(part.childNodes && {
      childNodes: part.childNodes.map((child) => shiftPart(child, octets)),
    }),
  };
}
