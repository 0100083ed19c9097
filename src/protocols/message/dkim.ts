/**
 * The canonical forms of header fields and bodies that DKIM signs (RFC 6376 section 3.4), and tag lists, the
 * syntax of its keys and signatures and of DMARC policies. Lines may end at LF alone, which counts as CRLF; a CR
 * alone is text.
 */
import type { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { HeaderField } from './header.ts';

export type Canonicalization = 'simple' | 'relaxed';

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

/** Line ends that are hashed at once. */
const LINE_ENDS_MAX = 1024;

/** The SHA-256 of a body, in one pass with flat memory and in linear time. */
export class BodyHash {
  readonly #isRelaxed: boolean;
  readonly #hash = createHash('sha256');
  /** A blank and a CR at the end of the chunk before: what follows decides whether they are part of a line end. */
  #held = '';
  /** Line ends that count once text follows: those at the end of the body do not count. */
  #lineEnds = 0;
  /** The number of octets that were hashed. */
  #length = 0;

  constructor(canon: Canonicalization) {
    this.#isRelaxed = canon === 'relaxed';
  }

  /** Adds bytes of the body; keeps no reference to them. */
  write(chunk: Buffer): void {
    const text = this.#canonical(this.#held + chunk.toString('latin1'));
    const [held] = (this.#isRelaxed ? / ?\r?$/ : /\r?$/).exec(text.slice(-2)) ?? [''];
    this.#held = held;
    const known = text.length - held.length;
    let end = known;
    while (text.charAt(end - 1) === '\n') end -= 2;
    if (end > 0) this.#putText(text.slice(0, end));
    this.#lineEnds += (known - end) / 2;
  }

  /** Ends the body. @returns the hash in base64, and the number of octets it covers */
  end(): { hash: string; length: number } {
    // A CR alone is text. White space at the end of the last line is dropped.
    if (this.#held.endsWith('\r')) this.#putText(this.#held);
    // RFC 6376 section 3.4.3: an empty body is one CRLF; section 3.4.4: it is nothing.
    if (this.#length > 0 || !this.#isRelaxed) this.#put('\r\n');
    return { hash: this.#hash.digest('base64'), length: this.#length };
  }

  #canonical(text: string): string {
    if (!this.#isRelaxed) return text.replace(/(?<!\r)\n/g, '\r\n');
    return text.replace(/[ \t]{2,}|\t/g, ' ').replace(/ \r?\n|(?<!\r)\n/g, '\r\n');
  }

  #putText(text: string): void {
    for (; this.#lineEnds > 0; this.#lineEnds -= Math.min(this.#lineEnds, LINE_ENDS_MAX)) {
      this.#put('\r\n'.repeat(Math.min(this.#lineEnds, LINE_ENDS_MAX)));
    }
    this.#put(text);
  }

  #put(text: string): void {
    this.#hash.update(text, 'latin1');
    this.#length += text.length;
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
