/**
 * Our use of imapflow: it connects, does TLS and SASL, and reads and writes IMAP. Which commands are sent, and what
 * their answers mean, is our code.
 *
 * Two of its members are internal, and only {@link commandLayer} names them: `exec` and `untaggedHandlers`. The public
 * API cannot replace them. It cannot send other commands, and its methods do not return what a sync needs: UIDs as
 * ranges, VANISHED of one EXAMINE (QRESYNC), what the server sends between two commands, FETCH without a message
 * object for each of 100,000 messages. So package.json pins the release, and `wire.test.ts` fails where a newer one
 * behaves differently.
 */
import type { ImapAttribute, ImapAttributeNode, ImapFlow, ImapResponse } from 'imapflow';
import { readDateTime } from '../../../protocols/imap-syntax/imap-syntax.ts';

export type { ImapAttribute, ImapResponse };

export type Argument =
  | { readonly type: 'ATOM' | 'STRING' | 'SEQUENCE'; readonly value: string }
  | { readonly type: 'LITERAL'; readonly value: Buffer }
  | {
      readonly type: 'ATOM';
      readonly value: string;
      readonly section: readonly Argument[];
      readonly partial?: readonly number[];
    }
  | readonly Argument[];

type Handler = (response: ImapResponse) => Promise<void>;

/** The layer below the commands of an ImapFlow. */
export interface CommandLayer {
  exec(
    command: string,
    attributes: readonly Argument[],
    options: { untagged: Readonly<Record<string, Handler>> },
  ): Promise<{ readonly response: ImapResponse; next(): void }>;
  /** Untagged responses that no command under way handles. */
  readonly untaggedHandlers: Record<string, Handler>;
}

export function commandLayer(client: ImapFlow): CommandLayer {
  // imapflow leaves both out of its types; wire.test.ts checks that they behave as described here.
  const layer = client as unknown as CommandLayer;
  if (typeof layer.exec !== 'function' || typeof layer.untaggedHandlers !== 'object') {
    throw new Error('this release of imapflow has another command layer');
  }
  return layer;
}

export const atom = (value: string): Argument => ({ type: 'ATOM', value });
export const quoted = (value: string): Argument => ({ type: 'STRING', value });
export const literal = (value: Buffer): Argument => ({ type: 'LITERAL', value });
export const sequence = (value: string): Argument => ({ type: 'SEQUENCE', value });

/** `BODY.PEEK[section]<start.length>`: never sets `\Seen` (RFC 3501 section 6.4.5). */
export function peek(section: readonly Argument[], partial?: readonly [number, number]): Argument {
  return { type: 'ATOM', value: 'BODY.PEEK', section, ...(partial && { partial }) };
}

function isNode(item: ImapAttribute | undefined): item is ImapAttributeNode {
  return item !== null && item !== undefined && !Array.isArray(item);
}

export function textOf(item: ImapAttribute | undefined): string | undefined {
  if (!isNode(item)) return undefined;
  if (typeof item.value === 'string') return item.value;
  return Buffer.isBuffer(item.value) ? item.value.toString() : undefined;
}

/** Bytes of a literal; a quoted string is returned as it was on the line, which is UTF-8. */
export function bytesOf(item: ImapAttribute | undefined): Buffer | undefined {
  if (!isNode(item)) return undefined;
  if (Buffer.isBuffer(item.value)) return item.value;
  return typeof item.value === 'string' ? Buffer.from(item.value) : undefined;
}

export function listOf(item: ImapAttribute | undefined): readonly ImapAttribute[] {
  return Array.isArray(item) ? item : [];
}

/** A number of up to 32 bits; undefined for anything else. */
export function numberOf(item: ImapAttribute | string | undefined): number | undefined {
  const text = typeof item === 'string' ? item : textOf(item);
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}

/** A mod-sequence: up to 63 bits (RFC 7162 section 7). */
export function modseqOf(item: ImapAttribute | undefined): bigint | undefined {
  const text = textOf(item);
  return text !== undefined && /^\d{1,19}$/.test(text) ? BigInt(text) : undefined;
}

export interface ResponseCode {
  /** In capitals. */
  readonly name: string;
  readonly values: readonly ImapAttribute[];
}

/** The response code of a status response: `[UIDNEXT 4]` (RFC 3501 section 7.1). */
export function codeOf({ attributes }: ImapResponse): ResponseCode | undefined {
  const [first] = attributes ?? [];
  if (!isNode(first) || first.value || !first.section) return undefined;
  const [name, ...values] = first.section;
  const text = textOf(name);
  return text === undefined ? undefined : { name: text.toUpperCase(), values };
}

/** One untagged FETCH by the names of its items, as `BODYSTRUCTURE`, or `BODY` for any section. */
export function fetchItems({ attributes }: ImapResponse): ReadonlyMap<string, ImapAttribute> {
  const items = new Map<string, ImapAttribute>();
  const list = listOf(attributes?.[1]);
  for (let at = 0; at + 1 < list.length; at += 2) {
    const name = textOf(list[at])?.toUpperCase();
    const value = list[at + 1];
    if (name !== undefined && value !== undefined) items.set(name, value);
  }
  return items;
}

/* Flags in the form in which every store of ours shows them. */

const SYSTEM_FLAGS = new Map(
  ['\\Answered', '\\Deleted', '\\Draft', '\\Flagged', '\\Seen'].map((flag) => [
    flag.toLowerCase(),
    flag,
  ]),
);

export const systemFlags: readonly string[] = [...SYSTEM_FLAGS.values()];

/** An atom (RFC 3501 section 9): anything else would be read as another key. */
const KEYWORD = /^[!#$&'+,\-./0-9:;<=>?@A-Z[^_`a-z|}~]{1,64}$/;

/** The search key of a flag (RFC 3501 section 6.4.4); undefined for what is none. */
export function searchKeyOf(flag: string): Argument[] | undefined {
  const system = SYSTEM_FLAGS.get(flag.toLowerCase());
  if (system) return [atom(system.slice(1).toUpperCase())];
  return KEYWORD.test(flag) ? [atom('KEYWORD'), atom(flag)] : undefined;
}

/**
 * Each once, system flags as RFC 3501 spells them, sorted. `\Recent` is left out: it belongs to a
 * session (RFC 3501 section 2.3.2), not to the message.
 */
export function readFlags(items: readonly ImapAttribute[]): string[] {
  const byKey = new Map<string, string>();
  for (const item of items) {
    const flag = textOf(item);
    if (!flag || /[\s\x00-\x1f]/.test(flag)) continue;
    const key = flag.toLowerCase();
    if (key !== '\\recent' && !byKey.has(key)) byKey.set(key, SYSTEM_FLAGS.get(key) ?? flag);
  }
  return [...byKey.values()].sort();
}

/** `INTERNALDATE` of a message as RFC 3339 in UTC. */
export function readInternalDate(item: ImapAttribute | undefined): string | undefined {
  const instant = readDateTime(textOf(item) ?? '');
  return instant === undefined ? undefined : new Date(instant).toISOString();
}
