/** Makes values fit into a number of bytes of JSON in UTF-8. */
import { Buffer } from 'node:buffer';

/** Bytes of a value as JSON. */
export function jsonSize(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Bytes that one UTF-16 code unit takes in JSON (RFC 8259 section 7); half a pair takes half. */
function unitSize(unit: number): number {
  // " and \
  if (unit === 0x22 || unit === 0x5c) return 2;
  if (unit < 0x20) return '\b\t\n\f\r'.includes(String.fromCharCode(unit)) ? 2 : 6;
  if (unit < 0x80) return 1;
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit <= 0xdfff ? 2 : 3;
}

/**
 * The start of a text that is at most so many bytes as JSON, quotes included; characters stay
 * whole. Halves of surrogate pairs become U+FFFD. Null stays null.
 */
export function cutToJson(
  given: string | null,
  most: number,
): { readonly text: string | null; readonly cut: boolean } {
  if (given === null) return { text: null, cut: false };
  const text = given.toWellFormed();
  // No code unit takes more than 6 bytes.
  if (text.length * 6 + 2 <= most || jsonSize(text) <= most) return { text, cut: false };
  let size = 2;
  let end = 0;
  for (; end < text.length; end++) {
    size += unitSize(text.charCodeAt(end));
    if (size > most) break;
  }
  return { text: text.slice(0, end).replace(/[\ud800-\udbff]$/, ''), cut: true };
}

/** The first of some items that together are at most so many bytes as a JSON array. */
export function fitToJson<T>(
  items: readonly T[],
  most: number,
): { readonly items: readonly T[]; readonly cut: boolean } {
  let size = 2;
  for (const [index, item] of items.entries()) {
    size += jsonSize(item) + 1;
    if (size > most) return { items: items.slice(0, index), cut: true };
  }
  return { items, cut: false };
}
