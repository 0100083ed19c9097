/**
 * Encoded words in header text (RFC 2047).
 */
import { Buffer } from 'node:buffer';
import { hexValue } from './quoted-printable.ts';
import { decodeText } from './text.ts';

/**
 * `=?charset?B or Q?text?=`. Spaces in the text are forbidden (RFC 2047 section 2) but common.
 * No two quantifiers can match the same character, so the search is linear.
 */
const WORD = /=\?([^?\s]{1,60})\?([bq])\?([^?]*)\?=/gi;

/** 64 KB of header hold fewer words of the 75 characters that RFC 2047 section 2 allows. */
const MAX_WORDS = 1_000;

/** RFC 2047 section 4.2: `_` is a space, `=XX` a byte; anything else stands for itself. */
function decodeQ(text: string): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    let byte = bytes[at];
    if (byte === 0x5f) {
      byte = 0x20;
    } else if (byte === 0x3d) {
      const high = hexValue(bytes[at + 1] ?? 0);
      const low = hexValue(bytes[at + 2] ?? 0);
      if (high >= 0 && low >= 0) {
        byte = (high << 4) | low;
        at += 2;
      }
    }
    bytes[length++] = byte ?? 0;
  }
  return bytes.subarray(0, length);
}

/** Neighbouring words of one charset, joined as bytes: senders split characters between words. */
interface Run {
  readonly charset: string;
  readonly bytes: Buffer[];
}

function decodeRun(run: Run | undefined): string {
  return run ? decodeText(Buffer.concat(run.bytes), run.charset) : '';
}

/**
 * Replaces every encoded word of a header text by what it stands for. White space between two
 * encoded words is dropped (RFC 2047 section 6.2); words that are not well formed stay as they are.
 */
export function decodeWords(text: string): string {
  if (!text.includes('=?')) return text;
  let decoded = '';
  let run: Run | undefined;
  let at = 0;
  let count = 0;
  for (const match of text.matchAll(WORD)) {
    if (++count > MAX_WORDS) break;
    const [word, charsetAndLanguage = '', encoding, content = ''] = match;
    // RFC 2231 section 5: a language may follow the charset.
    const charset = (charsetAndLanguage.split('*', 1)[0] ?? '').toLowerCase();
    const between = text.slice(at, match.index);
    const adjacent = run !== undefined && /^\s*$/.test(between);
    if (!adjacent || run?.charset !== charset) {
      decoded += decodeRun(run);
      if (!adjacent) decoded += between;
      run = { charset, bytes: [] };
    }
    const isBase64 = encoding === 'b' || encoding === 'B';
    run.bytes.push(isBase64 ? Buffer.from(content, 'base64') : decodeQ(content));
    at = match.index + word.length;
  }
  return decoded + decodeRun(run) + text.slice(at);
}
