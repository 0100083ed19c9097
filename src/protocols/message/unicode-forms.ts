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

/** `+`, then UTF-16 in base64 without padding, up to a `-` or any other character; `+-` is a plus sign. */
const SHIFTED = /\+([A-Za-z0-9+/]*)(-?)/g;

function decodeUtf7(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString('latin1')
    .replace(SHIFTED, (whole: string, base64: string) => {
      if (base64 === '') return '+';
      const units = Buffer.from(base64, 'base64');
      // Bits that are left over are padding.
      const even = units.subarray(0, units.length - (units.length % 2));
      return even.length === 0 ? whole : even.swap16().toString('utf16le');
    })
    .toWellFormed();
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
