/** The mailboxes that every account of the embedded store has, and how names are compared. */
import { invalidField } from '../errors/errors.ts';

/** RFC 6154 section 2; the first is where mail arrives. */
export const defaultMailboxes = [
  { name: 'INBOX', specialUse: null },
  { name: 'Sent', specialUse: '\\Sent' },
  { name: 'Drafts', specialUse: '\\Drafts' },
  { name: 'Junk', specialUse: '\\Junk' },
  { name: 'Trash', specialUse: '\\Trash' },
  { name: 'Archive', specialUse: '\\Archive' },
] as const;

/** Stands between a mailbox and one below it. */
export const SEPARATOR = '/';

/** Characters of a name, and levels. */
const NAME_MAX = 255;
const DEPTH_MAX = 10;

/** Control characters, line separators, and what IMAP reads as wildcards (RFC 3501 section 6.3.8). */
const FORBIDDEN = /[\p{Cc}\u2028\u2029%*\\]/u;

/**
 * Reads the name of a mailbox that is to be made.
 *
 * @param field of the request that has it
 * @returns the name in the form in which it is kept: NFC, a first level of `inbox` in capitals
 * @throws Refusal `invalid_request`
 */
export function readNewName(field: string, name: string): string {
  if (name.length === 0 || name.length > NAME_MAX) {
    throw invalidField(field, `must have 1 to ${NAME_MAX} characters`);
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
  const [first = '', ...below] = levels;
  return [canonicalMailboxName(first), ...below].join(SEPARATOR);
}

/** INBOX is INBOX in any case (RFC 3501 section 5.1); other names are taken to the letter. */
export function canonicalMailboxName(name: string): string {
  return name.length === 5 && name.toUpperCase() === 'INBOX' ? 'INBOX' : name;
}
