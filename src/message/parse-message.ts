/**
 * Reads a raw message (RFC 5322) in one pass: bytes go in as they come, structure and envelope
 * come out. Memory stays flat: of a body nothing is kept, of a header at most its cap, and of
 * the stream one line that may turn out to be a boundary.
 *
 * Lines end at LF; a CR before it belongs to the line end. A CR alone is content.
 */
import { Buffer } from 'node:buffer';
import { type Envelope, readEnvelope } from './envelope.ts';
import { HeaderBlock, isBlank, parseFields, startsField } from './header-fields.ts';
import { type Delimiter, type Next, OpenParts } from './open-parts.ts';
import { readContent } from './part-content.ts';
import type { MessagePart } from './structure.ts';
import { asBuffer } from './transfer-encoding.ts';

/** What is known of a message once it has been read. All of it can be stored as JSON. */
export interface ParsedMessage {
  /** Octets of the raw source. */
  readonly size: number;
  readonly envelope: Envelope;
  readonly structure: MessagePart;
  /** Offset where the body of the message begins; `size` where it has none. */
  readonly headerEnd: number;
}

/** RFC 5322 section 2.1.1: 998 characters and CRLF. A longer line is never a delimiter. */
const MAX_LINE = 1_000;

const LF = 0x0a;
const CR = 0x0d;
const DASH = 0x2d;
const LINE_WITH_DASHES = Buffer.from('\n--');
const EMPTY = Buffer.alloc(0);

function startsWithDashes(bytes: Buffer, at: number): boolean {
  return bytes[at] === DASH && bytes[at + 1] === DASH;
}

/** Offset of the line end whose LF is at `lf`; not in front of `floor`. */
function lineEndStart(bytes: Buffer, lf: number, floor: number): number {
  return lf > floor && bytes[lf - 1] === CR ? lf - 1 : lf;
}

/**
 * Where the end of the bytes may be the start of a delimiter: CR, LF, CRLF, or one of the last two
 * and a dash. Not in front of `floor`.
 */
function possibleDelimiter(bytes: Buffer, floor: number): number {
  let at = bytes.length;
  if (at - 2 >= floor && bytes[at - 1] === DASH && bytes[at - 2] === LF) at--;
  if (at > floor && bytes[at - 1] === LF) at--;
  if (at > floor && bytes[at - 1] === CR) at--;
  return at;
}

/**
 * Takes a message in chunks of any size; how it is cut makes no difference.
 *
 * Whatever the bytes are, there is a result: what is not well formed is read leniently, and every
 * offset is one of the true source. Nothing is thrown but for wrong use.
 */
export class MessageParser {
  readonly #parts = new OpenParts();
  readonly #block = new HeaderBlock();
  /** Bytes that could not be judged yet, and the offset in the source of the first of them. */
  #rest = EMPTY;
  #offset = 0;
  #mode: Next = 'header';
  /** In a header: the line under way is too long to be anything but part of a field. */
  #inLongLine = false;
  #longLineEndsInCr = false;
  /** In a header: length of the line end before the line at hand; 0 in its first line. */
  #lineEnd = 0;
  /** In a body: the next byte starts a line whose line end is not part of the body. */
  #atLineStart = false;
  #envelope: Envelope | undefined;
  #headerEnd = 0;
  #ended = false;

  /** Takes the next bytes; keeps no reference to them. */
  write(chunk: Uint8Array): void {
    if (this.#ended) throw new Error('The message has ended');
    const bytes = asBuffer(chunk);
    if (this.#rest.length === 0) {
      this.#read(bytes, false);
      return;
    }
    // What was left is judged together with the start of the chunk, so that no chunk is copied.
    const start = Math.min(bytes.length, 2 * MAX_LINE);
    this.#read(Buffer.concat([this.#rest, bytes.subarray(0, start)]), false);
    if (start === bytes.length) return;
    // It is shorter than a line, so all that is left by now lies in the chunk.
    this.#read(bytes.subarray(start - this.#rest.length), false);
  }

  /** Ends the message. */
  end(): ParsedMessage {
    if (this.#ended) throw new Error('The message has ended');
    this.#ended = true;
    this.#read(this.#rest, true);
    if (this.#mode === 'header') this.#headerRead(this.#offset, false);
    const size = this.#offset;
    const structure = this.#parts.end(size);
    const envelope = this.#envelope ?? { subject: '' };
    return { size, envelope, structure, headerEnd: this.#headerEnd };
  }

  #read(bytes: Buffer, isLast: boolean): void {
    let at = 0;
    while (at < bytes.length) {
      const next =
        this.#mode === 'header'
          ? this.#readHeader(bytes, at, isLast)
          : this.#readBody(bytes, at, isLast);
      if (next === undefined) break;
      at = next;
    }
    this.#offset += at;
    this.#rest = at < bytes.length ? Buffer.from(bytes.subarray(at)) : EMPTY;
  }

  /** Reads header lines: the index to go on from, or undefined where more bytes are needed. */
  #readHeader(bytes: Buffer, start: number, isLast: boolean): number | undefined {
    let at = start;
    while (at < bytes.length) {
      const lf = bytes.indexOf(LF, at);
      const end = lf < 0 ? bytes.length : lf + 1;
      const isShort = end - at < MAX_LINE || (lf >= 0 && end - at === MAX_LINE);
      if (!this.#inLongLine) {
        if (lf < 0 && isShort && !isLast) {
          this.#block.append(bytes, start, at);
          return at > start ? at : undefined;
        }
        const delimiter = isShort ? this.#delimiterAt(bytes, at, end) : undefined;
        if (delimiter) {
          this.#block.append(bytes, start, at);
          return this.#cutHeader(bytes, at, end, delimiter);
        }
        if (isBlank(bytes, at, end)) {
          this.#block.append(bytes, start, at);
          this.#headerRead(this.#offset + end, true);
          return end;
        }
        const isFirst = this.#lineEnd === 0;
        if (isFirst && !startsField(bytes, at, Math.min(end, at + MAX_LINE))) {
          // No field where the first should be: there is no header, and this is the body.
          this.#headerRead(this.#offset + at, true);
          return at;
        }
      }
      this.#noteLineEnd(bytes, at, lf);
      at = end;
    }
    this.#block.append(bytes, start, at);
    return at;
  }

  #delimiterAt(bytes: Buffer, start: number, end: number): Delimiter | undefined {
    return this.#parts.hasDelimiters && startsWithDashes(bytes, start)
      ? this.#parts.findDelimiter(bytes, start, end)
      : undefined;
  }

  /** Notes how the line of a header that goes from `start` to its LF (or -1) ends. */
  #noteLineEnd(bytes: Buffer, start: number, lf: number): void {
    if (lf < 0) {
      this.#inLongLine = true;
      this.#longLineEndsInCr = bytes[bytes.length - 1] === CR;
      return;
    }
    const hasCr = lf > start ? bytes[lf - 1] === CR : this.#inLongLine && this.#longLineEndsInCr;
    this.#lineEnd = hasCr ? 2 : 1;
    this.#inLongLine = false;
  }

