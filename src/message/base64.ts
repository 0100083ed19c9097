/**
 * Base64 transfer encoding (RFC 2045 section 6.8), removed leniently and counted exactly alike.
 *
 * Characters outside the alphabet are skipped, as the RFC asks. `=` ends a quantum wherever it
 * stands and decoding goes on after it: mailers that encode piece by piece leave padding in the
 * middle, and stopping there would lose the rest of an attachment. A quantum of one character
 * holds no octet. So a run of n characters between `=` gives floor(3n / 4) octets.
 */
import { Buffer } from 'node:buffer';

/**
 * What each byte is, chosen so that a sum over eight bytes tells what is among them: alphabet
 * characters count 1, white space 0, any other skipped byte 0x100, `=` 0x1000.
 */
const kinds = new Uint16Array(256).fill(0x100);
const WHITE_SPACE = 0;
const OTHER = 0x100;
const PADDING = 0x1000;

/** Value of each character of the alphabet. */
const values = new Uint8Array(256);

for (const [value, character] of [
  ...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/',
].entries()) {
  kinds[character.charCodeAt(0)] = 1;
  values[character.charCodeAt(0)] = value;
}
for (const space of ' \t\r\n') kinds[space.charCodeAt(0)] = WHITE_SPACE;
kinds['='.charCodeAt(0)] = PADDING;

function kindOf(byte: number | undefined): number {
  return byte === undefined ? WHITE_SPACE : (kinds[byte] ?? OTHER);
}

/** Sum of the kinds of eight bytes. Written out, since a loop takes three times as long. */
function sumOfEight(bytes: Uint8Array, at: number): number {
  return (
    kindOf(bytes[at]) +
    kindOf(bytes[at + 1]) +
    kindOf(bytes[at + 2]) +
    kindOf(bytes[at + 3]) +
    kindOf(bytes[at + 4]) +
    kindOf(bytes[at + 5]) +
    kindOf(bytes[at + 6]) +
    kindOf(bytes[at + 7])
  );
}

/** Number of alphabet characters, or -1 where there is anything beside them and white space. */
function countClean(bytes: Buffer, start: number, end: number): number {
  let characters = 0;
  let at = start;
  for (; at + 8 <= end; at += 8) {
    const sum = sumOfEight(bytes, at);
    if (sum >= OTHER) return -1;
    characters += sum;
  }
  for (; at < end; at++) {
    const kind = kindOf(bytes[at]);
    if (kind >= OTHER) return -1;
    characters += kind;
  }
  return characters;
}

const LF = 0x0a;
const CR = 0x0d;
const MINUS = 0x2d;
const EQUALS = 0x3d;
const UNDERSCORE = 0x5f;

/**
 * Number of alphabet characters if the bytes are lines of one length that end in CRLF, as nearly all
 * base64 is, and hold nothing but the alphabet; -1 where that cannot be. Looks at the line ends alone
 * and for what Node's decoder would take beside the alphabet: whether other bytes are the alphabet's
 * shows when they are decoded, since it gives fewer octets then.
 */
function countRegular(bytes: Buffer, start: number, end: number): number {
  const slice = bytes.subarray(start, end);
  if (slice.includes(MINUS) || slice.includes(UNDERSCORE)) return -1;
  // The last line may be shorter than the others, and a slice may end between CR and LF.
  let { length } = slice;
  if (slice[length - 1] === LF) length--;
  if (slice[length - 1] === CR) length--;
  const first = slice.indexOf(LF);
  if (first === -1 || first >= length) return length;
  const second = slice.indexOf(LF, first + 1);
  const width = second === -1 ? length : second - first;
  let lineEnds = 0;
  for (let at = first; at < length; at += width) {
    if (slice[at] !== LF || (at > 0 && slice[at - 1] !== CR)) return -1;
    lineEnds += at > 0 ? 2 : 1;
  }
  return length - lineEnds;
}

/** How many bytes are looked at in one go: small enough to stay in the processor's cache. */
const SLICE = 16 * 1024;

/** Bytes from which on it takes a meter less time to decode them than to look at each. */
const WORTH_DECODING = 1024;

/** Where a meter decodes to, to see whether what it counted is base64. Nobody reads it. */
const scratch = Buffer.allocUnsafe((SLICE * 3) / 4);

/**
 * Whether there are so many characters of the alphabet, of which {@link countRegular} has said that there
 * can be no more.
 */
function holds(bytes: Buffer, start: number, end: number, count: number): boolean {
  // A last quantum of one character gives no octet that would tell of it.
  const single = count % 4 === 1 ? 1 : 0;
  if (single === 1 && kindOf(bytes[end - 1]) !== 1) return false;
  const octets = scratch.write(bytes.toString('latin1', start, end - single), 'base64');
  return octets === Math.floor(((count - single) * 3) / 4);
}

/** Counts the octets that decoding would give. */
export class Base64Meter {
  /** Octets of the runs that `=` has ended. */
  #octets = 0;
  /** Alphabet characters since the last `=`. */
  #run = 0;
  /** Whether all lines so far were as {@link countRegular} wants them, so that asking it again may pay. */
  #isRegular = true;

