/** Addresses as people write them in a field: `Bob <bob@a.test>, "Baker, Ann" <ann@b.test>; c@d.test`. */
import { straighten } from './message-parts.js';

/** @typedef {import('./sync-client.js').Address} Address */

/** One address up to the comma or semicolon that is not within quotes. */
const ENTRY = /(?:"(?:[^"\\]|\\.)*"|[^",;])+/g;

/**
 * @param {string} text
 * @returns {{ name?: string, address: string }[]}
 */
export function parseAddresses(text) {
  const entries = (text.match(ENTRY) ?? []).map((entry) => entry.trim());
  return entries.filter(Boolean).map((entry) => {
    const named = /^(.*?)\s*<([^<>]*)>$/s.exec(entry);
    if (!named) return { address: entry };
    const name = (named[1] ?? '').replace(/^"(.*)"$/s, '$1').replace(/\\(.)/g, '$1');
    return { ...(name !== '' && { name }), address: (named[2] ?? '').trim() };
  });
}

/**
 * What is no address, as far as a page can tell.
 *
 * @param {string} text
 */
export function findBadAddress(text) {
  return parseAddresses(text).find(({ address }) => !/^[^\s@<>]+@[^\s@<>]+$/.test(address))
    ?.address;
}

/** @param {Address[] | undefined} addresses */
export function writeAddresses(addresses = []) {
  return addresses
    .filter(({ address }) => address)
    .map(({ name = '', address }) => {
      const shown = straighten(name).replace(/\s+/g, ' ').trim();
      if (shown === '') return address;
      // Quoted where a character has a meaning in a list (RFC 5322 section 3.2.3).
      const isPlain = !/[",;<>()[\]:@\\.]/.test(shown);
      return `${isPlain ? shown : `"${shown.replace(/["\\]/g, '\\$&')}"`} <${address}>`;
    })
    .join(', ');
}
