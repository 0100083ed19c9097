/**
 * Field values with parameters: Content-Type (RFC 2045 section 5.1), Content-Disposition
 * (RFC 2183), and the extended parameters of RFC 2231.
 */
import { Buffer } from 'node:buffer';
import { decodeWords } from './encoded-words.ts';
import { hexValue } from './quoted-printable.ts';
import { cleanText, decodeRawHeader, decodeText } from './text.ts';

/** Parameters that are read, segments counted one by one, and those that are kept. */
const MAX_READ = 200;
const MAX_KEPT = 32;
const MAX_NAME = 64;
const MAX_KEPT_VALUE = 1_000;

/** A token without the characters that RFC 2231 gives a meaning (RFC 2045 section 5.1). */
const TOKEN = /^[\w!#$&+.^`|~{}-]+$/;

/** Parameters that hold a file name: senders put encoded words there (against RFC 2047 section 5). */
const fileNames = new Set(['filename', 'name']);

export interface ParameterizedValue {
  /** What stands before the first `;`, comments removed, as the sender wrote it. */
  readonly value: string;
  /** By lower-case name, decoded; an object that is safe to copy and to store. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The `boundary` parameter with one character per byte, as it stands in the body. */
  readonly boundary: string | undefined;
}

/** One piece of a parameter that was split or percent-encoded (RFC 2231 sections 3 and 4). */
interface Segment {
  readonly index: number;
  readonly isEncoded: boolean;
  readonly raw: string;
}

/** Index behind the `)` that closes the comment at `start`, or -1 (RFC 5322 section 3.2.2). */
function commentEnd(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (character === '\\') at++;
    else if (character === '(') depth++;
    else if (character === ')' && --depth === 0) return at + 1;
  }
  return -1;
}

/**
 * Whether the parentheses from `start` to `end` are a comment and not part of an unquoted value:
 * senders write `filename=Invoice(1).pdf` and even `filename=Invoice (1).pdf`. In a value only
 * what stands at its end, set off by white space, is a comment.
 */
function isComment(text: string, before: string, start: number, end: number): boolean {
  if (before === ';' || before === '"') return true;
  if (!/\s/.test(text[start - 1] ?? '')) return false;
  let next = end;
  while (text[next] === ' ' || text[next] === '\t') next++;
  return next >= text.length || text[next] === ';' || text[next] === '(';
}

/** Removes comments outside quoted strings (RFC 5322 section 3.2.2). */
function stripComments(text: string): string {
  if (!text.includes('(')) return text;
  let kept = '';
  let from = 0;
  let isQuoted = false;
  let inParameters = false;
  let before = '';
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? '';
    if (isQuoted) {
      if (character === '\\') at++;
      isQuoted = character !== '"';
    } else if (character === '(') {
      const end = commentEnd(text, at);
      // One unclosed comment ends the search, else many would each be read to the end. It is
      // content inside a token, and where parameters follow it, so that these survive.
      if (end < 0) {
        const isContent = text.includes(';', at) || (inParameters && text[at - 1] !== ' ');
        return kept + text.slice(from, isContent ? text.length : at);
      }
      if (!inParameters || isComment(text, before, at, end)) {
        kept += text.slice(from, at);
        from = end;
      }
      at = end - 1;
      continue;
    } else if (character === '"') {
      isQuoted = true;
    } else if (character === ';') {
      inParameters = true;
    }
    if (character !== ' ' && character !== '\t') before = character;
  }
  return kept + text.slice(from);
}

/** Reads the quoted string that starts behind `start`; what follows it up to `;` is junk. */
function readQuoted(text: string, start: number): { value: string; end: number } {
  let value = '';
  let from = start;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (character === '"') {
      const end = text.indexOf(';', at);
      return { value: value + text.slice(from, at), end: end < 0 ? text.length : end };
    }
    if (character === '\\' && at + 1 < text.length) {
      value += text.slice(from, at);
      from = ++at;
    }
  }
  return { value: value + text.slice(from), end: text.length };
}

