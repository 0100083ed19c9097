/**
 * The header section of a message or part (RFC 5322 section 2.2): its end, and its fields. All code uses this one
 * reader: structure and envelope, sender checks, forwarding and bounces.
 *
 * Header text is kept with one character per byte (latin1), so that nothing is lost and the structure is found
 * before any charset is read; `decodeRawHeader` makes it readable.
 *
 * Lines end at LF; a CR before it belongs to the line end, a CR alone is text. The first empty line ends the
 * section. Text whose first line is not a field has no header. A later line that is not a field does not end the
 * header: it belongs to the field before it, as some mail readers show it.
 */
import { Buffer } from 'node:buffer';
import { asBuffer } from './text.ts';

/** Octets and fields of a header that are read; in the rest only its end is searched. */
export const MAX_HEADER = 256 * 1024;
export const MAX_FIELDS = 1_000;

/** The most characters of one unfolded value that are read. */
const MAX_VALUE = 64 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const DASH = 0x2d;
const EMPTY = Buffer.alloc(0);

export interface HeaderField {
  /** Lower case; `''` for text before the first field. */
  readonly name: string;
  /** The field as it was sent, without the line end at its end. */
  readonly text: string;
}

/** A field with its place: offsets in the header, `end` after the line end. */
export interface PlacedField extends HeaderField {
  readonly start: number;
  readonly end: number;
}

export interface Header {
  readonly fields: readonly PlacedField[];
  /** Octets that were read, the empty line included. */
  readonly size: number;
  /** Whether the whole header was read; if not, it continues after `size`. */
  readonly isWhole: boolean;
}

/** Octets of a text that show whether it begins with a header. */
export const HEADER_START = 1024;

/**
 * The first line of a header: a field, or the `From ` line that mailbox files put before a message, which is
 * ignored.
 */
const FIRST_LINE = /^(?:[!-9;-~]{1,998}[ \t]{0,16}:|>?From )/;

/** Whether a text begins with a header field. An empty text, or one with an empty first line, does not. */
export function startsHeader(text: Buffer): boolean {
  return FIRST_LINE.test(text.toString('latin1', 0, HEADER_START));
}

/** A name, and the colon after it; obsolete syntax may fold in between (RFC 5322 section 4.5). */
const FIELD_START = /([!-9;-~]+)(?:[ \t]|\r?\n(?=[ \t]))*:/y;

/** The end of the folded line that starts at `at`, its line end included (RFC 5322 section 2.2.3). */
function foldedEnd(text: string, at: number): number {
  let end = text.indexOf('\n', at);
  while (end >= 0) {
    const next = text[end + 1];
    if (next !== ' ' && next !== '\t') return end + 1;
    end = text.indexOf('\n', end + 1);
  }
  return text.length;
}

/** Splits a header section, without its empty line, into fields. */
function splitFields(text: string): PlacedField[] {
  const starts: { name: string; start: number }[] = [];
  for (let at = 0; at < text.length; at = foldedEnd(text, at)) {
    FIELD_START.lastIndex = at;
    const name = FIELD_START.exec(text)?.[1]?.toLowerCase();
    if (name !== undefined) starts.push({ name, start: at });
    else if (at === 0) starts.push({ name: '', start: 0 });
  }
  return starts.map(({ name, start }, index) => {
    const end = starts[index + 1]?.start ?? text.length;
    return { name, text: text.slice(start, end).replace(/\r?\n$/, ''), start, end };
  });
}

/** Collects one header section, up to the limit; the chunks make no difference. */
export class HeaderReader {
  #bytes = Buffer.allocUnsafe(4096);
  #length = 0;
  #lineStart = 0;
  #fields = 0;
  /** Where the empty line begins. */
  #fieldsEnd: number | undefined;
  /** After the limit: how much of an empty line the last bytes are. */
  #skipping: 'text' | 'line end' | 'line end and CR' | undefined;
  /** Whether an empty line, or a first line that is not a field, ended the section. */
  hasBody = false;
  /** The last bytes that come after the limit, and before the body. */
  skipped: Buffer = EMPTY;

  /** Whether the header is longer than the limit. */
  get isFull(): boolean {
    return this.#skipping !== undefined;
  }

  /**
   * Adds bytes.
   *
   * @param isDelimiter whether a line is a boundary delimiter of a part around this header, which ends it
   * @returns the bytes after the header, once it has ended: those after the empty line, those from the line end
   *   before a delimiter on, or the whole text where it has no header
   */
  write(chunk: Buffer, isDelimiter?: (line: Buffer) => boolean): Buffer | undefined {
    let at = 0;
    while (at < chunk.length && !this.isFull) {
      const lf = chunk.indexOf(LF, at);
      const end = lf < 0 ? chunk.length : lf + 1;
      at = this.#append(chunk, at, end);
      if (lf < 0 && !this.isFull) continue;
      const rest = this.#endLine(isDelimiter);
      if (rest !== undefined) return this.#giveBack(rest, chunk, at);
    }
    return this.isFull ? this.#skip(chunk, at) : undefined;
  }

  /** Ends a message within its header. @returns the bytes that are not part of the header */
  end(isDelimiter?: (line: Buffer) => boolean): Buffer {
    const isOpen = !this.isFull && this.#lineStart < this.#length;
    const rest = isOpen ? this.#endLine(isDelimiter) : undefined;
    return this.#giveBack(rest ?? this.#length, EMPTY, 0);
  }

