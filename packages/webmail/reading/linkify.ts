/** Links in plain text: the visible text is exactly the target. */

/** A web address, or a mail address. Each part has a limit, so that no text is slow to search. */
const LINK =
  /\bhttps?:\/\/[^\s<>"\u0000-\u001f\u202a-\u202e\u2066-\u2069]{1,2000}|\b[\w.+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}\b/gi;
/** Punctuation at the end of a sentence is not part of a link. */
const AFTER = `.,;:!?'*_~|]}»”’`;

export interface TextPiece {
  readonly text: string;
  /** Where it leads; absent for text that is no link. */
  readonly href?: string;
}

/** Splits a text where links begin and end; the pieces together are the text. */
export function linkify(text: string): TextPiece[] {
  const pieces: TextPiece[] = [];
  let done = 0;
  for (const { 0: found, index } of text.matchAll(LINK)) {
    const shown = trimEnd(found);
    const href = /^https?:/i.test(shown) ? webAddress(shown) : `mailto:${shown}`;
    if (href === undefined) continue;
    if (index > done) pieces.push({ text: text.slice(done, index) });
    pieces.push({ text: shown, href });
    done = index + shown.length;
  }
  return done < text.length ? [...pieces, { text: text.slice(done) }] : pieces;
}

function trimEnd(found: string): string {
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

function webAddress(shown: string): string | undefined {
  if (!URL.canParse(shown)) return undefined;
  const { protocol, username, href } = new URL(shown);
  // "https://bank.test@evil.test" leads to evil.test: it is not made a link.
  return /^https?:$/.test(protocol) && username === '' ? href : undefined;
}
