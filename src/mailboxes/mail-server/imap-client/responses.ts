/**
 * Reads what an IMAP server sends (RFC 9051 sections 7 and 9), from octets as they come. A server may be broken or
 * hostile, and so may the senders of the mail that it describes: what is too long fails, and of what is not well formed as
 * much is read as can be.
 */
import { ImapFailure } from './failure.ts';

/** An atom, a number or a quoted string; a literal; NIL; or a list. */
export type ImapItem = string | Buffer | null | readonly ImapItem[];

/** `[UIDNEXT 4]` (RFC 9051 section 7.1). */
export interface ResponseCode {
  /** In capitals. */
  readonly name: string;
  readonly values: readonly ImapItem[];
}

export interface ImapResponse {
  /** Of the command that it answers; `*` where it answers none, `+` where the server waits for the rest of a command. */
  readonly tag: string;
  /** Before the name: `* 7 EXISTS`. */
  readonly number: number | undefined;
  /** In capitals: `OK`, `FETCH`. */
  readonly name: string;
  /** What follows the name; nothing after OK, NO, BAD, BYE and PREAUTH. */
  readonly items: readonly ImapItem[];
  /** After OK, NO, BAD, BYE and PREAUTH. */
  readonly code: ResponseCode | undefined;
  /** For people, after the code. */
  readonly text: string;
}

/** Octets of a line: enough for the UIDs of a mailbox with a million messages. */
const LINE_MAX = 16 * 1024 * 1024;
/** Octets of a literal; sources are fetched in smaller pieces. */
const LITERAL_MAX = 8 * 1024 * 1024;
const RESPONSE_MAX = 4 * LITERAL_MAX;
/** Each takes more memory than its octets. */
const ITEMS_MAX = 2_000_000;
const LITERALS_MAX = 500_000;
/** Lists in lists; deeper ones are left out. */
const DEPTH_MAX = 500;

const [LF, CR] = [0x0a, 0x0d];
const [SPACE, QUOTE, OPEN, CLOSE, BACKSLASH] = [0x20, 0x22, 0x28, 0x29, 0x5c];

/** The end of a line that so many octets follow, and its longest form. */
const LITERAL = /\{(\d{1,10})\}$/;
const LITERAL_LONGEST = '{4294967295}'.length;
/** Lines with text for people: nothing follows them. */
const STATUS = /^(?:\* +(?:OK|NO|BAD|BYE|PREAUTH)\b|(?!\* ))/i;
const HEAD = /^(\S+)(?: +(\d{1,10})(?= ))?(?: +(\S+))? */;
/** The name of an item of FETCH with a section. Some servers return both numbers of a partial one. */
const SECTION = /(BODY)\[[^\]]{0,1000}\](?:<[\d.]+>)?/iy;
/** Where a literal stood; one of 8 bits begins with `~` (RFC 9051 section 4.3). */
const ANNOUNCED = /~?\{\d+\}\n/y;
/** A server that is broken sends NUL before a response. */
const PADDING = /^\0+/;

const NOTHING: Buffer = Buffer.alloc(0);

export class ResponseReader {
  /** Begins with the octets that are not read; may be longer. */
  #buffer = NOTHING;
  #size = 0;
  /** Where the next line of the response begins: after its first ones, and the literals that follow each of them. */
  #at = 0;
  #searched = 0;
  #lines: string[] = [];
  #literals: (readonly [start: number, end: number])[] = [];

  /** What came after the last response. */
  get rest(): Buffer {
    return this.#buffer.subarray(0, this.#size);
  }

