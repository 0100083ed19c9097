/**
 * The canonical forms of header fields and bodies that DKIM signs (RFC 6376 section 3.4), and tag lists, the
 * syntax of its keys and signatures and of DMARC policies. Lines may end at LF alone, which counts as CRLF; a CR
 * alone is text.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { HeaderField } from './header.ts';

export type Canonicalization = 'simple' | 'relaxed';

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;

/**
 * A field without the line end at its end (RFC 6376 section 3.4.1 and 3.4.2). Lines after it that are not a
 * field belong to it: some mail readers show them so. Read this way they can break a signature, but never hide
 * from it.
 */
export function canonicalField(text: string, canon: Canonicalization): string {
  if (canon === 'simple') return text.replace(/\r?\n/g, '\r\n');
  const unfolded = text.replace(/\r?\n/g, '');
  const colon = unfolded.indexOf(':');
  const name = unfolded.slice(0, colon).trimEnd().toLowerCase();
  const value = unfolded.slice(colon + 1).replace(/[ \t]+/g, ' ');
  return `${name}:${value.replace(/^ | $/g, '')}`;
}

/**
 * What a signature covers of a header: for each name the last field that is not used yet, nothing where none is
 * left, and then the signature field with its own value empty (RFC 6376 section 3.7 and 5.4.2).
 *
 * @param names in lower case
 * @param signature the field, without the value of its tag `b`
 * @returns one character per byte
 */
export function signedText(
  fields: readonly HeaderField[],
  names: readonly string[],
  signature: string,
  canon: Canonicalization,
): string {
  const left = Map.groupBy(fields, ({ name }) => name);
  const signed = names.flatMap((name) => left.get(name)?.pop()?.text ?? []);
  return [...signed, signature].map((text) => canonicalField(text, canon)).join('\r\n');
}

/** Line ends in a row, to be hashed at once. */
const LINE_ENDS = Buffer.from('\r\n'.repeat(1024));

/** Octets in a row that are hashed in place; fewer are collected first. */
const LONG_RUN = 1024;

/**
 * The end of the text that can be hashed without change: words with one space between them, and line ends with
 * text after them. Nearly all of a body is read here.
 */
function relaxedRunEnd(chunk: Buffer, start: number): number {
  const isText = (at: number) => (chunk[at] ?? 0) > SPACE;
  for (let at = start; ; ) {
    if (isText(at)) at++;
    else if (chunk[at] === SPACE && isText(at + 1)) at += 2;
    else if (chunk[at] === CR && chunk[at + 1] === LF && isText(at + 2)) at += 3;
    else return at;
  }
}

function simpleRunEnd(chunk: Buffer, start: number): number {
  const isText = (at: number) => at < chunk.length && chunk[at] !== CR && chunk[at] !== LF;
  for (let at = start; ; ) {
    if (isText(at)) at++;
    else if (chunk[at] === CR && chunk[at + 1] === LF && isText(at + 2)) at += 3;
    else return at;
  }
}

/** The SHA-256 of a body, in one pass with flat memory and in linear time. */
export class BodyHash {
  readonly #isRelaxed: boolean;
  readonly #hash = createHash('sha256');
  readonly #out = Buffer.allocUnsafe(4 * LONG_RUN);
  #filled = 0;
  /** Line ends that count once text follows: those at the end of the body do not count. */
  #lineEnds = 0;
  #hasSpace = false;
  #hasCr = false;
  /** The number of octets that were hashed. */
  #length = 0;

  constructor(canon: Canonicalization) {
    this.#isRelaxed = canon === 'relaxed';
  }

  /** Adds bytes of the body; keeps no reference to them. */
  write(chunk: Buffer): void {
    const runEnd = this.#isRelaxed ? relaxedRunEnd : simpleRunEnd;
    for (let at = 0; at < chunk.length; ) {
      const isHeld = this.#lineEnds > 0 || this.#hasSpace || this.#hasCr;
      const end = isHeld ? at : runEnd(chunk, at);
      if (end > at) this.#put(chunk.subarray(at, end));
      if (end < chunk.length) this.#take(chunk[end] ?? 0);
      at = end + 1;
    }
  }

  /** Adds one byte. */
  #take(byte: number): void {
    if (byte === LF) {
      this.#lineEnds++;
      this.#hasCr = false;
      this.#hasSpace = false;
      return;
    }
    const isBlank = this.#isRelaxed && (byte === SPACE || byte === TAB);
    if (this.#hasCr || !(isBlank || byte === CR)) this.#release();
    if (byte === CR) this.#hasCr = true;
    else if (isBlank) this.#hasSpace = true;
    else this.#putByte(byte);
  }

