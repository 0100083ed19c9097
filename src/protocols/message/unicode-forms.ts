/**
 * Forms of Unicode that senders use and the Encoding Standard does not know: UTF-7 (RFC 2152) and UTF-32. Browsers
 * refuse UTF-7, since it hides markup from filters; here the text is decoded before anybody looks at it.
 */
import { Buffer, isAscii } from 'node:buffer';

const UTF7 = /^(?:unicode-1-1-)?utf-?7$|^csunicode11utf7$/;
const UTF32 = /^(?:utf-?32|ucs-4|iso-10646-ucs-4)(be|le)?$/;

/** Whether {@link decodeUnicodeForm} reads it. */
export function isUnicodeForm(charset: string): boolean {
  const label = charset.trim().toLowerCase();
  return UTF7.test(label) || UTF32.test(label);
}

/** @returns undefined for any other charset, and for bytes that UTF-7 does not have */
export function decodeUnicodeForm(bytes: Uint8Array, charset: string): string | undefined {
  const label = charset.trim().toLowerCase();
  if (UTF7.test(label)) return isAscii(bytes) ? decodeUtf7(bytes) : undefined;
  const utf32 = UTF32.exec(label);
  return utf32 ? decodeUtf32(bytes, utf32[1]) : undefined;
}

const REPLACEMENT = '\ufffd';

const PLUS = 0x2b;
const MINUS = 0x2d;
const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** The value of each octet as a digit of base64, or -1. */
const digits = Int8Array.from({ length: 128 }, (_, octet) =>
  BASE64.indexOf(String.fromCharCode(octet)),
);

/**
 * `+`, then UTF-16 in base64 without padding, up to a `-` or any other character; `+-` is a plus sign. All in one pass:
 * a call for each `+` would hold the event loop for a second where a text has a million of them.
 */
function decodeUtf7(bytes: Uint8Array): string {
  const text = Buffer.alloc(2 * bytes.length);
  let end = 0;
  const put = (unit: number) => {
    text[end++] = unit;
    text[end++] = unit >>> 8;
  };
  for (let at = 0; at < bytes.length; ) {
    const start = at;
    const before = end;
    if (bytes[at++] === PLUS) {
      // Bits that are left over at the end are padding.
      for (let read = 0, bits = 0; ; at++) {
        const digit = digits[bytes[at] ?? 0] ?? -1;
        if (digit < 0) break;
        read = (read << 6) | digit;
        bits += 6;
        if (bits < 16) continue;
        bits -= 16;
        put(read >>> bits);
      }
      if (at === start + 1) put(PLUS);
      if (bytes[at] === MINUS) at++;
    }
    // Not UTF-7 after all, or no `+`: it stays as it is.
    if (end === before) for (let one = start; one < at; one++) put(bytes[one] ?? 0);
  }
  return text.toString('utf16le', 0, end).toWellFormed();
}

const LAST_CODE_POINT = 0x10ffff;

/**
 * Decodes UTF-32. Without an order in its name, a text that could not begin like that in big endian is little endian:
 * that is also what a byte order mark tells.
 */
function decodeUtf32(bytes: Uint8Array, order: string | undefined): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = bytes.length - (bytes.length % 4);
  const startsBig = end === 0 || view.getUint32(0) <= LAST_CODE_POINT;
  const isLittle = order === 'le' || (order === undefined && !startsBig);
  const characters: string[] = [];
  for (let at = 0; at < end; at += 4) {
    const point = view.getUint32(at, isLittle);
    const isMark = at === 0 && point === 0xfeff;
    if (!isMark)
      characters.push(point > LAST_CODE_POINT ? REPLACEMENT : String.fromCodePoint(point));
  }
  if (end < bytes.length) characters.push(REPLACEMENT);
  return characters.join('').toWellFormed();
}
