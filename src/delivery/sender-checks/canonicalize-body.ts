/** A body in the form that is hashed for DKIM (RFC 6376 section 3.4.3 and 3.4.4). */
import { Buffer } from 'node:buffer';

export type BodyCanon = 'simple' | 'relaxed';

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const CRLF = Buffer.from('\r\n');
const EMPTY_LINES = Buffer.from('\r\n'.repeat(8 * 1024));
/** Line ends in a row that are written one by one; more are handed out by the batch. */
const FEW_LINE_ENDS = 4;
/** What one byte can bring out: those line ends, a space, a CR and the byte itself. */
const MOST_FOR_A_BYTE = 2 * FEW_LINE_ENDS + 3;
const OUTPUT = 16 * 1024;
/** Octets in a row that are handed out where they lie; fewer are copied together. */
const LONG_RUN = 1024;

/**
 * Where text that is canonical as it stands ends. Not counted is what may be part of something
 * longer: the last CR or space of the chunk.
 */
function relaxedRunEnd(chunk: Buffer, start: number): number {
  let at = start;
  while (at < chunk.length) {
    const byte = chunk[at] ?? 0;
    if (byte > SPACE) at++;
    else if (byte === SPACE && (chunk[at + 1] ?? 0) > SPACE) at += 2;
    else if (byte === CR && chunk[at + 1] === LF) at += 2;
    else if (byte === SPACE || byte === TAB || byte === CR || byte === LF) break;
    else at++;
  }
  return at;
}

function simpleRunEnd(chunk: Buffer, start: number): number {
  let lf = chunk.indexOf(LF, start);
  while (lf > start && chunk[lf - 1] === CR) lf = chunk.indexOf(LF, lf + 1);
  if (lf >= 0) return lf;
  return chunk.at(-1) === CR ? chunk.length - 1 : chunk.length;
}

/**
 * Takes a body in chunks of any size and hands out its canonical form. Lines may end at LF alone,
 * which counts as CRLF; a CR alone is text.
 */
export class Canonicalizer {
  readonly #isRelaxed: boolean;
  readonly #hand: (bytes: Buffer) => void;
  readonly #output = Buffer.allocUnsafe(OUTPUT);
  #written = 0;
  /** Line ends that are handed out once text follows: those at the end of the body do not count. */
  #lineEnds = 0;
  #hasSpace = false;
  #hasCr = false;
  #isEmpty = true;

  /** @param hand gets the canonical bytes, valid during the call */
  constructor(canon: BodyCanon, hand: (bytes: Buffer) => void) {
    this.#isRelaxed = canon === 'relaxed';
    this.#hand = hand;
  }

  write(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#lineEnds === 0 && !this.#hasSpace && !this.#hasCr) {
        const end = this.#isRelaxed ? relaxedRunEnd(chunk, at) : simpleRunEnd(chunk, at);
        if (end > at) this.#takeRun(chunk, at, end);
        at = end;
        if (at === chunk.length) return;
      }
      this.#takeByte(chunk[at++] ?? 0);
    }
  }

  end(): void {
    // White space at the end of the last line is dropped, a CR alone is text.
    if (this.#hasCr) this.#release();
    this.#handOut();
    // RFC 6376 section 3.4.3: an empty body is one CRLF; section 3.4.4: it is nothing.
    if (!this.#isEmpty || !this.#isRelaxed) this.#hand(CRLF);
  }

  /** Takes text that is canonical; the line ends behind it are held back. */
  #takeRun(chunk: Buffer, start: number, end: number): void {
    let textEnd = end;
    while (textEnd - 2 >= start && chunk[textEnd - 1] === LF) textEnd -= 2;
    this.#lineEnds = (end - textEnd) / 2;
    const length = textEnd - start;
    if (length === 0) return;
    if (length >= LONG_RUN) {
      this.#handOut();
      this.#isEmpty = false;
      this.#hand(chunk.subarray(start, textEnd));
      return;
    }
    this.#makeRoom(length);
    this.#written += chunk.copy(this.#output, this.#written, start, textEnd);
  }

  #takeByte(byte: number): void {
    if (byte === LF) {
      this.#lineEnds++;
      this.#hasCr = false;
      this.#hasSpace = false;
      return;
    }
    const isBlank = this.#isRelaxed && (byte === SPACE || byte === TAB);
    // What was held back counts now that text follows, be it a CR that ended no line.
    if (this.#hasCr || !(isBlank || byte === CR)) this.#release();
    if (byte === CR) this.#hasCr = true;
    else if (isBlank) this.#hasSpace = true;
    else this.#output[this.#written++] = byte;
  }

  /** Writes what was held back, and leaves room for a byte. */
  #release(): void {
    if (this.#lineEnds > FEW_LINE_ENDS) {
      this.#handOut();
      for (let left = this.#lineEnds * 2; left > 0; left -= EMPTY_LINES.length) {
        this.#hand(EMPTY_LINES.subarray(0, left));
      }
      this.#lineEnds = 0;
      this.#isEmpty = false;
    }
    this.#makeRoom(MOST_FOR_A_BYTE);
    for (; this.#lineEnds > 0; this.#lineEnds--) {
      this.#output[this.#written++] = CR;
      this.#output[this.#written++] = LF;
    }
    if (this.#hasSpace) this.#output[this.#written++] = SPACE;
    if (this.#hasCr) this.#output[this.#written++] = CR;
    this.#hasSpace = false;
    this.#hasCr = false;
  }

  #makeRoom(length: number): void {
    if (this.#written + length > OUTPUT) this.#handOut();
  }

  #handOut(): void {
    if (this.#written === 0) return;
    this.#isEmpty = false;
    this.#hand(this.#output.subarray(0, this.#written));
    this.#written = 0;
  }
}
