/**
 * The address lists of header fields (RFC 5322 section 3.4), with the obsolete forms of section 4.4 and the UTF-8 of
 * RFC 6532. Display, IMAP, webhooks and policy all use this one reader.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { domainToASCII } from 'node:url';
import { cleanText, decodeRawHeader, decodeWords } from './text.ts';

/** A mailbox of a header field. Either is `''` where the field does not give it. */
export interface Mailbox {
  readonly name: string;
  readonly address: string;
}

export interface AddressList {
  /** Groups are flattened: `undisclosed-recipients:;` gives none. */
  readonly mailboxes: readonly Mailbox[];
  /**
   * Whether the field follows the syntax, so that every reader sees these mailboxes in it. Otherwise they are
   * a guess.
   */
  readonly isExact: boolean;
}

/** The most mailboxes that are read of one field, or of all fields of one name; a field with more is not exact. */
export const MAX_MAILBOXES = 1_000;
/** Tokens that are read of one field: twice as many as so many mailboxes with long names have. */
const MAX_TOKENS = 30_000;
/** Octets of a field that are read: no honest list of so many mailboxes is longer. */
const MAX_OCTETS = 128 * 1024;

/**
 * What may still be read: a header has room for a hundred thousand mailboxes, and for as many fields. Empty ones count as
 * well, since they take as long.
 */
export interface Allowance {
  mailboxes: number;
}

interface Token {
  readonly kind: (typeof TOKEN_KINDS)[number];
  readonly text: string;
  /** Whether white space, a comment or a control character is before it. */
  readonly isApart: boolean;
}

/**
 * All tokens except comments, which nest. `stray` is not allowed outside of quotes. Groups have numbers, since an object
 * of their names takes longer to make than the match.
 */
const TOKEN = new RegExp(
  [
    '[ \\t]+',
    '([\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f]+)',
    '([^ ()<>@,;:\\\\".[\\]\\x00-\\x1f\\x7f-\\x9f]+)',
    '([<>@,;:.])',
    '("(?:[^"\\\\\\x00-\\x08\\x0a-\\x1f\\x7f]|\\\\[^\\x00-\\x1f\\x7f])*")',
    '(\\[[^[\\]\\\\\\x00-\\x1f\\x7f]*\\])',
    '(\\\\?.)',
  ].join('|'),
  'suy',
);
/** Of the groups from the second on: the first are control characters, and white space has none. */
const TOKEN_KINDS = ['word', 'special', 'quoted', 'literal', 'stray'] as const;

/** Characters that no header text may have (RFC 5322 section 2.2), and that every reader shows differently. */
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f-\x9f]/;

/** Index after the comment at `start` (RFC 5322 section 3.2.2); undefined where it does not end. */
export function commentEnd(text: string, start: number): number | undefined {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (character === '\\') at++;
    else if (character === '(') depth++;
    else if (character === ')' && --depth === 0) return at + 1;
  }
  return undefined;
}

function unquoted({ kind, text }: Token): string {
  return kind === 'quoted' ? text.slice(1, -1).replace(/\\(.)/gsu, '$1') : text;
}

/** The text of a row of tokens, with one space for each gap. */
function textOf(tokens: readonly Token[]): string {
  return tokens
    .map((token, at) => (token.isApart && at > 0 ? ` ${unquoted(token)}` : unquoted(token)))
    .join('');
}

/** The tokens without the gaps between them, as they are quoted. */
function joined(tokens: readonly Token[]): string {
  return tokens.map(({ text }) => text).join('');
}

function isSpecial(token: Token | undefined, text: string): boolean {
  return token?.kind === 'special' && token.text === text;
}

/** Whether two tokens in a row belong to one address: gaps are allowed around dots and the `@`. */
function areJoined(left: Token | undefined, right: Token | undefined): boolean {
  if (!left || !right) return false;
  const joins = (token: Token) => isSpecial(token, '.') || isSpecial(token, '@');
  return joins(left) || joins(right) || !right.isApart;
}

/** The tokens of a mailbox without its phrase: the route before its address, the address, and what is left. */
function splitMailbox(given: readonly Token[]) {
  // The route (RFC 5322 section 4.4) is not part of the address.
  const colon = isSpecial(given[0], '@') ? given.findIndex((one) => isSpecial(one, ':')) : -1;
  const tokens = given.slice(colon + 1);
  const at = tokens.findIndex((token) => isSpecial(token, '@'));
  let start = Math.max(at, 0);
  let end = at + 1;
  while (areJoined(tokens[start - 1], tokens[start])) start--;
  while (areJoined(tokens[end - 1], tokens[end])) end++;
  return {
    route: given.slice(0, Math.max(colon, 0)),
    address: tokens.slice(start, end),
    rest: [...tokens.slice(0, start), ...tokens.slice(end)],
  };
}

