/**
 * Removes Authentication-Results fields that say they are ours from a message that comes from
 * outside, since readers trust what bears our name (RFC 8601 section 5).
 */
import { decodeRawHeader, type HeaderField, rawValue, toDnsName } from '../../message/message.ts';

const FIELD = 'authentication-results';

/** Characters of a token that end it, besides white space and controls (RFC 2045 section 5.1). */
const TSPECIALS = new Set('()<>@,;:\\"/[]?=');

/** One name for all ways to write an authserv-id: case, IDNA (RFC 8601 section 2.5), the root's dot. */
export function serviceName(text: string): string {
  return toDnsName(text) ?? text.toLowerCase();
}

function isSpace(character: string): boolean {
  return character <= ' ' || character === '\x7f';
}

/** Index behind white space, controls and comments, which nest; undefined: they do not end. */
function skipComments(text: string): number | undefined {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (depth > 0 && character === '\\') at++;
    else if (character === '(') depth++;
    else if (depth > 0 && character === ')') depth--;
    else if (depth === 0 && !isSpace(character)) return at;
  }
  return depth > 0 ? undefined : text.length;
}

/** `authserv-id = value`: a token or a quoted-string (RFC 8601 section 2.2); undefined: no end. */
function readServiceId(text: string): string | undefined {
  const start = skipComments(text);
  if (start === undefined) return undefined;
  if (text.charAt(start) === '"') return readQuoted(text, start + 1);
  let end = start;
  while (end < text.length && !isSpace(text.charAt(end)) && !TSPECIALS.has(text.charAt(end))) end++;
  return text.slice(start, end);
}

function readQuoted(text: string, start: number): string | undefined {
  let content = '';
  for (let at = start; at < text.length; at++) {
    if (text.charAt(at) === '"') return content;
    if (text.charAt(at) === '\\') at++;
    content += text.charAt(at);
  }
  return undefined;
}

/**
 * Whether a field is to be removed.
 *
 * @param ours our authserv-id, as {@link serviceName} writes it: once for all messages
 */
export function isClaimedResult(field: HeaderField, ours: string): boolean {
  if (field.name !== FIELD) return false;
  const id = readServiceId(decodeRawHeader(rawValue(field)));
  // Whose it is cannot be told from a comment or string without an end: readers differ.
  return id === undefined || serviceName(id.trim()) === ours;
}
