/**
 * Header blocks: collected from the stream up to a cap, then split into the fields that matter.
 *
 * Header text is handled with one character per byte (latin1), so that nothing is lost and
 * structure is found before any charset is looked at; `decodeRawHeader` makes it readable.
 */
import { Buffer } from 'node:buffer';

/** Bytes of one header block that are read for meaning; the rest is only counted. */
const MAX_BLOCK = 256 * 1024;

/** Characters of one field value, unfolded, that are read for meaning. */
const MAX_VALUE = 64 * 1024;

const LF = 0x0a;

/**
 * Drops a character of UTF-8 at the end of text that was cut, since half of one would make the
 * whole look like another charset.
 */
function dropLastCharacter(text: string): string {
  return text.replace(/[\xc0-\xff][\x80-\xbf]{0,3}$/, '');
}

/** Collects the bytes of one header block after another, in one buffer that grows to the cap. */
export class HeaderBlock {
  #bytes = Buffer.allocUnsafe(4096);
  #length = 0;

  append(source: Buffer, start: number, end: number): void {
    const wanted = Math.min(end - start, MAX_BLOCK - this.#length);
    if (wanted <= 0) return;
    if (this.#length + wanted > this.#bytes.length) {
      const grown = Buffer.allocUnsafe(
        Math.min(MAX_BLOCK, Math.max(this.#length + wanted, this.#bytes.length * 2)),
      );
      this.#bytes.copy(grown, 0, 0, this.#length);
      this.#bytes = grown;
    }
    source.copy(this.#bytes, this.#length, start, start + wanted);
    this.#length += wanted;
  }

  /** The block as text, one character per byte; the next block starts empty. */
  take(): string {
    const text = this.#bytes.toString('latin1', 0, this.#length);
    const isCut = this.#length === MAX_BLOCK;
    this.#length = 0;
    return isCut ? dropLastCharacter(text) : text;
  }
}

/** Fields that may be given several times; their values are one list (RFC 5322 section 3.6.3). */
const lists = new Set(['from', 'sender', 'reply-to', 'to', 'cc', 'bcc']);

/** Names of the fields that say what a part is (RFC 2045, RFC 2183). */
const partFields = new Set([
  'content-type',
  'content-transfer-encoding',
  'content-disposition',
  'content-id',
]);

/** Names of the fields of a message that are read at all. */
const messageFields = new Set([
  ...partFields,
  ...lists,
  'date',
  'subject',
  'in-reply-to',
  'message-id',
]);

const LONGEST_NAME = 'content-transfer-encoding'.length;

/** Where the folded field that starts at `at` ends, its last line end excluded. */
function fieldEnd(block: string, at: number): number {
  let end = block.indexOf('\n', at);
  while (end >= 0) {
    // RFC 5322 section 2.2.3: a line that starts with white space continues the field.
    const next = block.charCodeAt(end + 1);
    if (next !== 0x20 && next !== 0x09) return end;
    end = block.indexOf('\n', end + 1);
  }
  return block.length;
}

/** Name of the field at `at` in lower case, or undefined where none that we know starts there. */
function fieldName(
  block: string,
  at: number,
  end: number,
): { name: string; colon: number } | undefined {
  // The search for the colon is bounded, else lines without one would be read over and over.
  const limit = Math.min(end, at + LONGEST_NAME + 16);
  let colon = at;
  while (colon < limit && block.charCodeAt(colon) !== 0x3a) colon++;
  if (colon >= limit) return undefined;
  // RFC 5322 section 4.5: obsolete syntax has white space before the colon.
  return { name: block.slice(at, colon).trimEnd().toLowerCase(), colon };
}

/** Cuts a raw value that is too long. */
export function capValue(value: string): string {
  return value.length > MAX_VALUE ? dropLastCharacter(value.slice(0, MAX_VALUE)) : value;
}

/** Unfolds (RFC 5322 section 2.2.3), caps, and leaves no control character but TAB. */
function cleanValue(value: string): string {
  const unfolded = value.includes('\n') ? value.replace(/\r?\n/g, '') : value;
  return capValue(unfolded)
    .replace(/[\x00-\x08\x0a-\x1f\x7f]/g, ' ')
    .trim();
}

/**
 * Splits a header block into the fields that are read, by lower-case name.
 *
 * Of a field given twice the first counts; address fields are joined, up to the cap of one value.
 *
 * @param block one character per byte, lines ending in LF or CRLF
 * @param isMessage whether the block heads a message, whose envelope fields count too
 */
export function parseFields(block: string, isMessage: boolean): Map<string, string> {
  const wanted = isMessage ? messageFields : partFields;
  const fields = new Map<string, string>();
  for (let at = 0; at < block.length; ) {
    const end = fieldEnd(block, at);
    const field = fieldName(block, at, end);
    if (field && wanted.has(field.name)) {
      const earlier = fields.get(field.name);
      if (earlier === undefined) {
        fields.set(field.name, cleanValue(block.slice(field.colon + 1, end)));
      } else if (lists.has(field.name) && earlier.length < MAX_VALUE) {
        const value = cleanValue(block.slice(field.colon + 1, end));
        fields.set(field.name, `${earlier}, ${value}`);
      }
    }
    at = end + 1;
  }
  return fields;
}

/** Whether a byte can be part of a field name: printable ASCII but the colon (RFC 5322 section 2.2). */
function isNameByte(byte: number | undefined): boolean {
  return byte !== undefined && byte > 0x20 && byte < 0x7f && byte !== 0x3a;
}

/**
 * Whether a line looks like the start of a header field. The `From ` line that mailbox files put
 * before a message passes too: it stands in the header block and means nothing.
 */
export function startsField(source: Buffer, start: number, end: number): boolean {
  let at = start;
  while (at < end && isNameByte(source[at])) at++;
  if (at === start) return false;
  const name = source.toString('latin1', start, Math.min(at, start + 6));
  if ((name === 'From' || name === '>From') && source[at] === 0x20) return true;
  while (at < end && (source[at] === 0x20 || source[at] === 0x09)) at++;
  return source[at] === 0x3a && at < end;
}

/** Whether the line is empty: CRLF, or LF alone. */
export function isBlank(source: Buffer, start: number, end: number): boolean {
  const first = source[start];
  return first === LF || (first === 0x0d && end - start === 2 && source[start + 1] === LF);
}
