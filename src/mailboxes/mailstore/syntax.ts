/** The syntax of mailbox names, flags and sync tokens, and the mailboxes that every account has. */
import { invalidField } from '../../platform/errors/errors.ts';
import type { SyncRequest } from './store.ts';

/** RFC 6154 section 2; the first is where mail arrives. */
export const defaultMailboxes = [
  { name: 'INBOX', specialUse: null },
  { name: 'Sent', specialUse: '\\Sent' },
  { name: 'Drafts', specialUse: '\\Drafts' },
  { name: 'Junk', specialUse: '\\Junk' },
  { name: 'Trash', specialUse: '\\Trash' },
  { name: 'Archive', specialUse: '\\Archive' },
] as const;

/** Separates the name of a mailbox from that of one below it. */
export const SEPARATOR = '/';

/** The most characters and levels of the name of a mailbox to create. */
export const NEW_NAME_MAX = 255;
const DEPTH_MAX = 10;

/** Control characters, line separators, and what IMAP reads as wildcards (RFC 3501 section 6.3.8). */
const FORBIDDEN = /[\p{Cc}\u2028\u2029%*\\]/u;

/**
 * Reads the name of a mailbox to create.
 *
 * @param field of the request that has the name
 * @returns the name as it is stored: NFC, a first level of `inbox` in capitals
 * @throws Refusal `invalid_request`
 */
export function readNewName(field: string, name: string): string {
  if (name.length === 0 || [...name].length > NEW_NAME_MAX) {
    throw invalidField(field, `must have 1 to ${NEW_NAME_MAX} characters`);
  }
  if (!name.isWellFormed() || FORBIDDEN.test(name)) {
    throw invalidField(field, 'must have no control characters and none of % * \\');
  }
  const levels = name.normalize('NFC').split(SEPARATOR);
  if (levels.length > DEPTH_MAX) throw invalidField(field, `must have at most ${DEPTH_MAX} levels`);
  for (const level of levels) {
    if (level.trim() !== level || level === '') {
      throw invalidField(field, `must have no empty level, and no space beside a ${SEPARATOR}`);
    }
    if (level === '.' || level === '..') throw invalidField(field, 'must have no level . or ..');
  }
  return canonicalLevels(name);
}

/** {@link canonicalMailboxName} in our own store: of a name below INBOX the first level is in capitals, too. */
export function canonicalLevels(name: string): string {
  return name.normalize('NFC').replace(/^inbox(?=\/|$)/i, 'INBOX');
}

/**
 * The name of a mailbox as stores know it: NFC. INBOX is case-insensitive in ASCII only (RFC 3501 section 5.1): the
 * capital of a dotless i is I, too. Other names are case-sensitive.
 */
export function canonicalMailboxName(name: string): string {
  return /^inbox$/i.test(name) ? 'INBOX' : name.normalize('NFC');
}

/** Whether a name is below another one. Names that differ only in case look the same to people. */
export function isBelow(name: string, above: string, separator = SEPARATOR): boolean {
  return name.toLowerCase().startsWith((above + separator).toLowerCase());
}

/* IMAP flags (RFC 3501 section 2.3.2): system flags and keywords, compared without case. */

