/**
 * The hash of a message body in the relaxed canonicalization of DKIM (RFC 6376 section 3.4.4).
 *
 * Not mailauth's: it keeps the line under way and reads it anew with every chunk, which takes
 * minutes for a body that is one line of 50 MB.
 */
import { createHash } from 'node:crypto';

const SPACE = 0x20;
const TAB = 0x09;
const CR = 0x0d;
const LF = 0x0a;
/** Line ends that were held back are hashed in batches of this many. */
const BATCH = 512;
const LINE_ENDS = Buffer.from('\r\n'.repeat(BATCH));

/**
 * Where the text that begins at `start` first has something that may have to change: white space that
 * is not one space, an empty line. Nearly all of a body is copied by this, a block at a time.
 */
function endOfPlain(chunk: Buffer, start: number): number {
  const isText = (at: number) => (chunk[at] ?? 0) > SPACE;
  for (let at = start + 1; ; ) {
    if (isText(at)) at++;
    else if (chunk[at] === SPACE && isText(at + 1)) at += 2;
    else if (chunk[at] === CR && isText(at + 2)) at += 3;
    else return at;
  }
}

/** Takes a body whose lines all end in CRLF, in chunks of any size; keeps nothing of it. */
export class BodyHash {
  readonly #hash = createHash('sha256');
  /** Line ends after the last text: they count only if more text follows. */
  #lineEnds = 0;
  /** White space after the last text of the line: one space, if more text follows in the line. */
  #space = false;
  #isEmpty = true;

  update(chunk: Buffer): void {
    // Held line ends of this chunk take up the room of the bytes they were.
    const text = Buffer.allocUnsafe(chunk.length + 1);
    let length = 0;
    let heldBefore = this.#lineEnds;
    let held = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      if (byte === SPACE || byte === TAB) {
        this.#space = true;
      } else if (byte === LF) {
        this.#space = false;
        held++;
      } else if (byte !== CR) {
        if (heldBefore > 0) this.#hashLineEnds(heldBefore);
        heldBefore = 0;
        for (; held > 0; held--) {
          text[length++] = CR;
          text[length++] = LF;
        }
        if (this.#space) text[length++] = SPACE;
        this.#space = false;
        const end = endOfPlain(chunk, at);
        length += chunk.copy(text, length, at, end);
        at = end - 1;
      }
    }
    if (length > 0) this.#isEmpty = false;
    this.#hash.update(text.subarray(0, length));
    this.#lineEnds = heldBefore + held;
  }

  /** Base64, for the `bh=` tag. */
  digest(): string {
    // An empty body stays empty; any other ends in one CRLF.
    if (!this.#isEmpty) this.#hashLineEnds(1);
    return this.#hash.digest('base64');
  }

  #hashLineEnds(count: number): void {
    for (let left = count; left > 0; left -= BATCH) {
      this.#hash.update(LINE_ENDS.subarray(0, 2 * Math.min(left, BATCH)));
    }
  }
}