  /** A delimiter at `start` ends the header without a blank line: the part has no body. */
  #cutHeader(bytes: Buffer, start: number, end: number, delimiter: Delimiter): number {
    // The line end in front of the delimiter belongs to it, even here.
    const headerEnd = this.#offset + start - this.#lineEnd;
    this.#headerRead(headerEnd, false);
    return this.#delimit(bytes, delimiter, headerEnd, end);
  }

  /** Takes the header as complete; `bodyStart` is an offset in the source. */
  #headerRead(bodyStart: number, hasBody: boolean): void {
    const isMessage = this.#parts.isRoot;
    const fields = parseFields(this.#block.take(), isMessage);
    const content = readContent(fields, this.#parts.defaultType);
    if (isMessage) {
      this.#envelope = readEnvelope(fields);
      this.#headerEnd = bodyStart;
    }
    this.#begin(this.#parts.headerRead(content, bodyStart, hasBody), true);
  }

  #begin(next: Next, atLineStart: boolean): void {
    this.#mode = next;
    this.#atLineStart = atLineStart;
    this.#lineEnd = 0;
    this.#inLongLine = false;
  }

  /** Reads body: the index to go on from, or undefined where more bytes are needed. */
  #readBody(bytes: Buffer, start: number, isLast: boolean): number | undefined {
    if (!this.#parts.hasDelimiters) return this.#keepTo(bytes, start, bytes.length);
    let search = start;
    while (search < bytes.length) {
      let line = search;
      let bodyEnd = search;
      if (this.#atLineStart) {
        const isCut = bytes[line] === DASH && line + 1 === bytes.length && !isLast;
        if (isCut) return undefined;
        this.#atLineStart = startsWithDashes(bytes, line);
        if (!this.#atLineStart) continue;
      } else {
        const lf = bytes.indexOf(LINE_WITH_DASHES, search);
        if (lf < 0) break;
        line = lf + 1;
        bodyEnd = lineEndStart(bytes, lf, start);
      }
      const lf = bytes.indexOf(LF, line);
      const end = lf < 0 ? bytes.length : lf + 1;
      const isShort = end - line < MAX_LINE || (lf >= 0 && end - line === MAX_LINE);
      if (lf < 0 && isShort && !isLast) return this.#keepTo(bytes, start, bodyEnd);
      const delimiter = isShort ? this.#parts.findDelimiter(bytes, line, end) : undefined;
      if (delimiter) {
        this.#parts.measure(bytes, start, bodyEnd);
        return this.#delimit(bytes, delimiter, this.#offset + bodyEnd, end);
      }
      this.#atLineStart = false;
      search = lf < 0 ? end : lf;
    }
    return this.#keepTo(bytes, start, isLast ? bytes.length : possibleDelimiter(bytes, start));
  }

  /** Counts bytes as body, if there are any. */
  #keepTo(bytes: Buffer, start: number, end: number): number | undefined {
    this.#parts.measure(bytes, start, end);
    return end > start ? end : undefined;
  }

  /**
   * Goes on behind a delimiter line that ends at `end`.
   *
   * The line end of a closing delimiter is left to be read: it belongs to the delimiter of the
   * multipart around it, where that follows.
   */
  #delimit(bytes: Buffer, delimiter: Delimiter, bodyEnd: number, end: number): number {
    const next = this.#parts.delimit(delimiter, bodyEnd, this.#offset + end);
    this.#begin(next, false);
    if (next === 'header' || bytes[end - 1] !== LF) return end;
    return lineEndStart(bytes, end - 1, 0);
  }
}