  /** The bytes that were read. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  get header(): Header {
    const end = this.#fieldsEnd ?? this.#length;
    const text = this.#bytes.toString('latin1', 0, end);
    const isCut = this.isFull && end === this.#length;
    const fields = splitFields(isCut ? dropLastCharacter(text) : text);
    return { fields, size: this.#length, isWhole: !this.isFull };
  }

  /** Appends bytes up to the limit. @returns index after the last of them */
  #append(source: Buffer, start: number, end: number): number {
    const taken = Math.min(end - start, MAX_HEADER - this.#length);
    const length = this.#length + taken;
    if (length > this.#bytes.length) {
      const grown = Buffer.allocUnsafe(Math.min(MAX_HEADER, Math.max(length, 2 * this.#length)));
      this.bytes.copy(grown);
      this.#bytes = grown;
    }
    source.copy(this.#bytes, this.#length, start, start + taken);
    this.#length = length;
    if (taken < end - start) {
      const line = this.#bytes.toString('latin1', this.#lineStart, length);
      this.#skipping = line === '' ? 'line end' : line === '\r' ? 'line end and CR' : 'text';
    }
    return start + taken;
  }

  /** Checks the line that is complete now. @returns the end of the header, if it ends here */
  #endLine(isDelimiter?: (line: Buffer) => boolean): number | undefined {
    const start = this.#lineStart;
    const line = this.#bytes.subarray(start, this.#length);
    if (line[0] === LF || (line[0] === CR && line[1] === LF)) {
      this.hasBody = true;
      this.#fieldsEnd = start;
      return this.#length;
    }
    if (line[0] === DASH && line[1] === DASH && isDelimiter?.(line)) {
      return start - lineEndLength(this.#bytes, start);
    }
    if (start === 0 && !startsHeader(line)) {
      this.hasBody = true;
      return 0;
    }
    const isFolded = line[0] === SPACE || line[0] === TAB;
    if (!isFolded && ++this.#fields > MAX_FIELDS) {
      this.#fieldsEnd = start;
      this.#skipping = 'line end';
    }
    this.#lineStart = this.#length;
    return undefined;
  }

  /** Ends the header at `end`. @returns the bytes that were read after it, and those of the chunk from `at` on */
  #giveBack(end: number, chunk: Buffer, at: number): Buffer {
    const behind = this.#length - end;
    this.#length = end;
    // Usually the whole line is in the chunk.
    if (behind <= at) return chunk.subarray(at - behind);
    return Buffer.concat([this.#bytes.subarray(end, end + behind), chunk.subarray(at)]);
  }

  /** After the limit: searches only for the empty line. */
  #skip(chunk: Buffer, start: number): Buffer | undefined {
    for (let at = start; at < chunk.length; at++) {
      const byte = chunk[at];
      if (byte === LF && this.#skipping !== 'text') {
        this.hasBody = true;
        this.skipped = chunk.subarray(start, at + 1);
        return chunk.subarray(at + 1);
      }
      if (byte === LF) this.#skipping = 'line end';
      else if (byte === CR && this.#skipping === 'line end') this.#skipping = 'line end and CR';
      else this.#skipping = 'text';
    }
    this.skipped = chunk.subarray(start);
    return undefined;
  }
}

/** Octets of the line end that ends at `at`. */
function lineEndLength(bytes: Buffer, at: number): number {
  if (at === 0) return 0;
  return bytes[at - 2] === CR ? 2 : 1;
}

/** The text after the colon, line ends included. */
export function rawValue({ text }: HeaderField): string {
  return text.slice(text.indexOf(':') + 1);
}

/**
 * The value of a field: unfolded (RFC 5322 section 2.2.3), without lines after it that are not a field, without
 * white space around it and control characters, and cut where it is very long.
 */
export function fieldValue(field: HeaderField): string {
  const value = rawValue(field).replace(/\r?\n(?![ \t])[\s\S]*$/, '');
  const unfolded = value.includes('\n') ? value.replace(/\r?\n/g, '') : value;
  return capValue(unfolded)
    .replace(/[\x00-\x08\x0a-\x1f\x7f]/g, ' ')
    .trim();
}

/**
 * Drops the last UTF-8 character of a text that was cut: half a character would make the whole text look like
 * another charset.
 */
function dropLastCharacter(text: string): string {
  return text.replace(/[\xc0-\xff][\x80-\xbf]{0,3}$/, '');
}

function capValue(value: string): string {
  return value.length > MAX_VALUE ? dropLastCharacter(value.slice(0, MAX_VALUE)) : value;
}

/**
 * Reads the header of a message and does not read the rest of the source.
 *
 * @throws any error of the source
 */
export async function readHeader(source: AsyncIterable<Uint8Array>): Promise<Header> {
  const reader = new HeaderReader();
  for await (const chunk of source) {
    if (reader.write(asBuffer(chunk)) || reader.isFull) return reader.header;
  }
  reader.end();
  return reader.header;
}

/** The fields of a header that is at hand. */
export function readFields(header: Uint8Array): readonly HeaderField[] {
  const reader = new HeaderReader();
  if (reader.write(asBuffer(header)) === undefined) reader.end();
  return reader.header.fields;
}

/** The value of the first field with this name. */
export function firstValue(fields: readonly HeaderField[], name: string): string | undefined {
  const field = fields.find((one) => one.name === name);
  return field && fieldValue(field);
}