  push(chunk: Buffer): void {
    const size = this.#size + chunk.length;
    if (this.#size === 0) this.#buffer = chunk;
    else {
      if (size > this.#buffer.length) {
        const larger = Buffer.allocUnsafe(size * 2);
        this.#buffer.copy(larger, 0, 0, this.#size);
        this.#buffer = larger;
      }
      chunk.copy(this.#buffer, this.#size);
    }
    this.#size = size;
  }

  /** @returns undefined until the rest of a response came @throws ImapFailure `garbled` */
  next(): ImapResponse | undefined {
    while (this.#size >= this.#at) {
      const held = this.rest;
      const end = held.indexOf(LF, Math.max(this.#at, this.#searched));
      if ((end < 0 ? held.length : end) - this.#at > LINE_MAX) throw garbled('a line without end');
      if (end < 0) {
        this.#searched = held.length;
        return undefined;
      }
      const text = held.toString('latin1', this.#at, held[end - 1] === CR ? end - 1 : end);
      const line = this.#lines.length === 0 ? text.replace(PADDING, '') : text;
      this.#lines.push(line);
      this.#at = end + 1;
      const isStatus = STATUS.test(this.#lines[0] ?? '');
      const octets = isStatus ? undefined : LITERAL.exec(line.slice(-LITERAL_LONGEST))?.[1];
      if (octets === undefined) {
        const response = this.#take(held);
        // Some servers send an empty line between two responses.
        if (line !== '' || response.tag !== '') return response;
        continue;
      }
      this.#literals.push([this.#at, this.#at + Number(octets)]);
      this.#at += Number(octets);
      if (Number(octets) > LITERAL_MAX) throw garbled(`a literal of ${octets} octets`);
      const isEndless = this.#at > RESPONSE_MAX || this.#literals.length > LITERALS_MAX;
      if (isEndless) throw garbled('a response without end');
    }
    return undefined;
  }

  #take(held: Buffer): ImapResponse {
    const literals = this.#literals.map(([start, end]) => Buffer.from(held.subarray(start, end)));
    const response = readResponse(this.#lines.join('\n'), literals);
    this.#size -= this.#at;
    this.#buffer = this.#size === 0 ? NOTHING : this.#buffer.subarray(this.#at);
    this.#at = 0;
    this.#searched = 0;
    this.#lines = [];
    this.#literals = [];
    return response;
  }
}

function garbled(said: string): ImapFailure {
  return new ImapFailure('garbled', { said });
}

/** @param text the lines of a response, between which its literals stood */
function readResponse(text: string, literals: readonly Buffer[]): ImapResponse {
  const [head = '', tag = '', number, given = ''] = HEAD.exec(text) ?? [];
  const name = given.toUpperCase();
  const response = { tag, number: number === undefined ? undefined : Number(number), name };
  const rest = text.slice(head.length);
  if (!STATUS.test(text)) {
    const items = readItems(rest, literals.values(), name === 'FETCH');
    return { ...response, items, code: undefined, text: '' };
  }
  const end = rest.startsWith('[') ? rest.indexOf(']') : -1;
  const [code, ...values] = readItems(rest.slice(1, Math.max(end, 0)), [].values(), false);
  return {
    ...response,
    items: [],
    code: typeof code === 'string' ? { name: code.toUpperCase(), values } : undefined,
    text: utf8(rest.slice(end + 1).trimStart()),
  };
}

/** The items up to the end, or to what cannot be one. */
function readItems(text: string, literals: Iterator<Buffer>, isFetch: boolean): ImapItem[] {
  const all: ImapItem[] = [];
  const lists = [all];
  let tooDeep = 0;
  let count = 0;
  for (let at = 0; at < text.length; ) {
    const list = tooDeep > 0 ? [] : lists.at(-1);
    if (!list) break;
    const first = text.charCodeAt(at);
    if (first === SPACE) {
      at++;
      continue;
    }
    const isItem = tooDeep === 0 && first !== CLOSE;
    if (isItem && ++count > ITEMS_MAX) throw garbled('a response of too many items');
    if (first === OPEN) {
      if (lists.length > DEPTH_MAX) tooDeep++;
      else {
        const inner: ImapItem[] = [];
        list.push(inner);
        lists.push(inner);
      }
      at++;
    } else if (first === CLOSE) {
      if (tooDeep > 0) tooDeep--;
      else lists.pop();
      at++;
    } else if (first === QUOTE) {
      const end = quoteEnd(text, at + 1);
      if (end < 0) break;
      list.push(utf8(text.slice(at + 1, end).replace(/\\([\s\S])/g, '$1')));
      at = end + 1;
    } else if (matchAt(ANNOUNCED, text, at)) {
      list.push(literals.next().value ?? null);
      at = ANNOUNCED.lastIndex;
    } else {
      // A keyword may look like a section, but keywords stand in a list of their own.
      const isName = isFetch && lists.length === 2 && list.length % 2 === 0;
      const section = isName ? matchAt(SECTION, text, at) : null;
      const end = section ? SECTION.lastIndex : atomEnd(text, at);
      const atom = section?.[1] ?? utf8(text.slice(at, end));
      list.push(/^nil$/i.test(atom) ? null : atom);
      at = end;
    }
  }
  return all;
}

/** @param pattern sticky */
function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Where a quoted string ends that begins here; -1 where it does not. */
function quoteEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at;
    if (code === BACKSLASH) at++;
  }
  return -1;
}

function atomEnd(text: string, from: number): number {
  const isFlag = text.charCodeAt(from) === BACKSLASH;
  for (let at = from + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === SPACE || code === OPEN || code === CLOSE) return at;
    // Some servers write `\Sent\HasNoChildren`.
    if (isFlag && code === BACKSLASH) return at;
  }
  return text.length;
}

/** Of one character an octet. */
function utf8(text: string): string {
  return /[\x80-\xff]/.test(text) ? Buffer.from(text, 'latin1').toString() : text;
}
