/**
 * The header of a message as signatures see it, and its From fields as people see them.
 */
import { Buffer } from 'node:buffer';
import { FIELD_HELD, type FieldPiece, readFieldName } from './cut-fields.ts';

/** Octets of a header that signatures are checked against; as much as `message/` reads of one. */
const MAX_HEADER = 256 * 1024;
/** Fields likewise: what is picked for a signature is searched among them, name by name. */
const MAX_FIELDS = 1_000;
/** Octets of one From field. */
const MAX_FROM = 8 * 1024;
/** From fields of one message; RFC 5322 section 3.6 allows one. */
const MAX_FROM_FIELDS = 10;

const LF = 0x0a;
const CR = 0x0d;
const CRLF = Buffer.from('\r\n');

/** A header field in the shape that mailauth takes. */
export interface HeaderField {
  /** The name in lower case; `''` for lines that are no field. */
  readonly key: string;
  /** The name as it stands there. */
  readonly casedKey: string;
  /** The field without its last line end; folds are CRLF. */
  readonly line: Buffer;
}

export interface Header {
  readonly fields: readonly HeaderField[];
  /** Whether `fields` is all of the header; else no signature is checked. */
  readonly isWhole: boolean;
  /** Values of the From fields, raw. */
  readonly from: readonly Buffer[];
  /** Whether `from` is all there is of them. */
  readonly isFromWhole: boolean;
}

/** Whether any LF has no CR before it; the folds of most mail have one. */
function hasBareLf(line: Buffer): boolean {
  for (let at = line.indexOf(LF); at >= 0; at = line.indexOf(LF, at + 1)) {
    if (line[at - 1] !== CR) return true;
  }
  return false;
}

/** The field without its line end, every line end in it CRLF (RFC 6376 section 3.4). */
function toLine(field: Buffer): Buffer {
  let end = field.length;
  if (field[end - 1] === LF) end -= field[end - 2] === CR ? 2 : 1;
  const line = field.subarray(0, end);
  if (!hasBareLf(line)) return line;
  return Buffer.from(line.toString('latin1').replace(/\r?\n/g, '\r\n'), 'latin1');
}

/** A field and the lines after it that are none. */
interface CollectedField {
  readonly name: string;
  readonly lines: Buffer[];
}

/** Collects one header, field by field; keeps no more of it than is looked at. */
export class HeaderCollector {
  #fields: CollectedField[] = [];
  #length = 0;
  #pieces = 0;
  #isWhole = true;
  readonly #from: Buffer[] = [];
  #isFromWhole = true;

  add({ bytes, isFirst }: FieldPiece): void {
    this.#length += bytes.length;
    this.#pieces++;
    const isTooMuch = this.#length > MAX_HEADER || this.#pieces > MAX_FIELDS;
    // A field in pieces is longer than what is held of one; no part of it stands for the whole.
    if (isTooMuch || bytes.length >= FIELD_HELD) {
      this.#isWhole = false;
      this.#fields = [];
    }
    if (!isFirst) return;
    const { name, colon } = readFieldName(bytes);
    // Without a colon it is a mere line, unless white space in front of it takes more than is held.
    const isField = colon >= 0 || bytes.length >= FIELD_HELD;
    if (isField && name.toLowerCase() === 'from') this.#addFrom(bytes.subarray(colon + 1));
    if (this.#isWhole) this.#addField(colon < 0 ? '' : name, toLine(bytes));
  }

  end(): Header {
    const fields = this.#fields.map(({ name, lines }) => ({
      key: name.toLowerCase(),
      casedKey: name,
      line: joinLines(lines),
    }));
    return {
      fields,
      isWhole: this.#isWhole,
      from: this.#from,
      isFromWhole: this.#isFromWhole,
    };
  }

  #addField(name: string, line: Buffer): void {
    const last = this.#fields.at(-1);
    // Some mail readers show a line that is no field as part of the one before it; read so, it can
    // break a signature but never hide behind one.
    if (name === '' && last) last.lines.push(line);
    else this.#fields.push({ name, lines: [line] });
  }

  #addFrom(value: Buffer): void {
    if (value.length > MAX_FROM || this.#from.length === MAX_FROM_FIELDS) this.#isFromWhole = false;
    else this.#from.push(value);
  }
}

function joinLines(lines: readonly Buffer[]): Buffer {
  const [first, ...more] = lines;
  if (first && more.length === 0) return first;
  return Buffer.concat(lines.flatMap((line, index) => (index === 0 ? [line] : [CRLF, line])));
}
