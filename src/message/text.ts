/**
 * Bytes to text, for bodies, headers and parameters alike, so that one charset name means the
 * same everywhere in a message.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';

/** Longest WHATWG encoding label is 19 characters; a longer name is no charset. */
const MAX_LABEL = 40;

/** Decoders by label, bounded by the number of labels that the Encoding Standard knows. */
const decoders = new Map<string, TextDecoder>();

function decoderOf(charset: string): TextDecoder | undefined {
  if (charset.length > MAX_LABEL) return undefined;
  const label = charset.trim().toLowerCase();
  const known = decoders.get(label);
  if (known) return known;
  try {
    const decoder = new TextDecoder(label);
    decoders.set(label, decoder);
    return decoder;
  } catch {
    // A RangeError: nobody's charset, or one refused for good reason (UTF-7).
    return undefined;
  }
}

/** UTF-8 where the bytes are valid UTF-8, else windows-1252, in which every byte means something. */
function guessText(bytes: Uint8Array): string {
  const decoder = decoderOf(isUtf8(bytes) ? 'utf-8' : 'windows-1252');
  return decoder ? decoder.decode(bytes) : Buffer.from(bytes).toString('latin1');
}

/**
 * Decodes the bytes of a text part (transfer encoding removed) to a string. Never throws.
 *
 * Labels are those of the WHATWG Encoding Standard. An unknown charset, none, and us-ascii (the
 * default that senders forget to change, RFC 2045 section 5.2) are read as UTF-8 if that is
 * valid, else as windows-1252. Bytes that a known charset does not have become U+FFFD.
 */
export function decodeText(bytes: Uint8Array, charset?: string): string {
  if (charset === undefined || /^\s*(?:us-)?ascii\s*$/i.test(charset)) return guessText(bytes);
  const decoder = decoderOf(charset);
  return decoder ? decoder.decode(bytes) : guessText(bytes);
}

/**
 * Decodes header text that is held with one character per byte: raw UTF-8 headers (RFC 6532
 * section 3.2) are read as such, other 8-bit text as windows-1252.
 */
export function decodeRawHeader(raw: string): string {
  return /[\x80-\xff]/.test(raw) ? guessText(Buffer.from(raw, 'latin1')) : raw;
}

/**
 * Makes decoded header text one line that any reader can take: encoded words may have brought
 * control characters (C0, DEL, C1) into it, and halves of surrogate pairs.
 */
export function cleanText(text: string): string {
  return text
    .replace(/[\x00-\x1f\x7f-\x9f]+/g, ' ')
    .trim()
    .toWellFormed();
}
