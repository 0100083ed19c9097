/**
 * What the header fields of a part say about its content, with the defaults of MIME: Content-Type (RFC 2045
 * section 5.1) and Content-Disposition (RFC 2183) with their parameters (RFC 2231), encoding and id.
 */
import { Buffer } from 'node:buffer';
import { commentEnd } from './address-lists.ts';
import { cleanText, decodeHex, decodeRawHeader, decodeText, decodeWords } from './text.ts';

/** The longest boundary that is used; RFC 2046 section 5.1.1 allows 70 characters. */
const MAX_BOUNDARY = 256;
const MAX_ID = 1_000;

/** `type/subtype`: two tokens (RFC 2045 section 5.1) of at most 127 characters (RFC 6838). */
const MEDIA_TYPE = /^([\w!#$%&'*+.^`|~{}-]{1,127})\s*\/\s*([\w!#$%&'*+.^`|~{}-]{1,127})/;
const TOKEN = /^"?([\w!#$%&'*+.^`|~{}-]{1,64})/;

export interface PartContent {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly encoding: string;
  readonly id: string | undefined;
  readonly disposition: string | undefined;
  readonly dispositionParameters: Readonly<Record<string, string>>;
  /** Set where the type is multipart and has a usable boundary: one character per byte. */
  readonly boundary: string | undefined;
}

const identityEncodings = new Set(['7bit', '8bit', 'binary']);

/** Whether the content has no transfer encoding (RFC 2045 section 6.2). */
export function isIdentity(encoding: string): boolean {
  return identityEncodings.has(encoding);
}

interface ContentType extends ParameterizedValue {
  readonly type: string;
}

function readType(field: string | undefined, defaultType: string): ContentType {
  const plainText = { charset: 'us-ascii' };
  if (field === undefined) {
    const parameters = defaultType === 'text/plain' ? plainText : {};
    return { type: defaultType, value: '', parameters, boundary: undefined };
  }
  const parsed = parseParameterized(field);
  const match = MEDIA_TYPE.exec(parsed.value);
  // RFC 2045 section 5.2: an unreadable Content-Type counts as text/plain.
  if (!match) return { ...parsed, type: 'text/plain', parameters: plainText, boundary: undefined };
  return { ...parsed, type: `${match[1]}/${match[2]}`.toLowerCase() };
}

function readEncoding(field: string | undefined, type: string): string {
  const encoding = TOKEN.exec(field ?? '')?.[1]?.toLowerCase() ?? '7bit';
  // RFC 2045 section 6.4 forbids other encodings on multiparts: readers ignore them.
  return type.startsWith('multipart/') && !isIdentity(encoding) ? '7bit' : encoding;
}

function readBoundary(type: string, boundary: string | undefined): string | undefined {
  if (!type.startsWith('multipart/')) return undefined;
  // RFC 2046 section 5.1.1: a boundary does not end in white space.
  const trimmed = boundary?.trimEnd();
  return trimmed && trimmed.length <= MAX_BOUNDARY ? trimmed : undefined;
}

/**
 * Reads the content fields of a part.
 *
 * @param fieldOf returns the raw value of a field by its lower-case name
 * @param defaultType the type of a part without Content-Type: `text/plain`, or `message/rfc822` in a
 *   multipart/digest (RFC 2046 section 5.1.5)
 */
export function readContent(
  fieldOf: (name: string) => string | undefined,
  defaultType: string,
): PartContent {
  const { type, parameters, boundary } = readType(fieldOf('content-type'), defaultType);
  const disposition = parseParameterized(fieldOf('content-disposition') ?? '');
  const id = cleanText(decodeRawHeader(fieldOf('content-id') ?? '').slice(0, MAX_ID));
  return {
    type,
    parameters,
    encoding: readEncoding(fieldOf('content-transfer-encoding'), type),
    id: id === '' ? undefined : id,
    disposition: TOKEN.exec(disposition.value)?.[1]?.toLowerCase(),
    dispositionParameters: disposition.parameters,
    boundary: readBoundary(type, boundary),
  };
}

/** The most parameters that are read, each segment counted, and the most that are kept. */
const MAX_READ = 200;
const MAX_KEPT = 32;
const MAX_NAME = 64;
const MAX_KEPT_VALUE = 1_000;

/** A token without the characters that RFC 2231 gives a meaning (RFC 2045 section 5.1). */
const PARAMETER_NAME = /^[\w!#$&+.^`|~{}-]+$/;

/** Parameters with a file name: senders put encoded words there (against RFC 2047 section 5). */
const fileNames = new Set(['filename', 'name']);

export interface ParameterizedValue {
  /** The text before the first `;` as the sender wrote it, without comments. */
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

/**
 * Whether the parentheses from `start` to `end` are a comment and not part of an unquoted value: senders write
 * `filename=Invoice(1).pdf` and even `filename=Invoice (1).pdf`. In a value, parentheses are a comment only at
 * its end and after white space.
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
      // One unclosed comment ends the search: else each would be read to the end of the text. It counts as
      // text inside a token, and where parameters follow it, so that these are not lost.
      if (end === undefined) {
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

/** Reads the quoted string that starts after `start`; text after it up to `;` is ignored. */
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

/** Name (lower case) and raw value of each parameter of `; name=value; name="value"`, up to the limit. */
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

/** Joins the segments of one parameter (RFC 2231 section 4.1). */
function joinSegments(name: string, unordered: readonly Segment[]): string {
  const segments = unordered
    .toSorted((a, b) => a.index - b.index)
    .filter((segment, index, all) => segment.index !== all[index - 1]?.index);
  if (!segments.some((segment) => segment.isEncoded)) {
    return decodeValue(name, segments.map((segment) => segment.raw).join(''));
  }
  let charset: string | undefined;
  const pieces = segments.map((segment, index) => {
    if (!segment.isEncoded) return Buffer.from(segment.raw, 'latin1');
    // charset'language'text: in the first segment only.
    const start = index === 0 ? /^([^']*)'[^']*'/.exec(segment.raw) : null;
    if (start?.[1]) charset = start[1];
    return decodeHex(segment.raw.slice(start?.[0].length ?? 0), '%');
  });
  return decodeText(Buffer.concat(pieces), charset);
}

function decodeValue(name: string, raw: string): string {
  const text = decodeRawHeader(raw);
  return fileNames.has(name) ? decodeWords(text) : text;
}

/** Whether the name is safe on a plain object: `__proto__` would set its prototype. */
function isUsableName(name: string): boolean {
  return name.length <= MAX_NAME && PARAMETER_NAME.test(name) && name !== '__proto__';
}

/** The parameters as they are stored: safe names, values on one line, both limited in length. */
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
 * Reads a value with parameters; never throws.
 *
 * Of a repeated parameter the first value counts. The extended form of RFC 2231 wins over the plain form, which
 * is the fallback for old readers (RFC 6266 section 4.3).
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
