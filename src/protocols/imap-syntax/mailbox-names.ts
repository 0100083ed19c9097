/** Names of mailboxes on the wire of IMAP4rev1: modified UTF-7 (RFC 3501 section 5.1.3). */
import { Buffer } from 'node:buffer';

/** Text that is not printable ASCII; `&` begins the encoding itself. */
const ENCODED = /[^ -~]+|&/g;
/** `&`, base64 with `,` in place of `/`, and `-`. */
const SHIFT = /&([A-Za-z0-9+,]*)-/g;

/** Writes a name in printable ASCII. */
export function encodeMailboxName(name: string): string {
  return name.replace(ENCODED, (text) => (text === '&' ? '&-' : `&${encodeUtf16(text)}-`));
}

/**
 * Reads a name as a client wrote it. Text that no server could have encoded so is taken as it stands: Thunderbird sends
 * a bare `&`, and clients that have enabled UTF-8 send UTF-8. So is NUL, which no name has and no database takes.
 */
export function decodeMailboxName(text: string): string {
  return text.replace(SHIFT, (shift, base64: string) => {
    if (base64 === '') return '&';
    const decoded = decodeUtf16(base64);
    const isName = decoded.isWellFormed() && !decoded.includes('\0');
    return isName && encodeUtf16(decoded) === base64 ? decoded : shift;
  });
}

function encodeUtf16(text: string): string {
  const base64 = Buffer.from(text, 'utf16le').swap16().toString('base64');
  return base64.replace(/=+$/, '').replaceAll('/', ',');
}

function decodeUtf16(base64: string): string {
  const bytes = Buffer.from(base64.replaceAll(',', '/'), 'base64');
  const whole = bytes.subarray(0, bytes.length - (bytes.length % 2));
  return Buffer.from(whole).swap16().toString('utf16le');
}