export const SYSTEM_FLAGS = ['\\Answered', '\\Deleted', '\\Draft', '\\Flagged', '\\Seen'];
/** An atom (RFC 3501 section 9): no controls, space, or any of `(){%*"\]`. */
export const KEYWORD = /^[!#$&'+,\-./0-9:;<=>?@A-Z[^_`a-z|}~]{1,64}$/;

/** The most keywords of a message, far more than any client uses; each is part of every sync of the message. */
const KEYWORDS_MAX = 64;

/**
 * Brings flags into the one form in which they are stored: each once, system flags as RFC 3501 spells them,
 * sorted.
 *
 * @param field of the request that has the flags
 * @throws Refusal `invalid_request` for what is not a flag; `\Recent` cannot be set by clients
 */
export function normalizeFlags(flags: readonly string[], field = 'flags'): string[] {
  const byKey = new Map<string, string>();
  for (const flag of flags) {
    const system = SYSTEM_FLAGS.find((known) => known.toLowerCase() === flag.toLowerCase());
    if (!system && !KEYWORD.test(flag)) {
      throw invalidField(
        field,
        `must be system flags (${SYSTEM_FLAGS.join(', ')}) or keywords: 1 to 64 characters of ASCII, no space and none of (){%*"\\]`,
      );
    }
    const name = system ?? flag;
    if (!byKey.has(name.toLowerCase())) byKey.set(name.toLowerCase(), name);
  }
  const known = [...byKey.values()];
  if (known.filter((flag) => !SYSTEM_FLAGS.includes(flag)).length > KEYWORDS_MAX) {
    throw invalidField(field, `would give a message more than ${KEYWORDS_MAX} keywords`);
  }
  return known.sort();
}

/**
 * The flags after a change, in stored form. A flag that is both added and removed is removed.
 *
 * @throws Refusal `invalid_request` (`add`) where they would be too many
 */
export function changeFlags(
  current: readonly string[],
  add: readonly string[],
  remove: readonly string[],
): string[] {
  const removed = new Set(normalizeFlags(remove).map((flag) => flag.toLowerCase()));
  // What goes makes room for what comes.
  const stays = [...current, ...add].filter((flag) => !removed.has(flag.toLowerCase()));
  return normalizeFlags(stays, 'add');
}

export function flagsToText(flags: readonly string[]): string {
  return flags.join(' ');
}

export function flagsFromText(text: string): string[] {
  return text === '' ? [] : text.split(' ');
}

/** Whether flags in stored form have one. */
export function hasFlag(text: string, flag: string): boolean {
  return ` ${text} `.includes(` ${flag} `);
}

/*
 * Sync tokens of the embedded store, opaque to clients.
 *
 * A finished sync gives the mailbox's HIGHESTMODSEQ in decimal. While a paged sync goes on, the token is a
 * cursor `base.snapshot.uid`: the client has all changes between the two MODSEQs up to that UID, or, if an `n`
 * follows, down to it.
 */

export type SyncToken =
  | { readonly kind: 'modseq'; readonly modseq: number }
  | {
      readonly kind: 'cursor';
      /** The MODSEQ that the client had when the sync began; 0 for nothing. */
      readonly base: number;
      /** The MODSEQ that it will have at the end. */
      readonly snapshot: number;
      /** The last UID that it got. */
      readonly uid: number;
      /** Whether pages go downwards. */
      readonly newest: boolean;
    };

const TOKEN = /^(0|[1-9]\d{0,19})(?:\.(0|[1-9]\d{0,19})\.(0|[1-9]\d{0,9})(n)?)?$/;

/**
 * Reads a token that a client sent. A number above all that exist is no error: such a token is from the future
 * and gets a reset.
 *
 * @throws Refusal `invalid_request` where it is malformed
 */
export function parseSyncToken(text: string): SyncToken {
  const match = TOKEN.exec(text);
  if (!match) throw invalidField('token', 'must be a token that a sync of this mailbox returned');
  const [, base, snapshot, uid, downwards] = match;
  if (snapshot === undefined) return { kind: 'modseq', modseq: Number(base) };
  return {
    kind: 'cursor',
    base: Number(base),
    snapshot: Number(snapshot),
    uid: Number(uid),
    newest: downwards !== undefined,
  };
}

/**
 * Reads the token of a request, if it has one.
 *
 * @throws Refusal `invalid_request` where it is malformed, or comes without a UIDVALIDITY
 */
export function readToken<Token>(
  { token, uidvalidity }: Pick<SyncRequest, 'token' | 'uidvalidity'>,
  parse: (text: string) => Token,
): Token | undefined {
  if (token === undefined) return undefined;
  const read = parse(token);
  if (uidvalidity === undefined) {
    throw invalidField('uidvalidity', 'is required together with token');
  }
  return read;
}

export function formatCursor(
  { base, snapshot, newest }: { base: number; snapshot: number; newest: boolean },
  uid: number,
): string {
  return `${base}.${snapshot}.${uid}${newest ? 'n' : ''}`;
}
