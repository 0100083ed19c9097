/** The header fields by which a list lets go of a reader (RFC 2369, RFC 8058). */

export interface UnsubscribeWays {
  /** A page to open. */
  readonly page?: string | undefined;
  /** A mail to send, as a `mailto:` URL. */
  readonly mailto?: string | undefined;
}

/** The field of the header, up to the first line that does not go on with it (RFC 5322 section 2.2.3). */
const FIELD = /^list-unsubscribe[ \t]*:(.*(?:\r?\n[ \t].*)*)/im;

/** @param source beginning of a message (RFC 5322) */
export function readUnsubscribe(source: string): UnsubscribeWays {
  const [header = ''] = source.split(/\r?\n\r?\n/, 1);
  const [, field = ''] = FIELD.exec(header) ?? [];
  const urls = [...field.matchAll(/<([^<>]{1,2000})>/g)].map(([, url = '']) =>
    url.replace(/\s+/g, ''),
  );
  return {
    page: urls.find((url) => /^https?:\/\//i.test(url) && URL.canParse(url)),
    mailto: urls.find((url) => /^mailto:[^?]+@/i.test(url)),
  };
}
