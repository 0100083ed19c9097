/**
 * Removes Authentication-Results fields that say they are ours from a message that comes from
 * outside, since readers trust what bears our name (RFC 8601 section 5).
 */
import type { Buffer } from 'node:buffer';
import { toBrowserName } from '../../message/message.ts';
import { FIELD_HELD, type FieldPiece, readFieldName } from './cut-fields.ts';
import { withoutRoot } from './host-names.ts';

const FIELD = 'authentication-results';

/** Characters of a name that is compared with ours: ours has 253 at most, however it is written. */
const ID_MAX = 1_000;

/** Characters of a token that end it, besides white space and controls (RFC 2045 section 5.1). */
const TSPECIALS = new Set('()<>@,;:\\"/[]?=');

/** One name for all ways to write an authserv-id: case, IDNA (RFC 8601 section 2.5), the root's dot. */
export function serviceName(text: string): string {
  const name = withoutRoot(text.trim());
  if (name.length > ID_MAX) return name;
  return (toBrowserName(name) || name).toLowerCase();
}

/** The start of a field's value, and whether the value goes on behind it. */
interface Value {
  readonly text: string;
  readonly isCut: boolean;
}

function isSpace(character: string): boolean {
  return character <= ' ' || character === '\x7f';
}

/** Index behind white space, controls and comments, which nest; undefined: they do not end. */
function skipComments({ text, isCut }: Value): number | undefined {
  let depth = 0;
  let at = 0;
  for (; at < text.length; at++) {
    const character = text.charAt(at);
    if (depth > 0 && character === '\\') at++;
    else if (character === '(') depth++;
    else if (depth > 0 && character === ')') depth--;
    else if (depth === 0 && !isSpace(character)) return at;
  }
  return depth > 0 || isCut ? undefined : text.length;
}

/** `authserv-id = value`: a token or a quoted-string (RFC 8601 section 2.2); undefined: no end. */
function readServiceId(value: Value): string | undefined {
  const { text, isCut } = value;
  const start = skipComments(value);
  if (start === undefined) return undefined;
  if (text.charAt(start) === '"') return readQuoted(text, start + 1);
  for (let at = start; at < text.length; at++) {
    const character = text.charAt(at);
    if (isSpace(character) || TSPECIALS.has(character)) return text.slice(start, at);
  }
  return isCut ? undefined : text.slice(start);
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

/** Takes the header of one message, field by field. */
export class ResultsRemoval {
  readonly #ours: string;
  #removing = false;
  #removed = false;

  /** @param ours our authserv-id, as {@link serviceName} writes it: once for all messages */
  constructor(ours: string) {
    this.#ours = ours;
  }

  /** Whether any field was removed so far. */
  get removed(): boolean {
    return this.#removed;
  }

  /** Whether a piece of the header stays. Every piece is asked for, in order. */
  keeps(piece: FieldPiece): boolean {
    if (piece.isFirst) {
      this.#removing = this.#isClaimed(piece.bytes);
      this.#removed ||= this.#removing;
    }
    return !this.#removing;
  }

  #isClaimed(field: Buffer): boolean {
    const first = field[0];
    if (first !== 0x41 && first !== 0x61) return false;
    // Of a long field the same is looked at however it came, so that chunks make no difference.
    const isCut = field.length >= FIELD_HELD;
    const { name, colon } = readFieldName(isCut ? field.subarray(0, FIELD_HELD) : field);
    if (name.toLowerCase() !== FIELD) return false;
    if (colon < 0) return isCut;
    // What is not UTF-8 is nobody's name, so the replacement character does no harm.
    const text = field.toString('utf8', colon + 1, Math.min(field.length, FIELD_HELD));
    const id = readServiceId({ text, isCut });
    // Whose it is cannot be told from a comment or string without an end: readers differ.
    return id === undefined || serviceName(id) === this.#ours;
  }
}
