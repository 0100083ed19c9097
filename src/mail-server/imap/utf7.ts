/**
 * Mailbox names on the wire: modified UTF-7 (RFC 3501 section 5.1.3). Printable ASCII stands for
 * itself but for `&`, which is `&-`; anything else is UTF-16 in base64 between `&` and `-`, with `,`
 * in place of `/` and without padding.
 */

export function encodeMailboxName(name: string): string {
  return name.replace(/&|[^\x20-\x7e]+/g, (text) =>
    text === '&'
      ? '&-'
      : `&${Buffer.from(text, 'utf16le').swap16().toString('base64').replace(/=+$/, '').replaceAll('/', ',')}-`,
  );
}

/** A name that is not well formed stays as it is, so that the server still knows it. */
export function decodeMailboxName(wire: string): string {
  const name = wire.replace(/&([A-Za-z0-9+,]*)-/g, (text, encoded: string) => {
    if (encoded === '') return '&';
    const bytes = Buffer.from(encoded.replaceAll(',', '/'), 'base64');
    return bytes.length === 0 || bytes.length % 2 === 1
      ? text
      : Buffer.from(bytes).swap16().toString('utf16le');
  });
  return encodeMailboxName(name) === wire ? name : wire;
}