  add(bytes: Buffer, start: number, end: number): void {
    for (let at = start; at < end; at += SLICE) {
      const stop = Math.min(at + SLICE, end);
      const mayBeRegular = this.#isRegular && stop - at >= WORTH_DECODING;
      this.#addSlowly(bytes, mayBeRegular ? this.#addRegular(bytes, at, stop) : at, stop);
    }
  }

  /**
   * Counts a slice up to its first `=`, if it is regular so far.
   *
   * @returns where to go on from
   */
  #addRegular(bytes: Buffer, start: number, end: number): number {
    const padding = bytes.subarray(start, end).indexOf(EQUALS);
    const stop = padding < 0 ? end : start + padding;
    const count = countRegular(bytes, start, stop);
    this.#isRegular = count >= 0 && holds(bytes, start, stop, count);
    if (!this.#isRegular) return start;
    this.#run += count;
    return stop;
  }

  #addSlowly(bytes: Buffer, start: number, end: number): void {
    let run = this.#run;
    let at = start;
    while (at < end) {
      const sum = at + 8 <= end ? sumOfEight(bytes, at) : PADDING;
      if (sum < PADDING) {
        run += sum & 0xff;
        at += 8;
        continue;
      }
      const stop = Math.min(at + 8, end);
      for (; at < stop; at++) {
        const kind = kindOf(bytes[at]);
        if (kind === 1) {
          run++;
        } else if (kind === PADDING) {
          this.#octets += Math.floor((run * 3) / 4);
          run = 0;
        }
      }
    }
    this.#run = run;
  }

  end(): number {
    return this.#octets + Math.floor((this.#run * 3) / 4);
  }
}

/** Removes base64 from a stream of chunks. Each answer is a buffer of its own. */
export class Base64Decoder {
  /** Bits of the quantum under way, and how many characters they came from (0 to 3). */
  #bits = 0;
  #characters = 0;
  #out = Buffer.alloc(0);
  #length = 0;

  write(chunk: Buffer): Buffer {
    this.#out = Buffer.allocUnsafe(Math.ceil((chunk.length * 3) / 4) + 3);
    this.#length = 0;
    for (let at = 0; at < chunk.length; at += SLICE) {
      this.#decodeSlice(chunk, at, Math.min(at + SLICE, chunk.length));
    }
    return this.#out.subarray(0, this.#length);
  }

  end(): Buffer {
    this.#out = Buffer.allocUnsafe(3);
    this.#length = 0;
    this.#endQuantum();
    return this.#out.subarray(0, this.#length);
  }

  /**
   * Whole quanta of a slice that holds nothing but alphabet and white space go to Node's decoder,
   * which agrees with ours on those alone: elsewhere it stops at padding and takes `-` and `_`.
   */
  #decodeSlice(bytes: Buffer, start: number, end: number): void {
    const [bits, characters, length] = [this.#bits, this.#characters, this.#length];
    const regular = countRegular(bytes, start, end);
    if (regular >= 0 && this.#decodeClean(bytes, start, end, regular)) return;
    this.#bits = bits;
    this.#characters = characters;
    this.#length = length;
    const clean = countClean(bytes, start, end);
    if (clean < 0) this.#decodeSlowly(bytes, start, end);
    else this.#decodeClean(bytes, start, end, clean);
  }

  /** @returns whether there were so many characters of the alphabet as was said */
  #decodeClean(bytes: Buffer, start: number, end: number, count: number): boolean {
    let characters = count;
    let from = start;
    while (this.#characters > 0 && from < end) {
      characters -= kindOf(bytes[from]) === 1 ? 1 : 0;
      this.#decodeSlowly(bytes, from, from + 1);
      from++;
    }
    let to = end;
    for (let rest = characters % 4; rest > 0 && to > from; ) {
      rest -= kindOf(bytes[--to]) === 1 ? 1 : 0;
    }
    let written = 0;
    if (to > from) {
      const text = bytes.toString('latin1', from, to);
      written = this.#out.write(text, this.#length, 'base64');
      this.#length += written;
    }
    this.#decodeSlowly(bytes, to, end);
    return written === Math.floor(Math.max(characters, 0) / 4) * 3;
  }

  #decodeSlowly(bytes: Buffer, start: number, end: number): void {
    for (let at = start; at < end; at++) {
      const byte = bytes[at] ?? 0;
      const kind = kinds[byte];
      if (kind === 1) {
        this.#bits = (this.#bits << 6) | (values[byte] ?? 0);
        if (++this.#characters === 4) this.#endQuantum();
      } else if (kind === PADDING) {
        this.#endQuantum();
      }
    }
  }

  /** Writes the octets that the quantum under way holds in full: none, 1, 2 or 3. */
  #endQuantum(): void {
    const octets = Math.floor((this.#characters * 3) / 4);
    const bits = this.#bits << (6 * (4 - this.#characters));
    for (let octet = 0; octet < octets; octet++) {
      this.#out[this.#length++] = (bits >> (16 - 8 * octet)) & 0xff;
    }
    this.#bits = 0;
    this.#characters = 0;
  }
}
