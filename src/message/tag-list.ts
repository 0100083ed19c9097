/** Tag lists, the syntax of DKIM keys (RFC 6376 section 3.2) and DMARC policies (RFC 7489 section 6.3). */

export interface TagList {
  /** Values without white space around them, by name; of a name that is given twice the first. */
  readonly tags: ReadonlyMap<string, string>;
  /** Name of the first tag, which must be `v` where there is one (RFC 6376 section 3.6.1). */
  readonly first: string | undefined;
  /** The first part that is no tag with a value, cut to a readable length. */
  readonly broken: string | undefined;
  /** The first name that is there twice, which makes the list invalid (RFC 6376 section 3.2). */
  readonly repeated: string | undefined;
}

/** RFC 6376 section 3.2 `tag-name`. */
const TAG_NAME = /^[A-Za-z][A-Za-z0-9_]*$/;
/** RFC 6376 section 3.2 `tval` and white space; the semicolon is the separator. */
const TAG_VALUE = /^[\x21-\x3a\x3c-\x7e \t\r\n]*$/;
const QUOTED_MAX = 40;

/**
 * Reads a tag list, and goes on after what is against the syntax. Empty places between semicolons
 * are passed over, as every verifier does.
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

const SPACE = ' \t\r\n';

/**
 * Takes off folding white space (RFC 6376 section 2.8) and nothing else: `trim` would take bytes of
 * UTF-8 as well. A loop, since a pattern for the end takes quadratic time on long runs.
 */
export function trimSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && SPACE.includes(text.charAt(start))) start++;
  while (end > start && SPACE.includes(text.charAt(end - 1))) end--;
  return text.slice(start, end);
}