/** One letter for each token of `addr-spec` (RFC 5322 section 3.4.1, obsolete forms included). */
const ADDRESS_SHAPE = /^[wq](?:\.[wq])*@(?:w(?:\.w)*|l)$/;
/**
 * What a word of an address may not have, although the grammar allows it: encoded words (RFC 2047 section 5),
 * which some readers decode, and characters that look like an `@` or like nothing (RFC 6532 section 3).
 */
const DOUBTFUL_WORD = /=\?|[＠﹫\p{C}\p{Z}\u115f\u1160\u3164\uffa0]/u;
const HOST_WORD = /^[\p{L}\p{M}\p{N}_-]+$/u;

/** @param isUtf8 whether the field is UTF-8; no other bytes are allowed in an address */
function isExactAddress(tokens: readonly Token[], isUtf8: boolean): boolean {
  const shape = tokens.map(({ kind, text }) => (kind === 'special' ? text : kind[0])).join('');
  if (!ADDRESS_SHAPE.test(shape)) return false;
  if (tokens.some(({ kind, text }) => kind === 'word' && DOUBTFUL_WORD.test(text))) return false;
  const domain = tokens.slice(tokens.findIndex((token) => isSpecial(token, '@')) + 1);
  if (domain[0]?.kind === 'literal') return true;
  const words = domain.filter(({ kind }) => kind === 'word');
  if (words.every(({ text }) => /^[\w-]+$/.test(text))) return true;
  const isName = words.every(({ text }) => HOST_WORD.test(text));
  return isUtf8 && isName && domainToASCII(textOf(domain)) !== '';
}

function isPhrase([first, ...rest]: readonly Token[]): boolean {
  const isWord = ({ kind }: Token) => kind === 'word' || kind === 'quoted';
  if (!first) return true;
  return isWord(first) && rest.every((token) => isWord(token) || isSpecial(token, '.'));
}

/** What a list has, in its order. */
type ListEntry =
  | {
      readonly kind: 'mailbox';
      readonly mailbox: Mailbox;
      /** With encoded words as they are. */
      readonly name: string;
      readonly route: readonly Token[];
      readonly address: readonly Token[];
    }
  | { readonly kind: 'group'; readonly name: string }
  | { readonly kind: 'group end' };

/** Builds the entries of a list from tokens; any text gives a result. */
class ListReader {
  readonly entries: ListEntry[] = [];
  isExact = true;
  readonly #isUtf8: boolean;
  #phrase: Token[] = [];
  /** The tokens between angle brackets; undefined before the first. */
  #angle: Token[] | undefined;
  #isInAngle = false;
  #comments: string[] = [];
  #group: 'none' | 'open' | 'closed' = 'none';
  #tokens = 0;
  readonly #allowance: Allowance;

  constructor(isUtf8: boolean, allowance: Allowance) {
    this.#isUtf8 = isUtf8;
    this.#allowance = allowance;
  }

