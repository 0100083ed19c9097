/** Addresses as people type and paste them: `Bob <bob@a.test>, "Baker, Ann" <ann@b.test>; c@d.test`. */
import type { Address, Correspondent } from '../../sdk/src/api-types.ts';
import { straighten } from '../reading/stranger-text.ts';

/** One address up to the comma, semicolon or line end that is not within quotes. */
const ENTRY = /(?:"(?:[^"\\]|\\.)*"|[^",;\n])+/g;
/** How many addresses a paste may bring; a message has 100 recipients at most. */
const PASTED_MAX = 500;

/** Reads a list of addresses; what is none stays as an entry, so that it can be corrected. */
export function parseAddresses(text: string): Correspondent[] {
  const entries = (text.match(ENTRY) ?? []).map((entry) => entry.trim()).filter(Boolean);
  return entries.slice(0, PASTED_MAX).flatMap(parseEntry);
}

function parseEntry(entry: string): Correspondent[] {
  const named = /^(.*?)\s*<([^<>]*)>$/s.exec(entry);
  if (named) {
    const name = (named[1] ?? '').replace(/^["'](.*)["']$/s, '$1').replace(/\\(.)/g, '$1');
    const address = (named[2] ?? '').replace(/^mailto:/i, '').trim();
    return [{ ...(name !== '' && { name }), address }];
  }
  // A column of a table: addresses with blanks between them alone.
  const words = entry.split(/\s+/);
  return words.every((word) => isAddress(word))
    ? words.map((address) => ({ address }))
    : [{ address: entry.replace(/^mailto:/i, '') }];
}

/** Whether a text may be an address, as far as a page can tell. */
export function isAddress(text: string): boolean {
  return /^[^\s@<>(),;:"]+@[^\s@<>(),;:"]+$/.test(text) && text.length <= 254;
}

/** The addresses of a header field that can be answered, each once. */
export function toCorrespondents(addresses: readonly Address[] | undefined): Correspondent[] {
  const known = new Set<string>();
  return (addresses ?? []).flatMap(({ name = '', address = '' }) => {
    const key = address.toLowerCase();
    if (address === '' || known.has(key)) return [];
    known.add(key);
    const shown = straighten(name);
    return [{ ...(shown !== '' && shown !== address && { name: shown }), address }];
  });
}

/** Addresses as one text that `parseAddresses` reads again. */
export function writeAddresses(addresses: readonly Correspondent[]): string {
  return addresses
    .map(({ name, address }) => {
      if (!name) return address;
      // Quoted where a character has a meaning in a list (RFC 5322 section 3.2.3).
      const isPlain = !/[",;<>()[\]:@\\.]/.test(name);
      return `${isPlain ? name : `"${name.replace(/["\\]/g, '\\$&')}"`} <${address}>`;
    })
    .join(', ');
}
