/**
 * The structure of a message: its tree of MIME parts with the place of each in the source.
 */

/**
 * One part, storable as JSON. Offsets count octets of the raw source, so that a part is read later
 * without parsing again: `source.slice(bodyStart, bodyEnd)` through `decodePart(encoding, ...)`.
 */
export interface MessagePart {
  /**
   * IMAP part number (RFC 3501 section 6.4.5); absent on a multipart that is the whole of a message, which has
   * no number in IMAP.
   */
  readonly part?: string;
  /** `type/subtype` in lower case. */
  readonly type: string;
  /** Parameters of the type, decoded, by lower-case name; absent where there are none. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Content-Transfer-Encoding in lower case, known or not. */
  readonly encoding: string;
  /** Octets of the body in the source, in its transfer encoding, as IMAP counts them. */
  readonly size: number;
  /** Octets of the body without its transfer encoding. */
  readonly decodedSize: number;
  /** Lines of the encoded body, an unfinished last one included; of text parts only. */
  readonly lines?: number;
  /** Content-ID as it is written, angle brackets included. */
  readonly id?: string;
  /** Content-Disposition in lower case. */
  readonly disposition?: string;
  readonly dispositionParameters?: Readonly<Record<string, string>>;
  readonly headerStart: number;
  readonly bodyStart: number;
  /** Without the line end before a boundary, which belongs to the boundary (RFC 2046 section 5.1.1). */
  readonly bodyEnd: number;
  /** Parts of a multipart, or the one message in a message/rfc822; absent on a leaf. */
  readonly childNodes?: readonly MessagePart[];
}

/** The structure as clients see it: no offsets. */
export interface BodyStructure
  extends Omit<
    MessagePart,
    'decodedSize' | 'lines' | 'headerStart' | 'bodyStart' | 'bodyEnd' | 'childNodes'
  > {
  readonly childNodes?: readonly BodyStructure[];
}

/** Levels of nesting that are read; a multipart or message below them is an opaque leaf. */
export const MAX_DEPTH = 50;

/** A part without the fields that clients do not see; absent fields stay absent. */
export function toBodyStructure(part: MessagePart): BodyStructure {
  const { decodedSize, lines, headerStart, bodyStart, bodyEnd, childNodes, ...seen } = part;
  return childNodes ? { ...seen, childNodes: childNodes.map(toBodyStructure) } : seen;
}

/** Longer than the number of any stored part: 50 levels of up to four digits. */
const MAX_PART_NUMBER = 255;

/**
 * Checks a part number that a client sent: positive decimal numbers without leading zeros, joined
 * by dots (`section-part` of RFC 3501 section 9). Sections such as `1.MIME` are not supported.
 *
 * @returns the number, for {@link findPart}, or undefined where it is malformed
 */
export function parsePartNumber(text: string): string | undefined {
  if (text.length > MAX_PART_NUMBER) return undefined;
  return /^[1-9]\d{0,8}(?:\.[1-9]\d{0,8})*$/.test(text) ? text : undefined;
}

/**
 * Finds a part by its number. A multipart that has a number can be found too: its body contains all of its
 * parts.
 */
export function findPart(structure: MessagePart, partNumber: string): MessagePart | undefined {
  if (structure.part === partNumber) return structure;
  for (const child of structure.childNodes ?? []) {
    const found = findPart(child, partNumber);
    if (found) return found;
  }
  return undefined;
}

const MAX_FILENAME = 200;

/** Ending of a file name that survives a cut: `.tar.gz` counts as `.gz`. */
const EXTENSION = /\.[^.\s]{1,16}$/;

/**
 * The file name of a part: of its disposition, else of its type.
 *
 * It is safe as the name of a download: path separators, control characters and characters that reverse the
 * direction of text (which disguise `exe` as `pdf`) are removed, the length is limited to 200 UTF-16 code units
 * with the ending kept. A name of only dots counts as none.
 */
export function partFilename(
  part: Pick<MessagePart, 'parameters' | 'dispositionParameters'>,
): string | undefined {
  const given = part.dispositionParameters?.filename ?? part.parameters?.name ?? '';
  const name = given
    .replace(/[/\\\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '')
    .trim();
  if (/^[.\s]*$/.test(name)) return undefined;
  if (name.length <= MAX_FILENAME) return name.toWellFormed();
  const extension = EXTENSION.exec(name)?.[0] ?? '';
  // Half of a surrogate pair may be left at the cut.
  const stem = name.slice(0, MAX_FILENAME - extension.length).replace(/[\ud800-\udbff]$/, '');
  return (stem + extension).toWellFormed();
}
