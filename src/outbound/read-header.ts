/**
 * The header section of a message as a list of fields that can be put together again, byte for byte
 * where it was well formed.
 *
 * Header text is held with one character per byte (latin1).
 */
import { Refusal } from '../errors/errors.ts';
import { asBuffer, type Envelope, MessageParser } from '../message/message.ts';
import { canonicalAddress } from './format-address.ts';

/** One header field. */
export interface HeaderField {
  /** Lower case. */
  readonly name: string;
  /** The field as it stands, its lines joined by CRLF; no line end at its end. */
  readonly text: string;
}

export interface Header {
  readonly fields: readonly HeaderField[];
  /** Offset in the source of the first byte of the body; the blank line is neither's. */
  readonly bodyStart: number;
}

/** Octets of the longest header section that is passed on. */
const HEADER_MAX = 1024 * 1024;

const LF = 0x0a;

/**
 * A field's name and colon (RFC 5322 section 3.6.8; white space before the colon is obsolete syntax,
 * section 4.5.8). Bounded, so that no line is read far.
 */
const FIELD_START = /^([!-9;-~]{1,998})[ \t]{0,16}:/;
/** The line that mailbox files put before a message, quoted or not. */
const MBOX_LINE = /^>?From /;

/**
 * Reads the header section and leaves the rest of the source alone.
 *
 * A line that is neither a field nor the continuation of one ends the section, as for Postfix: the
 * far end must not see a field that our sender checks did not. A bare CR in a field is made a
 * space, for it would begin a line.
 *
 * @throws Refusal message_too_large for a section of more than 1 MiB; whatever the source throws
 */
export async function readHeader(source: AsyncIterable<Uint8Array>): Promise<Header> {
  const reader = new HeaderReader();
  for await (const chunk of source) {
    if (reader.write(asBuffer(chunk))) break;
  }
  return reader.end();
}

class HeaderReader {
  readonly #fields: { name: string; lines: string[] }[] = [];
  /** The line under way. */
  #rest: Buffer[] = [];
  #restLength = 0;
  #lineStart = 0;
  #bodyStart: number | undefined;

  /** Whether the section has ended. */
  write(chunk: Buffer): boolean {
    let at = 0;
    while (at < chunk.length && this.#bodyStart === undefined) {
      const lf = chunk.indexOf(LF, at);
      const end = lf < 0 ? chunk.length : lf + 1;
      this.#rest.push(chunk.subarray(at, end));
      this.#restLength += end - at;
      if (this.#lineStart + this.#restLength > HEADER_MAX) throw tooLarge();
      if (lf >= 0) this.#takeLine();
      at = end;
    }
    return this.#bodyStart !== undefined;
  }

  end(): Header {
    if (this.#restLength > 0 && this.#bodyStart === undefined) this.#takeLine();
    return {
      fields: this.#fields.map(({ name, lines }) => ({ name, text: lines.join('\r\n') })),
      bodyStart: this.#bodyStart ?? this.#lineStart,
    };
  }

  #takeLine(): void {
    const line = Buffer.concat(this.#rest)
      .toString('latin1')
      .replace(/\r?\n$/, '');
    const next = this.#lineStart + this.#restLength;
    this.#rest = [];
    this.#restLength = 0;
    const text = line.replaceAll('\r', ' ');
    if (line === '') this.#bodyStart = next;
    else if (!this.#takeText(text)) this.#bodyStart = this.#lineStart;
    this.#lineStart = next;
  }

  #takeText(text: string): boolean {
    const name = FIELD_START.exec(text)?.[1];
    const last = this.#fields.at(-1);
    if (name !== undefined) this.#fields.push({ name: name.toLowerCase(), lines: [text] });
    // RFC 5322 section 2.2.3: a line that starts with white space continues the field.
    else if (/^[ \t]/.test(text) && last) last.lines.push(text);
    else return last === undefined && MBOX_LINE.test(text);
    return true;
  }
}

function tooLarge(): Refusal {
  return new Refusal('message_too_large', 'the header section is larger than 1 MiB');
}

/** What stands behind the colon, folds and all. */
export function rawValue({ text }: HeaderField): string {
  return text.slice(text.indexOf(':') + 1);
}

/** What a field says: unfolded (RFC 5322 section 2.2.3), without white space around it. */
export function fieldValue(field: HeaderField): string {
  return rawValue(field).replaceAll('\r\n', '').trim();
}

/** Subject, authors and the like, decoded. */
export function parseEnvelope(fields: readonly HeaderField[]): Envelope {
  const parser = new MessageParser();
  for (const { text } of fields) parser.write(Buffer.from(`${text}\r\n`, 'latin1'));
  return parser.end().envelope;
}

/** RFC 5321 section 6.3: a simple count of Received fields finds loops; at least 100 are allowed. */
const HOPS_MAX = 100;

/**
 * Whether a message that came to an address goes round in a loop: the address has forwarded it
 * before, or too many hosts have.
 *
 * @param address the address at the forwarding domain
 */
export function isLooping({ fields }: Header, address: string): boolean {
  const mark = canonicalAddress(address).toLowerCase();
  let hops = 0;
  for (const field of fields) {
    if (field.name === 'received' && ++hops > HOPS_MAX) return true;
    if (field.name !== 'delivered-to') continue;
    // UTF-8 in addresses (RFC 6532 section 3.2) was read one character per byte.
    const value = Buffer.from(fieldValue(field), 'latin1').toString().toLowerCase();
    if (value === mark || value === `<${mark}>`) return true;
  }
  return false;
}
