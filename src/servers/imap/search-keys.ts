/** What the keys of a search ask for, before any message is read. */
import type { ImapColumn } from '../../mailboxes/mailstore/mailstore.ts';
import { isKeptName } from './header-fields.ts';
import type { SearchKey } from './parse-search.ts';

/** Whether a key of a kind is in it. */
export function names(key: SearchKey, kind: SearchKey['kind']): boolean {
  return hasKey(key, (one) => one.kind === kind);
}

export function hasKey(key: SearchKey, is: (key: SearchKey) => boolean): boolean {
  if (key.kind === 'not') return hasKey(key.key, is);
  return key.kind === 'and' || key.kind === 'or'
    ? key.keys.some((one) => hasKey(one, is))
    : is(key);
}

/** Whether a key looks at fields of the header that are kept. */
export function usesKept(key: SearchKey): boolean {
  return key.kind === 'sent' || (key.kind === 'header' && isKeptName(key.name));
}

/** Whether the parts of all messages that come into question are looked at. */
export function readsSources(key: SearchKey): boolean {
  return key.kind === 'text' || (key.kind === 'header' && !isKeptName(key.name));
}

/** Whether the key asks for nothing but flags, MODSEQs and sets. */
export function onlyFlags(key: SearchKey): boolean {
  return isMadeOf(key, ['all', 'recent', 'set', 'flag', 'modseq']);
}

/** What keys need of the row of a message; every other column costs as much as one that is needed. */
const NEEDED: Partial<Record<SearchKey['kind'], readonly ImapColumn[]>> = {
  flag: ['flags'],
  size: ['size'],
  arrived: ['internal_date'],
  saved: ['saved_at'],
  threadid: ['thread_id'],
  sent: ['internal_date'],
  envelope: ['kept_search'],
};

export function columnsOf(key: SearchKey): ImapColumn[] {
  const needed = Object.entries(NEEDED).flatMap(([kind, columns]) =>
    names(key, kind as SearchKey['kind']) ? columns : [],
  );
  const structure = hasKey(key, readsSources) ? (['structure'] as const) : [];
  return [...new Set<ImapColumn>(['modseq', 'body_id', ...needed, ...structure])];
}

export function isMadeOf(key: SearchKey, kinds: readonly SearchKey['kind'][]): boolean {
  return !hasKey(key, (one) => !kinds.includes(one.kind));
}

/**
 * A text that every message which matches has in what is kept of it for searches, as it stands there; `''` where the key
 * asks for none.
 */
export function neededText(key: SearchKey): string {
  if (key.kind === 'envelope') return JSON.stringify(key.text).slice(1, -1);
  return key.kind === 'and' ? (key.keys.map(neededText).find(Boolean) ?? '') : '';
}

/** The dearest key of it: those of rows, of headers, of texts. */
export function costOf(key: SearchKey): number {
  if (key.kind === 'text') return 3;
  if (key.kind === 'header' || key.kind === 'sent') return 2;
  if (key.kind === 'not') return costOf(key.key);
  return key.kind === 'and' || key.kind === 'or' ? Math.max(...key.keys.map(costOf)) : 1;
}
