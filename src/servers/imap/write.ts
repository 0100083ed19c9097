/** Writes the strings of answers (RFC 9051 section 4.3): the one place that quotes, so that no text can forge a line. */
import { Buffer } from 'node:buffer';
import { encodeMailboxName } from '../../protocols/imap-syntax/imap-syntax.ts';

/** A part of an answer: text of one character an octet, octets, or a literal that is read when it is sent. */
export type Part = string | Uint8Array | LiteralSource;
/** What is passed on at once. */
export type Output = Part | readonly Part[];

export interface LiteralSource {
  readonly octets: number;
  open(): AsyncIterable<Uint8Array>;
}

/** Printable ASCII; longer text is a literal, which no client cuts. */
const QUOTABLE = /^[ -~]{0,1000}$/;

/** @param text one character an octet; NUL, which no string may have, becomes a space */
export function string(text: string): string {
  if (QUOTABLE.test(text)) return quote(text);
  const octets = text.replaceAll('\0', ' ');
  return `{${octets.length}}\r\n${octets}`;
}

function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

export function nstring(text: string | undefined): string {
  return text === undefined || text === '' ? 'NIL' : string(text);
}

/** A string of any characters, as UTF-8. */
export function utf8String(text: string): string {
  return string(Buffer.from(text).toString('latin1'));
}

/** Without what ends a line. */
const QUOTABLE_UTF8 = /^[^\0-\x1f\x7f]{0,1000}$/;

/** The name of a mailbox: in modified UTF-7, or in UTF-8, which some programs do not read from a literal. */
export function mailbox(name: string, isUtf8: boolean): string {
  if (!isUtf8) return string(encodeMailboxName(name));
  const octets = Buffer.from(name).toString('latin1');
  return QUOTABLE_UTF8.test(octets) ? quote(octets) : string(octets);
}

/** The text of an answer to people: one line of printable ASCII, which cannot begin with a code. */
export function line(text: string): string {
  return text
    .replace(/[^ -~]/g, '?')
    .replace(/^\[/, '(')
    .slice(0, 500);
}

/** A set of numbers in ascending order, as short as it can be: `1:3,7`. */
export function numberSet(sorted: readonly number[]): string {
  const ranges: string[] = [];
  for (let start = 0; start < sorted.length; ) {
    let end = start;
    while (sorted[end + 1] === (sorted[end] ?? 0) + 1) end++;
    ranges.push(start === end ? `${sorted[start]}` : `${sorted[start]}:${sorted[end]}`);
    start = end + 1;
  }
  return ranges.join(',');
}
