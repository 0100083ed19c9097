/**
 * Addresses: single ones in SMTP and the API (RFC 5321 section 4.1.2), the host names in them, and the address
 * lists of header fields (RFC 5322 section 3.4), with the obsolete forms of section 4.4 and the UTF-8 of RFC
 * 6532. Display, webhooks and policy all use this one reader.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { isIP } from 'node:net';
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

/** The most mailboxes that are read of one field; a field with more is not exact. */
export const MAX_MAILBOXES = 1_000;
/** Octets of a field that are read: no honest list of so many mailboxes is longer. */
const MAX_OCTETS = 128 * 1024;

export interface Token {
  readonly kind: 'word' | 'quoted' | 'literal' | 'special' | 'stray' | 'comment';
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

/**
 * Passes every token to `take`, in linear time.
 *
 * @param take returns false to stop
 */
export function tokenize(
  text: string,
  take: (token: Token) => boolean,
  onControl: () => void,
): void {
  let isApart = false;
  // One comment without an end stops the search for comments: else each would be read to the end of the text.
  let hasComments = true;
  for (let at = 0; at < text.length; ) {
    const end = hasComments && text[at] === '(' ? commentEnd(text, at) : undefined;
    if (end !== undefined) {
      const comment = text.slice(at + 1, end - 1);
      if (CONTROL.test(comment)) onControl();
      if (!take({ kind: 'comment', text: comment, isApart })) return;
      isApart = true;
      at = end;
      continue;
    }
    if (text[at] === '(') hasComments = false;
    TOKEN.lastIndex = at;
    const groups = TOKEN.exec(text);
    const kind = TOKEN_KINDS.find((_, index) => groups?.[index + 2] !== undefined);
    if (groups?.[1] !== undefined) onControl();
    if (kind && !take({ kind, text: groups?.[0] ?? '', isApart })) return;
    isApart = kind === undefined;
    at = TOKEN.lastIndex;
  }
}

/** The text of a row of tokens, with one space for each gap. */
export function textOf(tokens: readonly Token[]): string {
  return tokens
    .map(({ kind, text, isApart }, at) => {
      const shown = kind === 'quoted' ? text.slice(1, -1).replace(/\\(.)/gsu, '$1') : text;
      return isApart && at > 0 ? ` ${shown}` : shown;
    })
    .join('');
}

/** The tokens without the gaps between them, and as they are quoted. */
export function joined(tokens: readonly Token[]): string {
  return tokens.map(({ text }) => text).join('');
}

export function isSpecial(token: Token | undefined, text: string): boolean {
  return token?.kind === 'special' && token.text === text;
}

/** Whether two tokens in a row belong to one address: gaps are allowed around dots and the `@`. */
function areJoined(left: Token | undefined, right: Token | undefined): boolean {
  if (!left || !right) return false;
  const joins = (token: Token) => isSpecial(token, '.') || isSpecial(token, '@');
  return joins(left) || joins(right) || !right.isApart;
}

/** The tokens of a mailbox without its phrase: the route before its address, the address, and what is left. */
export function splitMailbox(given: readonly Token[]) {
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

/** Builds mailboxes from tokens; any text gives a result. */
class ListReader {
  readonly mailboxes: Mailbox[] = [];
  isExact = true;
  readonly #isUtf8: boolean;
  #phrase: Token[] = [];
  /** The tokens between angle brackets; undefined before the first. */
  #angle: Token[] | undefined;
  #isInAngle = false;
  #comments: string[] = [];
  #group: 'none' | 'open' | 'closed' = 'none';

  constructor(isUtf8: boolean) {
    this.#isUtf8 = isUtf8;
  }

  take(token: Token): void {
    if (token.kind === 'comment') this.#comments.push(token.text);
    else if (token.kind !== 'special' || !this.#takeSpecial(token.text)) {
      this.isExact &&= token.kind !== 'stray' && (this.#isInAngle || this.#angle === undefined);
      (this.#isInAngle ? (this.#angle ?? []) : this.#phrase).push(token);
    }
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
    this.#reset();
    this.#group = 'open';
  }

  end(): void {
    this.#endMailbox();
    this.isExact &&= this.#group !== 'open';
  }

  #endMailbox(): void {
    const phrase = this.#phrase;
    const angle = this.#angle;
    if (phrase.length > 0 || angle) {
      const isExact = angle
        ? !this.#isInAngle && isPhrase(phrase) && isExactAddress(angle, this.#isUtf8)
        : isExactAddress(phrase, this.#isUtf8);
      this.isExact &&= isExact && this.#group !== 'closed';
      this.#add(phrase, angle);
    } else if (this.#group === 'closed') this.#group = 'none';
    this.#reset();
  }

  #add(phrase: readonly Token[], angle: readonly Token[] | undefined): void {
    const { address, rest } = splitMailbox(angle ?? phrase);
    const words = angle ? [...phrase, ...rest] : rest;
    const name = words.length > 0 ? textOf(words) : this.#comments.join(' ');
    const mailbox = { name: cleanText(decodeWords(name)), address: cleanText(joined(address)) };
    if (mailbox.name === '' && mailbox.address === '') return;
    if (this.mailboxes.length < MAX_MAILBOXES) this.mailboxes.push(mailbox);
    else this.isExact = false;
  }

  #reset(): void {
    this.#phrase = [];
    this.#angle = undefined;
    this.#isInAngle = false;
    this.#comments = [];
  }
}

/**
 * Reads an address list. Encoded words are decoded in names only, and after the list is split: what
 * they hold is never syntax (RFC 2047 section 5).
 *
 * @param raw field value, one character per byte, folded or not
 */
export function readAddressList(raw: string): AddressList {
  const reader = new ListReader(isUtf8(Buffer.from(raw, 'latin1')));
  // Remaining line ends are not folds (RFC 5322 section 2.2.3).
  const unfolded = raw.slice(0, MAX_OCTETS).replace(/\r?\n(?=[ \t]|$)/g, '');
  reader.isExact = raw.length <= MAX_OCTETS;
  tokenize(
    decodeRawHeader(unfolded),
    (token) => {
      reader.take(token);
      if (reader.mailboxes.length < MAX_MAILBOXES) return true;
      reader.isExact = false;
      return false;
    },
    () => {
      reader.isExact = false;
    },
  );
  reader.end();
  return reader;
}

export interface Address {
  /** The local part without its quoting: `"john smith"@...` gives `john smith`. Case is kept. */
  readonly local: string;
  /** Lower case, IDNA-encoded. */
  readonly domain: string;
}

/** RFC 5321 section 4.5.3.1.1. */
const MAX_LOCAL = 64;
/** RFC 5321 section 4.5.3.1.3: a path has 256 octets, angle brackets included. */
const MAX_ADDRESS = 254;
/** RFC 1035 section 2.3.4, in presentation form; encoding by IDNA never makes a name shorter. */
const MAX_DOMAIN = 253;

/** Dot-string: atext joined by dots; RFC 6531 section 3.3 adds all that is not ASCII. */
const DOT_STRING =
  /^[\w!#$%&'*+/=?^`{|}~\u0080-\u{10ffff}-]+(?:\.[\w!#$%&'*+/=?^`{|}~\u0080-\u{10ffff}-]+)*$/u;

/** The content of a quoted-string: qtextSMTP and quoted pairs; never empty here. */
const QUOTED_CONTENT = /^(?:[ !#-[\]-~\u0080-\u{10ffff}]|\\[ -~])+$/u;

/** One label of a host name (RFC 1123 section 2.1), after IDNA. */
const LABEL = /^[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/;

function readLocal(text: string): string | undefined {
  if (!text.startsWith('"')) return DOT_STRING.test(text) ? text : undefined;
  const content = text.length > 2 && text.endsWith('"') ? text.slice(1, -1) : '';
  return QUOTED_CONTENT.test(content) ? content.replace(/\\(.)/gu, '$1') : undefined;
}

function readDomain(text: string): string | undefined {
  // The text is read as the host of a URL, where percent-encoding, a port or a path would have a meaning: so
  // ASCII is checked first.
  if (!/^[a-z\d.\u0080-\u{10ffff}-]+$/iu.test(text)) return undefined;
  const domain = domainToASCII(text);
  const labels = domain.split('.');
  if (domain.length > MAX_DOMAIN || !labels.every((label) => LABEL.test(label))) return undefined;
  // `127.1` is an IP address in a URL, and no top-level domain is a number (RFC 3696
  // section 2).
  return /^\d+$/.test(labels.at(-1) ?? '') ? undefined : domain;
}

/**
 * Reads an address: a dot-string or quoted-string, `@`, a domain name. Addresses with characters outside ASCII
 * (SMTPUTF8, RFC 6531) are accepted.
 *
 * @returns undefined for anything else: control characters, comments, display names, source
 *   routes, address literals (`user@[192.0.2.1]`), and addresses that are longer than RFC 5321 allows
 */
export function parseAddress(text: string): Address | undefined {
  if (text.length > MAX_ADDRESS || !text.isWellFormed() || /\p{Cc}/u.test(text)) return undefined;
  // A domain has no `@`, so the last one separates; a quoted local part may have others.
  const at = text.lastIndexOf('@');
  if (at < 0) return undefined;
  const local = readLocal(text.slice(0, at));
  const domain = readDomain(text.slice(at + 1));
  if (local === undefined || domain === undefined) return undefined;
  if (Buffer.byteLength(local) > MAX_LOCAL) return undefined;
  const encoded = Buffer.byteLength(text.slice(0, at + 1)) + domain.length;
  const octets = Math.max(Buffer.byteLength(text), encoded);
  return octets > MAX_ADDRESS ? undefined : { local, domain };
}

/**
 * The name to look up in DNS: lower case, IDNA-encoded, without dots at the end. Every name that is compared or
 * looked up is made by this function, so that both are always the same name.
 *
 * @param text from a message: hostile, of any length
 * @returns undefined where the text is not a name: an address, or characters that no name can have
 */
export function toDnsName(text: string): string | undefined {
  // The text is read as the host of a URL, where other characters of ASCII have a meaning.
  if (text.length > MAX_DOMAIN || /[^\w.\u0080-\u{10ffff}-]/u.test(text)) return undefined;
  // UTS 46 has four characters for a dot.
  const name = text.replace(/[.\u3002\uff0e\uff61]+$/, '');
  // An ASCII name that IDNA does not allow can still be looked up.
  const domain = (domainToASCII(name) || name.toLowerCase()).replace(/\.+$/, '');
  return /^[a-z\d._-]+$/.test(domain) && isIP(domain) === 0 ? domain : undefined;
}

/**
 * Writes an address for SMTP (RFC 5321 section 4.1.2): the local part is quoted where it is not a dot-string.
 * The counterpart of `parseAddress`.
 */
export function formatAddress(local: string, domain: string): string {
  const isDotString = parseAddress(`${local}@a.test`)?.local === local;
  return `${isDotString ? local : quote(local)}@${domain}`;
}

/** The one canonical spelling of an address; other text is not changed. */
export function canonicalAddress(text: string): string {
  const address = parseAddress(text);
  return address ? formatAddress(address.local, address.domain) : text;
}

function quote(local: string): string {
  return `"${local.replace(/["\\]/g, '\\$&')}"`;
}
