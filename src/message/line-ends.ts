/**
 * Line ends as SMTP wants them: every line of a message ends in CRLF, and neither CR nor LF stands
 * alone (RFC 5321 section 2.3.8).
 */

const CR = 0x0d;
const LF = 0x0a;
const CRLF = Buffer.from('\r\n');

/** Makes a bare CR or LF in a body a line end, chunk by chunk; how the input is cut does not matter. */
export class LineEnds {
  /** A CR at the end of the last chunk, whose LF may follow. */
  #heldCr = false;
  #atLineStart = true;

  /** Chunks without a bare one are passed through, not copied. */
  write(input: Uint8Array): Buffer {
    const given = asBuffer(input);
    if (given.length === 0) return given;
    const chunk = this.#heldCr ? Buffer.concat([CRLF.subarray(0, 1), given]) : given;
    this.#heldCr = chunk.at(-1) === CR;
    const whole = this.#heldCr ? chunk.subarray(0, -1) : chunk;
    if (whole.length > 0) this.#atLineStart = whole.at(-1) === LF;
    return withLineEnds(whole, this.#heldCr);
  }

  /** The line end that the message lacks, or nothing. */
  end(): Buffer {
    return this.#heldCr || !this.#atLineStart ? CRLF : CRLF.subarray(0, 0);
  }
}

/** @param endsInCr whether a CR follows the chunk, which has been cut off */
function withLineEnds(chunk: Buffer, endsInCr: boolean): Buffer {
  if (!hasBareOne(chunk, endsInCr)) return chunk;
  // A byte becomes two at most.
  const written = Buffer.allocUnsafe(2 * chunk.length);
  let length = 0;
  for (let at = 0; at < chunk.length; at++) {
    const byte = chunk[at] ?? 0;
    if (byte !== CR && byte !== LF) {
      written[length++] = byte;
      continue;
    }
    written[length++] = CR;
    written[length++] = LF;
    if (byte === CR && chunk[at + 1] === LF) at++;
  }
  return written.subarray(0, length);
}

function hasBareOne(chunk: Buffer, endsInCr: boolean): boolean {
  let previous = 0;
  for (let at = 0; at < chunk.length; at++) {
    const byte = chunk[at] ?? 0;
    if ((byte === LF) !== (previous === CR)) return true;
    previous = byte;
  }
  // Two CRs at the end: the first stands alone, whatever follows the second.
  return endsInCr && previous === CR;
}

/** The same bytes as a Buffer, not copied. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
