/**
 * An address list as IMAP shows it (RFC 9051 section 7.5.2): with its groups and routes, and names as they were encoded.
 * Splits by the tokens of `addresses.ts`, so that an address is the same one everywhere.
 */
import {
  isSpecial,
  joined,
  MAX_MAILBOXES,
  splitMailbox,
  type Token,
  textOf,
  tokenize,
} from './addresses.ts';

/** Text of one character an octet; `''` where the field does not give it. */
export type AddressEntry =
  | {
      readonly kind: 'mailbox';
      readonly name: string;
      /** `@a,@b` of RFC 5322 section 4.4. */
      readonly route: string;
      readonly local: string;
      readonly domain: string;
    }
  | { readonly kind: 'group'; readonly name: string }
  | { readonly kind: 'group end' };

/** Reads the entries of a field. @param raw its value, one character per octet, folded or not */
export function readAddressEntries(raw: string): AddressEntry[] {
  const reader = new EntryReader();
  const unfolded = raw.replace(/\r?\n/g, '');
  tokenize(
    unfolded,
    (token) => reader.take(token),
    () => {},
  );
  return reader.end();
}

class EntryReader {
  readonly #entries: AddressEntry[] = [];
  #phrase: Token[] = [];
  #angle: Token[] | undefined;
  #isInAngle = false;
  #isInGroup = false;
  #comment = '';

  /** @returns whether more are read */
  take(token: Token): boolean {
    if (token.kind === 'comment') this.#comment ||= token.text;
    else if (isSpecial(token, '<') && !this.#angle) {
      this.#angle = [];
      this.#isInAngle = true;
    } else if (isSpecial(token, '>')) this.#isInAngle = false;
    else if (this.#isInAngle) this.#angle?.push(token);
    else if (isSpecial(token, ',')) this.#endMailbox();
    else if (isSpecial(token, ':') && !this.#isInGroup) this.#beginGroup();
    else if (isSpecial(token, ';')) this.#endGroup();
    else this.#phrase.push(token);
    return this.#entries.length < MAX_MAILBOXES;
  }

  end(): AddressEntry[] {
    this.#endMailbox();
    if (this.#isInGroup) this.#entries.push({ kind: 'group end' });
    return this.#entries;
  }

  #beginGroup(): void {
    this.#entries.push({ kind: 'group', name: textOf(this.#phrase) });
    this.#isInGroup = true;
    this.#reset();
  }

  #endGroup(): void {
    this.#endMailbox();
    if (this.#isInGroup) this.#entries.push({ kind: 'group end' });
    this.#isInGroup = false;
  }

  #endMailbox(): void {
    const { route: hosts, address, rest } = splitMailbox(this.#angle ?? this.#phrase);
    const at = address.findIndex((token) => isSpecial(token, '@'));
    const words = this.#angle ? [...this.#phrase, ...rest] : rest;
    const name = words.length > 0 ? textOf(words) : this.#comment;
    const local = textOf(address.slice(0, Math.max(at, 0))).replaceAll(' ', '');
    const domain = joined(address.slice(at + 1));
    // A comment alone is no address.
    const hasWords = this.#phrase.length > 0 || this.#angle !== undefined;
    if (hasWords && (name !== '' || local !== '' || domain !== '')) {
      this.#entries.push({ kind: 'mailbox', name, route: joined(hosts), local, domain });
    }
    this.#reset();
  }

  #reset(): void {
    this.#phrase = [];
    this.#angle = undefined;
    this.#isInAngle = false;
    this.#comment = '';
  }
}
