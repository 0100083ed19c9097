/**
 * Line ends as SMTP wants them: every line of a message ends in CRLF, and neither CR nor LF stands
 * alone (RFC 5321 section 2.3.8).
 */

const CRLF = '\r\n';

/** Makes a bare CR or LF a line end, chunk by chunk; how the input is cut does not matter. */
export class LineEnds {
  /** A CR at the end of the last chunk, whose LF may follow. */
  #held = '';
  #atLineStart = true;

  write(input: Uint8Array): Buffer {
    const text = this.#held + asBuffer(input).toString('latin1');
    this.#held = text.endsWith('\r') ? '\r' : '';
    const whole = text.slice(0, text.length - this.#held.length).replace(/\r\n?|\n/g, CRLF);
    if (whole !== '') this.#atLineStart = whole.endsWith(CRLF);
    return Buffer.from(whole, 'latin1');
  }

  /** The line end that the message lacks, or nothing. */
  end(): Buffer {
    return Buffer.from(this.#held !== '' || !this.#atLineStart ? CRLF : '');
  }
}

/** The same bytes as a Buffer, not copied. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
