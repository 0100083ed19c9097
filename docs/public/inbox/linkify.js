/** Links in plain text: the visible text is exactly the target. */
import { element } from './elements.js';

/** A web address, or a mail address. Each part has a limit, so that no text is slow to search. */
const LINK =
  /\bhttps?:\/\/[^\s<>"\u0000-\u001f\u202a-\u202e\u2066-\u2069]{1,2000}|\b[\w.+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}\b/gi;
/** Punctuation at the end of a sentence is not part of a link. */
const AFTER = `.,;:!?'*_~|]}»”’`;

/**
 * @param {string} text
 * @returns {(Node | string)[]} the same text, with links
 */
export function linkify(text) {
  /** @type {(Node | string)[]} */
  const pieces = [];
  let done = 0;
  for (const { 0: found, index } of text.matchAll(LINK)) {
    const shown = trimEnd(found);
    const href = /^https?:/i.test(shown) ? webAddress(shown) : `mailto:${shown}`;
    if (href === undefined) continue;
    pieces.push(text.slice(done, index), link(shown, href));
    done = index + shown.length;
  }
  return [...pieces, text.slice(done)];
}

/** @param {string} found */
function trimEnd(found) {
  // "(see https://a.test/b)" ends before the bracket, "https://a.test/b_(c)" after it.
  let surplus = found.split(')').length - found.split('(').length;
  let end = found.length;
  for (; end > 0; end--) {
    const last = found.charAt(end - 1);
    if (last === ')' && surplus > 0) surplus--;
    else if (!AFTER.includes(last)) break;
  }
  return found.slice(0, end);
}

/** @param {string} shown @returns {string | undefined} undefined where it is none */
function webAddress(shown) {
  if (!URL.canParse(shown)) return undefined;
  const { protocol, username, href } = new URL(shown);
  // "https://bank.test@evil.test" leads to evil.test: it is not made a link.
  return /^https?:$/.test(protocol) && username === '' ? href : undefined;
}

/**
 * @param {string} shown
 * @param {string} href
 */
function link(shown, href) {
  return element('a', { href, target: '_blank', rel: 'noopener noreferrer nofollow' }, shown);
}
