/** Finds mail and people: the server first, what the copy has where there is no network. */
import type { Address, SearchMatch, SearchMessagesBody } from '../api-types.ts';
import { isAway } from '../errors.ts';
import type { SearchResult } from './client.ts';
import type { Copy } from './copy.ts';
import { hasFlags } from './fold.ts';
import { byDate, type MessageRow } from './rows.ts';
import type { MailServer } from './server.ts';

const LIMIT = 50;
/** Messages that are gone through for names of people. */
const RECENT = 2000;

export async function search(
  copy: Copy,
  server: MailServer,
  query: SearchMessagesBody,
  signal: AbortSignal | undefined,
): Promise<SearchResult> {
  const none = { cursor: undefined, indexing: false };
  try {
    const found = await server.call('POST /mail/search', { body: query, signal });
    const matches = found.matches.map((match) => ({ ...match, id: match.uid }));
    return { ...none, ...found, matches, offline: false };
  } catch (error) {
    if (!isAway(error) || signal?.aborted) throw error;
    return { ...none, matches: await searchCopy(copy, query), offline: true };
  }
}

async function searchCopy(copy: Copy, query: SearchMessagesBody): Promise<SearchResult['matches']> {
  const { limit = LIMIT, mailbox } = query;
  const rows: MessageRow[] = [];
  const matches = matcher(query);
  for (const box of copy.mailboxes) {
    if (box.gone || (mailbox !== undefined && box.name !== mailbox)) continue;
    for await (const row of copy.newest(box)) if (matches(row)) rows.push(row);
  }
  rows.sort((a, b) => b.date - a.date);
  return rows.slice(0, limit).map((row) => toMatch(row, copy.box(row.box)?.name ?? ''));
}

function toMatch(row: MessageRow, mailbox: string): SearchMatch & { id: number } {
  const { uid, envelope, flags, internalDate, preview, threadId = '' } = row;
  return { mailbox, id: uid, uid, envelope, flags: [...flags], internalDate, preview, threadId };
}

/** What is looked through of a message; of its text, as much as is known. */
type Searchable = Pick<
  MessageRow,
  'envelope' | 'flags' | 'size' | 'date' | 'preview' | 'hasAttachment'
>;

/** As the server does it for envelopes: all words, whole or with `*` their beginnings, without case and accents. */
export function matcher(query: SearchMessagesBody): (message: Searchable) => boolean {
  const { text, from, to, subject, body, hasAttachment } = query;
  // Nothing is above or below what is no number.
  const { since = '', before = '', larger = Number.NaN, smaller = Number.NaN } = query;
  const [sinceMs, beforeMs] = [Date.parse(since), Date.parse(before)];
  return ({ envelope, preview, size, date, ...row }) => {
    const people = (...lists: (readonly Address[] | undefined)[]) =>
      lists
        .flatMap((list = []) => list.map(({ name = '', address = '' }) => `${name} ${address}`))
        .join(' ');
    const senders = people(envelope.from);
    const receivers = people(envelope.to, envelope.cc, envelope.bcc);
    return (
      hasWords(from, senders) &&
      hasWords(to, receivers) &&
      hasWords(subject, envelope.subject) &&
      hasWords(body, preview) &&
      hasWords(text, `${senders} ${receivers} ${envelope.subject} ${preview}`) &&
      !(date < sinceMs) &&
      !(date >= beforeMs) &&
      !(size <= larger) &&
      !(size >= smaller) &&
      hasFlags(row.flags, query) &&
      (hasAttachment === undefined || row.hasAttachment === hasAttachment)
    );
  };
}

const plain = (text: string) => text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
export const wordsOf = (text: string): string[] => plain(text).match(/[\p{L}\p{N}]+\*?/gu) ?? [];

function hasWords(asked: string | undefined, text: string): boolean {
  if (asked === undefined) return true;
  const words = wordsOf(text);
  return wordsOf(asked).every((word) =>
    word.endsWith('*')
      ? words.some((one) => one.startsWith(word.slice(0, -1)))
      : words.includes(word),
  );
}

/** People to whom the account wrote, before those who wrote to it; those of late before those of once. */
export async function correspondents(
  copy: Copy,
  prefix: string,
  limit: number,
): Promise<Address[]> {
  const known = new Map<string, { person: Address; score: number }>();
  for (const box of copy.mailboxes) {
    const isSent = box.specialUse === '\\Sent';
    if (box.gone || !(isSent || box.name === 'INBOX')) continue;
    const query = { ...byDate(box), reverse: true, limit: RECENT };
    const rows = (await copy.store.range(query)) as MessageRow[];
    for (const [age, { envelope }] of rows.entries()) {
      const people = isSent ? [envelope.to, envelope.cc, envelope.bcc] : [envelope.from];
      const score = (isSent ? 10 : 1) / (1 + age / 100);
      for (const person of people.flatMap((list = []) => list)) {
        const key = person.address?.toLowerCase();
        if (!key) continue;
        const before = known.get(key);
        // The newest name that there is.
        const named = before && (before.person.name || !person.name) ? before.person : person;
        known.set(key, { person: named, score: score + (before?.score ?? 0) });
      }
    }
  }
  known.delete(copy.address);
  const beginning = plain(prefix.trim());
  const fits = ({ name = '', address = '' }: Address) =>
    plain(address).startsWith(beginning) ||
    plain(name).startsWith(beginning) ||
    wordsOf(name).some((word) => word.startsWith(beginning));
  const found = [...known.values()].filter(({ person }) => fits(person));
  return found
    .sort((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ person }) => person);
}
