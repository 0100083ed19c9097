/**
 * Content transfer encodings (RFC 2045 section 6): removed from a stream, and counted.
 */
import { Buffer } from 'node:buffer';
import { Base64Decoder, Base64Meter } from './base64.ts';
import { asBuffer } from './line-ends.ts';
import { MAX_HELD, QuotedPrintableDecoder } from './quoted-printable.ts';

/** Removes one transfer encoding; takes chunks of any size and keeps next to nothing of them. */
export interface TransferDecoder {
  /** @returns what can be said of the content so far; may be empty, may share the chunk's memory */
  write(chunk: Buffer): Buffer;
  /** @returns what is left when the encoded body ends */
  end(): Buffer;
}

/** Counts the octets that a decoder would give for the same bytes. */
export interface TransferMeter {
  add(bytes: Buffer, start: number, end: number): void;
  end(): number;
}

class IdentityDecoder implements TransferDecoder {
  write(chunk: Buffer): Buffer {
    return chunk;
  }

  end(): Buffer {
    return Buffer.alloc(0);
  }
}

/** Bytes that are counted in one go: with the buffer for them small enough for Node's pool. */
const METER_SLICE = 2 * 1024;

/** Counts by decoding into a buffer that is thrown away. */
class QuotedPrintableMeter implements TransferMeter {
  readonly #decoder = new QuotedPrintableDecoder();
  readonly #out = Buffer.allocUnsafe(METER_SLICE + MAX_HELD);
  #octets = 0;

  add(bytes: Buffer, start: number, end: number): void {
    for (let at = start; at < end; at += METER_SLICE) {
      const slice = bytes.subarray(at, Math.min(at + METER_SLICE, end));
      this.#octets += this.#decoder.write(slice, this.#out).length;
    }
  }

  end(): number {
    return this.#octets + this.#decoder.end().length;
  }
}

/** Decoder of an encoding (in lower case); one that is not known changes nothing. */
export function createDecoder(encoding: string): TransferDecoder {
  if (encoding === 'base64') return new Base64Decoder();
  if (encoding === 'quoted-printable') return new QuotedPrintableDecoder();
  return new IdentityDecoder();
}

/** Meter of an encoding, or undefined where decoding changes no size. */
export function createMeter(encoding: string): TransferMeter | undefined {
  if (encoding === 'base64') return new Base64Meter();
  if (encoding === 'quoted-printable') return new QuotedPrintableMeter();
  return undefined;
}

/** Whether decoding changes anything: else the content is passed through as it is. */
export function isEncoded(encoding: string): boolean {
  return encoding === 'base64' || encoding === 'quoted-printable';
}

/** Octets of the decoded content: from `start` up to and without `end`. */
export interface DecodedRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Removes the transfer encoding of a part, as a stream with flat memory.
 *
 * The whole of what it yields has the part's `decodedSize` octets. Bytes in front of the range are
 * decoded and dropped; the source is left (its iterator closed) as soon as the range is complete.
 *
 * @param encoding as in `MessagePart.encoding`; an unknown encoding is passed through unchanged
 * @param source the encoded body: `bodyStart` to `bodyEnd` of the raw message
 * @param range where only a piece of the content is wanted; whatever lies outside is left out
 */
export async function* decodePart(
  encoding: string,
  source: AsyncIterable<Uint8Array>,
  range: DecodedRange = { start: 0, end: Number.POSITIVE_INFINITY },
): AsyncGenerator<Buffer, void, undefined> {
  if (range.end <= range.start) return;
  const decoder = createDecoder(encoding);
  let position = 0;
  const clip = (piece: Buffer): Buffer => {
    const from = Math.max(range.start - position, 0);
    const to = Math.min(range.end - position, piece.length);
    position += piece.length;
    return piece.subarray(Math.min(from, piece.length), to);
  };
  for await (const chunk of source) {
    const piece = clip(decoder.write(asBuffer(chunk)));
    if (piece.length > 0) yield piece;
    if (position >= range.end) return;
  }
  const rest = clip(decoder.end());
  if (rest.length > 0) yield rest;
}
