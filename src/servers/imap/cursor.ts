/** Reads a command from left to right by the grammar of RFC 9051 section 9. */
import { Buffer } from 'node:buffer';
import { decodeMailboxName } from '../../protocols/imap-syntax/imap-syntax.ts';
import type { CommandParts } from './command-reader.ts';

/** The command is not what the grammar allows; it is answered BAD with this text. */
export class BadCommand extends Error {
  override readonly name = 'BadCommand';
}

/** `ATOM-CHAR`: no controls, space, or any of `(){%*"\]`. */
const ATOM = /[^\x00-\x20(){%*"\\\]\x7f-\xff]+/y;
/** `ASTRING-CHAR` has `]` too, and `&` of names is an atom character anyway. UTF-8 is read leniently. */
const ASTRING = /[^\x00-\x20(){%*"\\\x7f]+/y;
/** A pattern of LIST may have wildcards. */
const LIST_MAILBOX = /[^\x00-\x20(){"\\\x7f]+/y;
const NUMBER = /\d{1,20}/y;
const QUOTED = /"((?:[^\x00\r\n"\\]|\\["\\])*)"/y;
const SEQUENCE_SET = /[\d:*,$]+/y;

/**
 * Items of a list. No command needs as many; a line has room for half a million, and some of them are worked on for each
 * message or each mailbox.
 */
const ITEMS_MAX = 1_000;

export class Cursor {
  readonly #parts: CommandParts;
  readonly #isUtf8: boolean;
  /** Index of the text that is read. */
  #part = 0;
  #at = 0;

  constructor(parts: CommandParts, isUtf8 = false) {
    this.#parts = parts;
    this.#isUtf8 = isUtf8;
  }

  get #text(): string {
    const part = this.#parts[this.#part];
    return typeof part === 'string' ? part : '';
  }

  /** Octets of the command, with its literals. */
  get octets(): number {
    return this.#parts.reduce((sum, part) => sum + part.length, 0);
  }

  get isAtEnd(): boolean {
    return this.#part >= this.#parts.length - 1 && this.#at >= this.#text.length;
  }

  /** Whether the text goes on with this, in any case; then it is read. */
  has(text: string): boolean {
    const found = this.#text.slice(this.#at, this.#at + text.length);
    if (found.toUpperCase() !== text.toUpperCase()) return false;
    this.#at += text.length;
    return true;
  }

  /** Whether the text goes on with this; it is not read. */
  sees(text: string): boolean {
    return this.#text.startsWith(text, this.#at);
  }

  seesDigit(): boolean {
    return /[0-9]/.test(this.#text[this.#at] ?? '');
  }

  /** Goes back by so many characters of what was read. */
  back(characters: number): void {
    this.#at -= characters;
  }

  /** @throws BadCommand where the text goes on with something else */
  expect(text: string): void {
    if (!this.has(text)) throw new BadCommand(`Expected ${text === ' ' ? 'a space' : text}`);
  }

  /** What comes after a space. @throws BadCommand where there is none */
  space(): this {
    this.expect(' ');
    return this;
  }

  /** @throws BadCommand where there is more */
  end(): void {
    // Some clients leave a space at the end.
    this.has(' ');
    if (!this.isAtEnd) throw new BadCommand('Unexpected text at the end of the command');
  }

  atom(what: string): string {
    return this.#match(ATOM) ?? this.#fail(what);
  }

  /** A number of at most 63 bits (RFC 9051 section 9); one beyond 2^53, which no value of ours reaches, counts as that. */
  number(what: string): number {
    return Math.min(Number(this.#match(NUMBER) ?? this.#fail(what)), Number.MAX_SAFE_INTEGER);
  }

  /** An atom, a quoted string or a literal, as text of one character an octet. */
  astring(what: string): string {
    return this.#string() ?? this.#match(ASTRING) ?? this.#fail(what);
  }

  /** The name of a mailbox. */
  mailbox(): string {
    return this.#decode(this.astring('a mailbox'));
  }

  mailboxPattern(): string {
    const pattern = this.#string() ?? this.#match(LIST_MAILBOX) ?? this.#fail('a mailbox pattern');
    return this.#decode(pattern).normalize('NFC');
  }

  /** Names are in UTF-8 (RFC 9051 section 5.1), or in modified UTF-7. */
  #decode(octets: string): string {
    const text = readUtf8(octets);
    return this.#isUtf8 ? text : decodeMailboxName(text);
  }

  string(what: string): string {
    return this.#string() ?? this.#fail(what);
  }

  /** A set of numbers as it stands: `1:3,7:*`, or `$`. */
  sequenceSet(): string {
    return this.#match(SEQUENCE_SET) ?? this.#fail('a set of messages');
  }

  /** What `read` reads, once or more, in parentheses and apart by spaces; none of them where `mayBeEmpty`. */
  list<T>(read: () => T, mayBeEmpty = false): T[] {
    this.expect('(');
    if (mayBeEmpty && this.has(')')) return [];
    const items = [read(), ...this.others(read)];
    this.expect(')');
    return items;
  }

  /** The same without parentheses where it is one. */
  listOrOne<T>(read: () => T): T[] {
    return this.sees('(') ? this.list(read) : [read()];
  }

  /** What `read` reads, as long as there is a space before it. @throws BadCommand where there are too many */
  others<T>(read: () => T): T[] {
    const items: T[] = [];
    while (this.has(' ')) {
      if (items.length === ITEMS_MAX) throw new BadCommand(`A list has at most ${ITEMS_MAX} items`);
      items.push(read());
    }
    return items;
  }

  /** The rest of the line, whatever it is. */
  rest(): string {
    const rest = this.#text.slice(this.#at);
    this.#at = this.#text.length;
    return rest;
  }

  #string(): string | undefined {
    const literal = this.#parts[this.#part + 1];
    if (this.#at === this.#text.length && literal instanceof Buffer) {
      this.#part += 2;
      this.#at = 0;
      // RFC 9051 section 9: `CHAR8` is 1 to 255. The message of an APPEND is no string, and is read elsewhere.
      if (literal.includes(0)) throw new BadCommand('A string has no NUL');
      return literal.toString('latin1');
    }
    const quoted = this.#match(QUOTED);
    return quoted?.slice(1, -1).replace(/\\(["\\])/g, '$1');
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found) this.#at += found.length;
    return found === '' ? undefined : found;
  }

  #fail(what: string): never {
    throw new BadCommand(`Expected ${what}`);
  }
}

/** Text of one character an octet as UTF-8, where it is that; else as it stands. */
export function readUtf8(octets: string): string {
  if (!/[\x80-\xff]/.test(octets)) return octets;
  const text = Buffer.from(octets, 'latin1').toString();
  return text.includes('\ufffd') ? octets : text;
}
