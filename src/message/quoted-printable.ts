/**
 * Quoted-printable transfer encoding (RFC 2045 section 6.7), removed leniently.
 *
 * - `=XX` is an octet, in either case of the digits; a `=` that starts neither an octet nor a
 *   soft line break stands for itself, as the RFC advises robust decoders.
 * - `=` at the end of a line, white space after it allowed, joins the line to the next.
 * - White space at the end of a line was added on the way and is dropped (rule 3).
 * - Line ends (LF, or CRLF) stay as they are in the source. A CR alone is no line end.
 */
import { Buffer } from 'node:buffer';

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const EQUALS = 0x3d;

/**
 * Most bytes that are held back until their line's end tells what they are. Lines are at most 76
 * characters (rule 5); a longer run of white space is taken for content.
 */
export const MAX_HELD = 1_000;

const ORDINARY = 0;
const BLANK = 1;
const SPECIAL = 2;
const kinds = new Uint8Array(256);
kinds[SPACE] = BLANK;
kinds[TAB] = BLANK;
kinds[EQUALS] = SPECIAL;

/** Value of a hexadecimal digit, or -1. */
export function hexValue(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** What the held bytes are so far. */
const State = {
  /** Nothing is held. */
  text: 0,
  /** White space. */
  blank: 1,
  /** White space, then CR. */
  blankCr: 2,
  /** `=`. */
  equals: 3,
  /** `=` and one hexadecimal digit. */
  digit: 4,
  /** `=`, then white space. */
  soft: 5,
  /** `=`, white space or none, then CR. */
  softCr: 6,
} as const;

type StateCode = (typeof State)[keyof typeof State];

/** Removes quoted-printable from a stream of chunks. */
export class QuotedPrintableDecoder {
  readonly #held = Buffer.allocUnsafe(MAX_HELD);
  #heldLength = 0;
  #state: StateCode = State.text;
  #out = Buffer.alloc(0);
  #length = 0;

  /** @param out where the octets go; needs room for the chunk and {@link MAX_HELD} bytes more */
  write(chunk: Buffer, out = Buffer.allocUnsafe(this.#heldLength + chunk.length)): Buffer {
    this.#out = out;
    this.#length = 0;
    let at = 0;
    while (at < chunk.length) {
      if (this.#state === State.text) {
        at = this.#copyText(chunk, at);
        if (at >= chunk.length) break;
        const end = this.#takeWhole(chunk, at);
        if (end > at) {
          at = end;
          continue;
        }
      }
      // A byte that ends the held sequence without being part of it is looked at again as text.
      if (this.#take(chunk[at] ?? 0)) at++;
    }
    return this.#out.subarray(0, this.#length);
  }

  end(): Buffer {
    this.#out = Buffer.allocUnsafe(this.#heldLength);
    this.#length = 0;
    // The end of the part ends its last line, whose CRLF belongs to the boundary after it. What
    // is not white space or a soft line break by then is content.
    const { blankCr, digit, softCr } = State;
    if (this.#state === digit || this.#state === blankCr || this.#state === softCr) this.#release();
    this.#drop();
    return this.#out.subarray(0, this.#length);
  }

  /** Copies bytes that stand for themselves; stops at the first that has to be held. */
  #copyText(chunk: Buffer, start: number): number {
    const out = this.#out;
    let length = this.#length;
    let at = start;
    for (; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      const kind = kinds[byte];
      if (kind !== ORDINARY) {
        if (kind === SPECIAL) break;
        const next = chunk[at + 1];
        // The usual blank has a word after it and need not be held.
        if (next === undefined || next === LF || next === CR || kinds[next] === BLANK) break;
      }
      out[length++] = byte;
    }
    this.#length = length;
    return at;
  }

  /**
   * Takes an octet or a soft line break that lies in the chunk as a whole, as nearly all do.
   *
   * @returns index behind it, or `at` where there is none
   */
  #takeWhole(chunk: Buffer, at: number): number {
    if (chunk[at] !== EQUALS) return at;
    const first = chunk[at + 1] ?? 0;
    const second = chunk[at + 2] ?? 0;
    const octet = (hexValue(first) << 4) | hexValue(second);
    if (octet >= 0) this.#out[this.#length++] = octet;
    else if (first !== CR || second !== LF) return at;
    return at + 3;
  }

  /** Takes one byte into the held sequence; false when the byte is not part of it. */
  #take(byte: number): boolean {
    const isBlank = byte === SPACE || byte === TAB;
    switch (this.#state) {
      case State.text:
        return this.#hold(byte, byte === EQUALS ? State.equals : State.blank);
      case State.blank:
        if (isBlank) return this.#hold(byte, State.blank);
        if (byte === CR) return this.#hold(byte, State.blankCr);
        return byte === LF ? this.#drop() : this.#release();
      case State.blankCr:
        if (byte !== LF) return this.#release();
        this.#out[this.#length++] = CR;
        return this.#drop();
      case State.equals:
        if (hexValue(byte) >= 0) return this.#hold(byte, State.digit);
        return this.#takeSoftBreak(byte, isBlank);
      case State.digit:
        return this.#takeOctet(byte);
      case State.soft:
        return this.#takeSoftBreak(byte, isBlank);
      case State.softCr:
        if (byte !== LF) return this.#release();
        this.#drop();
        return true;
    }
  }

  #takeSoftBreak(byte: number, isBlank: boolean): boolean {
    if (isBlank) return this.#hold(byte, State.soft);
    if (byte === CR) return this.#hold(byte, State.softCr);
    if (byte !== LF) return this.#release();
    this.#drop();
    return true;
  }

  #takeOctet(byte: number): boolean {
    const low = hexValue(byte);
    if (low < 0) return this.#release();
    this.#out[this.#length++] = (hexValue(this.#held[1] ?? 0) << 4) | low;
    this.#drop();
    return true;
  }

  #hold(byte: number, state: StateCode): true {
    let next = state;
    if (this.#heldLength === MAX_HELD) {
      // Only white space gets here; with its `=` released, it cannot be a soft line break.
      this.#release();
      if (state === State.soft) next = State.blank;
      else if (state === State.softCr) next = State.blankCr;
    }
    this.#held[this.#heldLength++] = byte;
    this.#state = next;
    return true;
  }

  /** The held bytes stand for themselves. */
  #release(): false {
    for (let at = 0; at < this.#heldLength; at++) {
      this.#out[this.#length++] = this.#held[at] ?? 0;
    }
    this.#drop();
    return false;
  }

  /** The held bytes stand for nothing. False: the byte at hand was not one of them. */
  #drop(): false {
    this.#heldLength = 0;
    this.#state = State.text;
    return false;
  }
}
