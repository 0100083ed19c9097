/**
 * Searches on the server (RFC 3501 section 6.4.4), mailbox by mailbox in the order of the list, the newest UIDs first.
 * A server matches parts of words, so `inv*` and `inv` mean the same there.
 */

import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { invalidField } from '../../../platform/errors/errors.ts';
import { DAY_MS } from '../../../platform/time/time.ts';
import { imapDate } from '../../../protocols/imap-syntax/imap-syntax.ts';
import { type BodyStructure, hasAttachments } from '../../../protocols/message/message.ts';
import {
  mailboxNotFound,
  type SearchMatch,
  type SearchRequest,
  type SearchResult,
} from '../../mailstore/mailstore.ts';
import { readQuery } from '../../search/search.ts';
import type { Connection } from './connection.ts';
import { fetchFields, fetchPreviews } from './describe-messages.ts';
import { searchUids } from './fetch.ts';
import { listMailboxes } from './list-mailboxes.ts';
import { type Argument, atom, literal, searchKeyOf } from './wire.ts';

/** Messages whose fields are fetched in one command. */
const CHUNK = 100;

const FIELDS = ['envelope', 'flags', 'internalDate', 'bodyStructure', 'threadId'] as const;

/** Where a page ended: below this UID of the mailbox, as long as it has the same UIDVALIDITY. */
const position = Type.Object({
  mailbox: Type.String(),
  uidvalidity: Type.String(),
  below: Type.Integer(),
});
type Position = Static<typeof position>;
const positionFormat = Compile(position);

export async function searchMailboxes(
  connection: Connection,
  request: SearchRequest,
): Promise<SearchResult> {
  const position = request.cursor === undefined ? undefined : readCursor(request.cursor);
  const keys = searchKeys(request);
  const matches: SearchMatch[] = [];
  for (const mailbox of await mailboxesFrom(connection, request.mailbox, position)) {
    const selected = await connection.select(mailbox, 'EXAMINE');
    if (selected.exists === 0) continue;
    const isSame = position?.mailbox === mailbox && position.uidvalidity === selected.uidvalidity;
    const below = isSame ? position.below : Number.POSITIVE_INFINITY;
    const found = [...(await searchUids(connection, keys)).take()];
    const newest = found.filter((uid) => uid < below).sort((a, b) => b - a);
    for (let at = 0; at < newest.length; at += CHUNK) {
      const chunk = newest.slice(at, at + CHUNK);
      for (const match of await readMatches(connection, mailbox, chunk, request)) {
        matches.push(match);
        if (matches.length < request.limit) continue;
        const { uidvalidity } = selected;
        return { matches, cursor: writeCursor({ mailbox, uidvalidity, below: match.uid }) };
      }
    }
  }
  return { matches };
}

/** The remaining mailboxes, from the one in which the last page ended. */
async function mailboxesFrom(
  connection: Connection,
  name: string | undefined,
  position: Position | undefined,
): Promise<string[]> {
  if (name !== undefined) return [name];
  const names = (await listMailboxes(connection)).map(({ mailbox }) => mailbox);
  if (!position) return names;
  const at = names.indexOf(position.mailbox);
  if (at === -1) throw mailboxNotFound(position.mailbox);
  return names.slice(at);
}

function searchKeys(request: SearchRequest): Argument[] {
  const { texts, since, before, larger, smaller, flags = [], notFlags = [] } = request;
  // The same limits and refusals as with our own index.
  readQuery(texts);
  const keys: Argument[] = [atom('CHARSET'), atom('UTF-8'), atom('ALL')];
  const each = (text: string | undefined, ...key: Argument[]) => {
    for (const word of wordsOf(text)) keys.push(...key, word);
  };
  each(texts.text, atom('TEXT'));
  each(texts.from, atom('FROM'));
  each(texts.subject, atom('SUBJECT'));
  each(texts.body, atom('BODY'));
  for (const word of wordsOf(texts.to)) {
    keys.push(atom('OR'), atom('TO'), word, atom('OR'), atom('CC'), word, atom('BCC'), word);
  }
  // IMAP dates have no time and no zone: a day more is searched, and each message is checked.
  if (since !== undefined) keys.push(atom('SINCE'), atom(imapDate(Math.max(since - DAY_MS, 0))));
  if (before !== undefined)
    keys.push(atom('BEFORE'), atom(imapDate(Math.max(before + 2 * DAY_MS, 0))));
  if (larger !== undefined) keys.push(atom('LARGER'), atom(String(larger)));
  if (smaller !== undefined) keys.push(atom('SMALLER'), atom(String(smaller)));
  for (const flag of flags) keys.push(...flagKeys(flag));
  for (const flag of notFlags) keys.push(atom('NOT'), ...flagKeys(flag));
  return keys;
}

/** A literal may have any octet except NUL. */
function wordsOf(text: string | undefined): Argument[] {
  const words = (text ?? '').replaceAll('\0', ' ').split(/\s+/);
  return words
    .map((word) => word.replace(/\*+$/, ''))
    .filter((word) => word !== '')
    .map((word) => literal(Buffer.from(word.toWellFormed())));
}

function flagKeys(flag: string): Argument[] {
  const key = searchKeyOf(flag);
  if (key) return key;
  throw invalidField('flags', 'must be system flags (\\Seen ...) or keywords');
}

/** The entries of the answer for these messages, newest first. */
async function readMatches(
  connection: Connection,
  mailbox: string,
  uids: readonly number[],
  { since, before, hasAttachment }: SearchRequest,
): Promise<SearchMatch[]> {
  const rows = [...(await fetchFields(connection, uids, FIELDS)).values()];
  const found: Omit<SearchMatch, 'preview'>[] = [];
  const structures = new Map<number, BodyStructure>();
  for (const row of rows.sort((a, b) => b.uid - a.uid)) {
    const { uid, envelope, flags, internalDate, bodyStructure, threadId = '' } = row;
    if (!envelope || !flags || internalDate === undefined || !bodyStructure) continue;
    const arrived = Date.parse(internalDate);
    if (since !== undefined && arrived < since) continue;
    if (before !== undefined && arrived >= before) continue;
    if (hasAttachment !== undefined && hasAttachments(bodyStructure) !== hasAttachment) continue;
    structures.set(uid, bodyStructure);
    found.push({ mailbox, uid, envelope, flags, internalDate, threadId });
  }
  const previews = await fetchPreviews(connection, structures);
  return found.map((match) => ({ ...match, preview: previews.get(match.uid) ?? '' }));
}

function writeCursor(position: Position): string {
  return Buffer.from(JSON.stringify(position)).toString('base64url');
}

function readCursor(text: string): Position {
  try {
    const read: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    if (positionFormat.Check(read)) return read;
  } catch {
    // Reported below.
  }
  throw invalidField('cursor', 'must be a cursor of an earlier answer');
}