/** Name (lower case) and raw value of each parameter of `; name=value; name="value"`, capped. */
function readParameters(text: string, start: number): [name: string, raw: string][] {
  const read: [string, string][] = [];
  let at = start;
  while (at < text.length && read.length < MAX_READ) {
    let equals = at;
    while (equals < text.length && text[equals] !== '=' && text[equals] !== ';') equals++;
    if (text[equals] !== '=') {
      at = equals + 1;
      continue;
    }
    const name = text.slice(at, equals).trim().toLowerCase();
    at = equals + 1;
    while (text[at] === ' ' || text[at] === '\t') at++;
    if (text[at] === '"') {
      const { value, end } = readQuoted(text, at + 1);
      read.push([name, value]);
      at = end + 1;
    } else {
      const semicolon = text.indexOf(';', at);
      const end = semicolon < 0 ? text.length : semicolon;
      read.push([name, text.slice(at, end).trim()]);
      at = end + 1;
    }
  }
  return read;
}

/** Bytes of a percent-encoded value (RFC 2231 section 4); a `%` without digits stands for itself. */
function percentDecode(raw: string): Buffer {
  const bytes = Buffer.from(raw, 'latin1');
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    let byte = bytes[at] ?? 0;
    const high = byte === 0x25 ? hexValue(bytes[at + 1] ?? 0) : -1;
    const low = high >= 0 ? hexValue(bytes[at + 2] ?? 0) : -1;
    if (low >= 0) {
      byte = (high << 4) | low;
      at += 2;
    }
    bytes[length++] = byte;
  }
  return bytes.subarray(0, length);
}

/** Puts the segments of one parameter together: RFC 2231 section 4.1. */
function joinSegments(name: string, unordered: readonly Segment[]): string {
  const segments = unordered
    .toSorted((a, b) => a.index - b.index)
    .filter((segment, place, all) => segment.index !== all[place - 1]?.index);
  if (!segments.some((segment) => segment.isEncoded)) {
    return decodeValue(name, segments.map((segment) => segment.raw).join(''));
  }
  let charset: string | undefined;
  const pieces = segments.map((segment, place) => {
    if (!segment.isEncoded) return Buffer.from(segment.raw, 'latin1');
    // charset'language'text: in the first segment only.
    const start = place === 0 ? /^([^']*)'[^']*'/.exec(segment.raw) : null;
    if (start?.[1]) charset = start[1];
    return percentDecode(segment.raw.slice(start?.[0].length ?? 0));
  });
  return decodeText(Buffer.concat(pieces), charset);
}

function decodeValue(name: string, raw: string): string {
  const text = decodeRawHeader(raw);
  return fileNames.has(name) ? decodeWords(text) : text;
}

/** Whether a plain object can take the name: `__proto__` would set what it inherits from. */
function isUsableName(name: string): boolean {
  return name.length <= MAX_NAME && TOKEN.test(name) && name !== '__proto__';
}

/** The parameters as they are stored: names that are safe, values on one line, both capped. */
function keep(decoded: ReadonlyMap<string, string>): Record<string, string> {
  const kept: Record<string, string> = {};
  let count = 0;
  for (const [name, value] of decoded) {
    if (!isUsableName(name)) continue;
    if (++count > MAX_KEPT) break;
    kept[name] = cleanText(value.slice(0, MAX_KEPT_VALUE));
  }
  return kept;
}

/**
 * Reads a value with parameters, never throwing.
 *
 * A parameter given twice keeps its first value; one in the extended form of RFC 2231 wins over
 * its plain form, which is the fallback for old readers (RFC 6266 section 4.3).
 *
 * @param raw unfolded field value, one character per byte
 */
export function parseParameterized(raw: string): ParameterizedValue {
  const text = stripComments(raw);
  const semicolon = text.indexOf(';');
  if (semicolon < 0) return { value: text.trim(), parameters: {}, boundary: undefined };
  const plain = new Map<string, string>();
  const split = new Map<string, Segment[]>();
  for (const [name, value] of readParameters(text, semicolon + 1)) {
    const extended = name.includes('*') ? /^([^*]+)\*(?:(\d{1,4})(\*)?)?$/.exec(name) : null;
    if (!extended) {
      if (!plain.has(name)) plain.set(name, value);
      continue;
    }
    const [, base = '', index, star] = extended;
    const segments = split.get(base) ?? [];
    if (segments.length === 0) split.set(base, segments);
    segments.push({
      index: Number(index ?? 0),
      isEncoded: index === undefined || star !== undefined,
      raw: value,
    });
  }
  const decoded = new Map<string, string>();
  for (const [name, value] of plain) decoded.set(name, decodeValue(name, value));
  for (const [name, segments] of split) decoded.set(name, joinSegments(name, segments));
  return {
    value: text.slice(0, semicolon).trim(),
    parameters: keep(decoded),
    boundary: split.has('boundary') ? decoded.get('boundary') : plain.get('boundary'),
  };
}
