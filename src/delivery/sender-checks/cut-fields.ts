/**
 * Cuts the header of a message into its fields while it streams in.
 *
 * Lines end at LF, a CR before it belongs to the line end; a CR alone is text, as everywhere in
 * Postroom. A line that starts with white space continues the field before it (RFC 5322 section
 * 2.2.3), and the first empty line ends the header.
 */
import { Buffer } from 'node:buffer';

/** A field is kept back up to here to be seen as a whole; a longer one comes in pieces. */
export const FIELD_HELD = 64 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const EMPTY = Buffer.alloc(0);

/** A field with its line end, or the next piece of one that is too long to be held. */
export interface FieldPiece {
  readonly bytes: Buffer;
  /** Whether a field starts here. */
  readonly isFirst: boolean;
}

export interface CutHeader {
  readonly pieces: readonly FieldPiece[];
  /** All that was cut, as it lies in a row: the pieces and the rest. */
  readonly bytes: Buffer;
  /** The empty line and what follows it; undefined while the header goes on. */
  readonly rest: Buffer | undefined;
}

/** The bytes as a Buffer, without a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Takes one header; how it is cut into chunks makes no difference to the fields. */
export class FieldCutter {
  /** The start of a field whose end was not seen yet. */
  #held: Buffer = EMPTY;
  /** Up to where the held bytes have no end of a field. */
  #searched = 0;
  /** Part of the field under way was handed out already. */
  #inLongField = false;

  /** Takes the next bytes; not to be called again after `rest` has come. */
  take(chunk: Buffer): CutHeader {
    const bytes = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk;
    const pieces: FieldPiece[] = [];
    let start = 0;
    let search = this.#searched;
    while (start < bytes.length) {
      if (!this.#inLongField && startsBlankLine(bytes, start)) {
        this.#held = EMPTY;
        return { pieces, bytes, rest: bytes.subarray(start) };
      }
      const lf = bytes.indexOf(LF, search);
      const next = lf < 0 ? undefined : bytes[lf + 1];
      if (next === undefined || next === SPACE || next === TAB) {
        // The LF at the end of the bytes is held: what follows it says whether the field goes on.
        search = lf < 0 ? bytes.length : lf;
        if (search - start >= FIELD_HELD) {
          this.#hand(pieces, bytes.subarray(start, search), true);
          start = search;
        }
        if (next === undefined) break;
        search++;
        continue;
      }
      this.#hand(pieces, bytes.subarray(start, lf + 1), false);
      start = lf + 1;
      search = start;
    }
    this.#held = start < bytes.length ? bytes.subarray(start) : EMPTY;
    this.#searched = Math.max(search - start, 0);
    return { pieces, bytes: bytes.subarray(0, start), rest: undefined };
  }

  /** Ends a message that is nothing but a header. */
  end(): CutHeader {
    const pieces: FieldPiece[] = [];
    const bytes = this.#held;
    if (bytes.length > 0) this.#hand(pieces, bytes, false);
    this.#held = EMPTY;
    return { pieces, bytes, rest: undefined };
  }

  #hand(pieces: FieldPiece[], bytes: Buffer, goesOn: boolean): void {
    pieces.push({ bytes, isFirst: !this.#inLongField });
    this.#inLongField = goesOn;
  }
}

function startsBlankLine(bytes: Buffer, at: number): boolean {
  return bytes[at] === LF || (bytes[at] === CR && bytes[at + 1] === LF);
}

function isWhiteSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB || byte === CR || byte === LF;
}

/** Whether a byte can be part of a field name: printable ASCII but the colon (RFC 5322 section 2.2). */
function isNameByte(byte: number | undefined): boolean {
  return byte !== undefined && byte > SPACE && byte < 0x7f && byte !== 0x3a;
}

export interface FieldName {
  /** As it stands there; `''` where the bytes do not start like a field. */
  readonly name: string;
  /** Index of the colon; -1 where there is none, be it that the bytes end before it. */
  readonly colon: number;
}

/**
 * Reads the name of a field. The obsolete white space before the colon (RFC 5322 section 4.5) may
 * be folded: mail readers do take `From`, line end, ` :` for a From.
 */
export function readFieldName(field: Buffer): FieldName {
  let end = 0;
  while (isNameByte(field[end])) end++;
  let colon = end;
  while (isWhiteSpace(field[colon])) colon++;
  const isCut = colon === field.length;
  if (end === 0 || (field[colon] !== 0x3a && !isCut)) return { name: '', colon: -1 };
  return { name: field.toString('latin1', 0, end), colon: isCut ? -1 : colon };
}
