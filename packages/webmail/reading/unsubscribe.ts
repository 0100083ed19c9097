/** The header fields by which a list lets go of a reader (RFC 2369, RFC 8058). */

export interface UnsubscribeWays {
  /** A page to open. */
  readonly page?: string;
  /** A mail to send, as a `mailto:` URL. */
  readonly mailto?: string;
}

/** Characters of the header that are looked through. */
const HEADER_MAX = 100_000;

/**
 * @param source beginning of a message (RFC 5322)
 * @returns undefined where the mail names no way
 */
export function readUnsubscribe(source: string): UnsubscribeWays | undefined {
  const field = readField(source, 'list-unsubscribe');
  if (field === undefined) return undefined;
  const urls = [...field.matchAll(/<([^<>]{1,2000})>/g)].map(([, url = '']) =>
    url.replace(/\s+/g, ''),
  );
  const page = urls.find((url) => /^https?:\/\//i.test(url) && URL.canParse(url));
  const mailto = urls.find((url) => /^mailto:[^?]+@/i.test(url));
  if (page === undefined && mailto === undefined) return undefined;
  return { ...(page !== undefined && { page }), ...(mailto !== undefined && { mailto }) };
}

/** A field of the header, unfolded (RFC 5322 section 2.2.3); the first where there are several. */
export function readField(source: string, name: string): string | undefined {
  const header = headerOf(source).replace(/\r?\n[ \t]+/g, ' ');
  for (const line of header.split(/\r?\n/)) {
    const colon = line.indexOf(':');
    if (colon > 0 && line.slice(0, colon).trim().toLowerCase() === name) {
      return line.slice(colon + 1).trim();
    }
  }
  return undefined;
}

/** The header as it came: all before the first empty line. */
export function headerOf(source: string): string {
  const head = source.slice(0, HEADER_MAX);
  const end = head.search(/\r?\n\r?\n/);
  return end < 0 ? head : head.slice(0, end);
}
