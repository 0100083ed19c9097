/** What commands and answers of IMAP are made of, in the forms that this folder uses. */

import { readDateTime } from '../../../protocols/imap-syntax/imap-syntax.ts';
import { KEYWORD, SYSTEM_FLAGS } from '../../mailstore/mailstore.ts';
import type { ImapItem } from './responses.ts';

/** Octets that a command has in it; they are sent when the server asks for them (RFC 9051 section 4.3). */
export interface Literal {
  readonly size: number;
  /** Gives `size` octets. */
  readonly open: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** As it is sent; what a client chose is never an atom, unless it was checked. */
interface Atom {
  readonly text: string;
}

export type Argument = Atom | Literal | readonly Argument[];

export const atom = (text: string): Argument => ({ text });
export const sequence = atom;

/** Printable ASCII alone may be quoted (RFC 9051 section 4.3). */
export function quoted(text: string): Argument {
  return /^[ -~]*$/.test(text)
    ? { text: `"${text.replace(/["\\]/g, '\\$&')}"` }
    : literal(Buffer.from(text));
}

export function literal(bytes: Uint8Array): Literal {
  return { size: bytes.length, open: () => [bytes] };
}

/** `BODY.PEEK[section]<start.length>`: never sets `\Seen` (RFC 3501 section 6.4.5). */
export function peek(section: string, partial?: readonly [number, number]): Argument {
  return atom(`BODY.PEEK[${section}]${partial ? `<${partial.join('.')}>` : ''}`);
}

/** A command in the pieces in which it is sent: each literal ends the text before it. */
export function writeCommand(name: string, args: readonly Argument[]): (string | Literal)[] {
  const pieces: (string | Literal)[] = [];
  let text = name;
  const write = (arg: Argument) => {
    if ('text' in arg) text += arg.text;
    else if ('open' in arg) {
      pieces.push(`${text}{${arg.size}}\r\n`, arg);
      text = '';
    } else {
      text += '(';
      for (const [index, item] of arg.entries()) {
        if (index > 0) text += ' ';
        write(item);
      }
      text += ')';
    }
  };
  for (const arg of args) {
    text += ' ';
    write(arg);
  }
  return [...pieces, `${text}\r\n`];
}

/** A string, also of a literal, which is UTF-8. */
export function textOf(item: ImapItem | undefined): string | undefined {
  return Buffer.isBuffer(item) ? item.toString() : typeof item === 'string' ? item : undefined;
}

/** The octets of a string. */
export function bytesOf(item: ImapItem | undefined): Buffer | undefined {
  return typeof item === 'string' ? Buffer.from(item) : Buffer.isBuffer(item) ? item : undefined;
}

export function listOf(item: ImapItem | undefined): readonly ImapItem[] {
  return Array.isArray(item) ? item : [];
}

/** A number of up to 32 bits; undefined for anything else. */
export function numberOf(item: ImapItem | undefined): number | undefined {
  const text = textOf(item);
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}

/** A mod-sequence: up to 63 bits (RFC 7162 section 7). */
export function modseqOf(item: ImapItem | undefined): bigint | undefined {
  const text = textOf(item);
  return text !== undefined && /^\d{1,19}$/.test(text) ? BigInt(text) : undefined;
}

/** The values of a list of names and values in turn, by names in capitals; of FETCH, `BODY` is any section. */
export function valuesOf(item: ImapItem | undefined): ReadonlyMap<string, ImapItem> {
  const values = new Map<string, ImapItem>();
  const list = listOf(item);
  for (let at = 0; at + 1 < list.length; at += 2) {
    const name = textOf(list[at])?.toUpperCase();
    const value = list[at + 1];
    if (name !== undefined && value !== undefined) values.set(name, value);
  }
  return values;
}

/* Flags in the form in which every store of ours shows them. */

const systemFlags = new Map(SYSTEM_FLAGS.map((flag) => [flag.toLowerCase(), flag]));

/** The search key of a flag (RFC 3501 section 6.4.4); undefined for what is none: it would be read as another key. */
export function searchKeyOf(flag: string): Argument[] | undefined {
  const system = systemFlags.get(flag.toLowerCase());
  if (system) return [atom(system.slice(1).toUpperCase())];
  return KEYWORD.test(flag) ? [atom('KEYWORD'), atom(flag)] : undefined;
}

/**
 * Each once, system flags as RFC 3501 spells them, sorted. `\Recent` is left out: it belongs to a
 * session (RFC 3501 section 2.3.2), not to the message.
 */
export function readFlags(items: readonly ImapItem[]): string[] {
  const byKey = new Map<string, string>();
  for (const item of items) {
    const flag = textOf(item);
    if (!flag || /[\s\x00-\x1f]/.test(flag)) continue;
    const key = flag.toLowerCase();
    if (key !== '\\recent' && !byKey.has(key)) byKey.set(key, systemFlags.get(key) ?? flag);
  }
  return [...byKey.values()].sort();
}

/** `INTERNALDATE` of a message as RFC 3339 in UTC. */
export function readInternalDate(item: ImapItem | undefined): string | undefined {
  const instant = readDateTime(textOf(item) ?? '');
  return instant === undefined ? undefined : new Date(instant).toISOString();
}