  /** Ends the body. @returns the hash in base64, and the number of octets it covers */
  end(): { hash: string; length: number } {
    // A CR alone is text. White space at the end of the last line is dropped.
    if (this.#hasCr) this.#release();
    // RFC 6376 section 3.4.3: an empty body is one CRLF; section 3.4.4: it is nothing.
    if (this.#length + this.#filled > 0 || !this.#isRelaxed) this.#put(LINE_ENDS.subarray(0, 2));
    this.#flush();
    return { hash: this.#hash.digest('base64'), length: this.#length };
  }

  /** Hashes what was held back, now that text follows. */
  #release(): void {
    for (let left = 2 * this.#lineEnds; left > 0; left -= LINE_ENDS.length) {
      this.#put(LINE_ENDS.subarray(0, left));
    }
    if (this.#hasSpace) this.#putByte(SPACE);
    if (this.#hasCr) this.#putByte(CR);
    this.#lineEnds = 0;
    this.#hasSpace = false;
    this.#hasCr = false;
  }

  #put(bytes: Buffer): void {
    if (this.#filled + bytes.length > this.#out.length) this.#flush();
    if (bytes.length < LONG_RUN) {
      this.#filled += bytes.copy(this.#out, this.#filled);
      return;
    }
    this.#flush();
    this.#hash.update(bytes);
    this.#length += bytes.length;
  }

  #putByte(byte: number): void {
    if (this.#filled === this.#out.length) this.#flush();
    this.#out[this.#filled++] = byte;
  }

  #flush(): void {
    this.#hash.update(this.#out.subarray(0, this.#filled));
    this.#length += this.#filled;
    this.#filled = 0;
  }
}

/** A tag list (RFC 6376 section 3.2, RFC 7489 section 6.3). */
export interface TagList {
  /** Values without white space around them, by name; of a repeated name the first. */
  readonly tags: ReadonlyMap<string, string>;
  /** Name of the first tag, which must be `v` where there is one (RFC 6376 section 3.6.1). */
  readonly first: string | undefined;
  /** The first part that is not a tag with a value, cut to a readable length. */
  readonly broken: string | undefined;
  /** The first name that occurs twice, which makes the list invalid (RFC 6376 section 3.2). */
  readonly repeated: string | undefined;
}

/** RFC 6376 section 3.2 `tag-name`. */
const TAG_NAME = /^[A-Za-z][A-Za-z0-9_]*$/;
/** RFC 6376 section 3.2 `tval` and white space, with UTF-8 (RFC 8616 section 4); the semicolon is the separator. */
const TAG_VALUE = /^[\x21-\x3a\x3c-\x7e\x80-\xff \t\r\n]*$/;
const QUOTED_MAX = 40;

/**
 * Reads a tag list, and continues after a syntax error. Empty places between semicolons are skipped, as every
 * verifier does.
 *
 * @param text one character for each byte
 */
export function parseTagList(text: string): TagList {
  const tags = new Map<string, string>();
  let first: string | undefined;
  let broken: string | undefined;
  let repeated: string | undefined;
  for (const part of text.split(';')) {
    const spec = trimSpace(part);
    if (spec === '') continue;
    const equals = spec.indexOf('=');
    const name = trimSpace(equals === -1 ? spec : spec.slice(0, equals));
    const value = equals === -1 ? undefined : trimSpace(spec.slice(equals + 1));
    if (value === undefined || !TAG_NAME.test(name) || !TAG_VALUE.test(value)) {
      broken ??= quoted(spec);
    } else if (tags.has(name)) {
      repeated ??= name;
    } else {
      first ??= name;
      tags.set(name, value);
    }
  }
  return { tags, first, broken, repeated };
}

function quoted(text: string): string {
  const printable = text.replace(/[^\x20-\x7e]/g, '?');
  return printable.length > QUOTED_MAX ? `${printable.slice(0, QUOTED_MAX)}…` : printable;
}

const FOLDING_SPACE = ' \t\r\n';

/**
 * Removes folding white space (RFC 6376 section 2.8) and nothing else: `trim` would remove bytes of UTF-8 as
 * well. This is a loop, since a pattern for the end takes quadratic time on long runs.
 */
export function trimSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && FOLDING_SPACE.includes(text.charAt(start))) start++;
  while (end > start && FOLDING_SPACE.includes(text.charAt(end - 1))) end--;
  return text.slice(start, end);
}