  get #isFull(): boolean {
    return this.#allowance.mailboxes <= 0 || this.#tokens >= MAX_TOKENS;
  }

  /** Reads a field to its end or to a limit, in linear time. */
  read(text: string): void {
    let isApart = false;
    // One comment without an end stops the search for comments: else each would be read to the end of the text.
    let hasComments = true;
    for (let at = 0; at < text.length && !this.#isFull; ) {
      const end = hasComments && text[at] === '(' ? commentEnd(text, at) : undefined;
      if (end !== undefined) {
        const comment = text.slice(at + 1, end - 1);
        this.isExact &&= !CONTROL.test(comment);
        this.#comments.push(comment);
        isApart = true;
        at = end;
        continue;
      }
      if (text[at] === '(') hasComments = false;
      TOKEN.lastIndex = at;
      const groups = TOKEN.exec(text);
      const kind = TOKEN_KINDS.find((_, index) => groups?.[index + 2] !== undefined);
      this.isExact &&= groups?.[1] === undefined;
      if (kind) this.#take({ kind, text: groups?.[0] ?? '', isApart });
      isApart = kind === undefined;
      at = TOKEN.lastIndex;
    }
    this.isExact &&= !this.#isFull;
    this.#endMailbox();
    this.isExact &&= this.#group !== 'open';
    this.#endGroup();
  }

  #take(token: Token): void {
    this.#tokens++;
    if (token.kind === 'special' && this.#takeSpecial(token.text)) return;
    this.isExact &&= token.kind !== 'stray' && (this.#isInAngle || this.#angle === undefined);
    (this.#isInAngle ? (this.#angle ?? []) : this.#phrase).push(token);
  }

  /** @returns whether it was a separator, and not part of a name or an address */
  #takeSpecial(text: string): boolean {
    // The commas and the colon of a source route (RFC 5322 section 4.4) do not end the mailbox.
    const isInRoute = this.#isInAngle && isSpecial(this.#angle?.[0], '@');
    if (text === '<') this.#openAngle();
    else if (text === '>') {
      this.isExact &&= this.#isInAngle;
      this.#isInAngle = false;
    } else if (text === ',' && !isInRoute) this.#endMailbox();
    else if (text === ';') {
      this.isExact &&= this.#group === 'open';
      this.#endMailbox();
      this.#endGroup();
      this.#group = 'closed';
    } else if (text === ':' && !this.#isInAngle) this.#beginGroup();
    else return false;
    return true;
  }

  #openAngle(): void {
    if (this.#angle) {
      this.isExact = false;
      this.#endMailbox();
    }
    this.#angle = [];
    this.#isInAngle = true;
  }

  #beginGroup(): void {
    const isName = this.#phrase.length > 0 && isPhrase(this.#phrase) && !this.#angle;
    this.isExact &&= isName && this.#group === 'none';
    this.#endGroup();
    this.#allowance.mailboxes--;
    this.entries.push({ kind: 'group', name: textOf(this.#phrase) });
    this.#reset();
    this.#group = 'open';
  }

  #endGroup(): void {
    if (this.#group === 'open') this.entries.push({ kind: 'group end' });
  }

  #endMailbox(): void {
    const phrase = this.#phrase;
    const angle = this.#angle;
    if (phrase.length > 0 || angle) {
      this.#allowance.mailboxes--;
      const isExact = angle
        ? !this.#isInAngle && isPhrase(phrase) && isExactAddress(angle, this.#isUtf8)
        : isExactAddress(phrase, this.#isUtf8);
      this.isExact &&= isExact && this.#group !== 'closed';
      this.#add(phrase, angle);
    } else if (this.#group === 'closed') this.#group = 'none';
    this.#reset();
  }

  #add(phrase: readonly Token[], angle: readonly Token[] | undefined): void {
    const { route, address, rest } = splitMailbox(angle ?? phrase);
    const words = angle ? [...phrase, ...rest] : rest;
    const name = words.length > 0 ? textOf(words) : this.#comments.join(' ');
    const mailbox = { name: cleanText(decodeWords(name)), address: cleanText(joined(address)) };
    if (mailbox.name === '' && mailbox.address === '') return;
    this.entries.push({ kind: 'mailbox', mailbox, name, route, address });
  }

  #reset(): void {
    this.#phrase = [];
    this.#angle = undefined;
    this.#isInAngle = false;
    this.#comments = [];
  }
}

/** Reads a list. @param raw field value, one character per byte, folded or not */
function readList(raw: string, allowance: Allowance): ListReader {
  const reader = new ListReader(isUtf8(Buffer.from(raw, 'latin1')), allowance);
  // Remaining line ends are not folds (RFC 5322 section 2.2.3).
  const unfolded = raw.slice(0, MAX_OCTETS).replace(/\r?\n(?=[ \t]|$)/g, '');
  reader.isExact = raw.length <= MAX_OCTETS;
  reader.read(decodeRawHeader(unfolded));
  return reader;
}

/**
 * Reads an address list. Encoded words are decoded in names only, and after the list is split: what
 * they hold is never syntax (RFC 2047 section 5).
 *
 * @param raw field value, one character per byte, folded or not
 * @param allowance what may be read, which gets less
 */
export function readAddressList(
  raw: string,
  allowance: Allowance = { mailboxes: MAX_MAILBOXES },
): AddressList {
  const { entries, isExact } = readList(raw, allowance);
  const mailboxes: Mailbox[] = [];
  for (const entry of entries) if (entry.kind === 'mailbox') mailboxes.push(entry.mailbox);
  return { mailboxes, isExact };
}

/** An entry as IMAP shows it (RFC 9051 section 7.5.2). Texts are `''` where the field does not give them. */
export type AddressEntry =
  | {
      readonly kind: 'mailbox';
      /** With encoded words as they are. */
      readonly name: string;
      /** `@a,@b` (RFC 5322 section 4.4). */
      readonly route: string;
      /** Without quotes. */
      readonly local: string;
      readonly domain: string;
    }
  | Exclude<ListEntry, { readonly kind: 'mailbox' }>;

/** Reads the same list as {@link readAddressList}, with its groups and routes. */
export function readAddressEntries(
  raw: string,
  allowance: Allowance = { mailboxes: MAX_MAILBOXES },
): AddressEntry[] {
  return readList(raw, allowance).entries.map((entry) => {
    if (entry.kind !== 'mailbox') return entry;
    const { kind, name, route, address } = entry;
    const at = Math.max(
      address.findIndex((token) => isSpecial(token, '@')),
      0,
    );
    const local = address.slice(0, at).map(unquoted).join('');
    return { kind, name, route: joined(route), local, domain: joined(address.slice(at + 1)) };
  });
}
