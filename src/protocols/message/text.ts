/**
 * Turns bytes into text, for bodies, headers and parameters alike, so that one charset name means the same
 * everywhere in a message; and decodes the encoded words of headers (RFC 2047).
 */
import { Buffer, isAscii, isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import type { BodyStructure } from './structure.ts';
import { decodeUnicodeForm, isUnicodeForm } from './unicode-forms.ts';

/** Longest WHATWG encoding label is 19 characters; a longer name is no charset. */
const MAX_LABEL = 40;

/** Decoders by label, bounded by the number of labels that the Encoding Standard and {@link CODE_PAGES} know. */
const decoders = new Map<string, TextDecoder>();

/** Code pages of Windows that the standard knows by another name; Python and older mail programs write `cp932`. */
const CODE_PAGES: Readonly<Record<string, string>> = {
  874: 'windows-874',
  932: 'shift_jis',
  936: 'gbk',
  949: 'euc-kr',
  950: 'big5',
  65001: 'utf-8',
};

function decoderOf(charset: string): TextDecoder | undefined {
  if (charset.length > MAX_LABEL) return undefined;
  const label = charset.trim().toLowerCase();
  const known = decoders.get(label);
  if (known) return known;
  const [, page = ''] = /^(?:cp|ms|windows)[-_]?(\d{3,5})$/.exec(label) ?? [];
  try {
    const decoder = new TextDecoder(CODE_PAGES[page] ?? label);
    decoders.set(label, decoder);
    return decoder;
  } catch {
    // A RangeError: an unknown charset.
    return undefined;
  }
}

/** The default that senders forget to change (RFC 2045 section 5.2), and that Dovecot and Cyrus name where there is none. */
const ASCII = /^\s*(?:us-)?ascii\s*$/i;

/** Whether a charset says how bytes are read: `us-ascii` and an unknown one say as little as none. */
export function isTelling(charset: string): boolean {
  return !ASCII.test(charset) && (decoderOf(charset) !== undefined || isUnicodeForm(charset));
}

/** UTF-8 where the bytes are valid UTF-8, else windows-1252, in which every byte is a character. */
function guessText(bytes: Uint8Array): string {
  const decoder = decoderOf(isUtf8(bytes) ? 'utf-8' : 'windows-1252');
  return decoder ? decoder.decode(bytes) : Buffer.from(bytes).toString('latin1');
}

/**
 * Decodes the bytes of a text part (without transfer encoding) to a string. Never throws.
 *
 * Labels are those of the WHATWG Encoding Standard, UTF-7 and UTF-32; a byte order mark tells the order of UTF-16
 * (RFC 2781 section 4.3). An unknown charset, none, and us-ascii are read as UTF-8 if that is valid, else as
 * windows-1252. Bytes that a known charset does not have become U+FFFD.
 */
export function decodeText(bytes: Uint8Array, charset?: string): string {
  if (charset === undefined || ASCII.test(charset)) return guessText(bytes);
  const isBigEndian = bytes[0] === 0xfe && bytes[1] === 0xff && /^\s*utf-?16\s*$/i.test(charset);
  const decoder = decoderOf(isBigEndian ? 'utf-16be' : charset);
  if (decoder) return decoder.decode(bytes);
  return decodeUnicodeForm(bytes, charset) ?? guessText(bytes);
}

/**
 * Decodes header text that is kept with one character per byte: raw UTF-8 headers (RFC 6532
 * section 3.2) are read as such, other 8-bit text as windows-1252.
 */
export function decodeRawHeader(raw: string): string {
  return /[\x80-\xff]/.test(raw) ? guessText(Buffer.from(raw, 'latin1')) : raw;
}

/**
 * Makes decoded header text one line that any reader accepts: encoded words may have put control characters (C0,
 * DEL, C1) and halves of surrogate pairs into it.
 */
export function cleanText(text: string): string {
  return text
    .replace(/[\x00-\x1f\x7f-\x9f]+/g, ' ')
    .trim()
    .toWellFormed();
}

/**
 * `=?charset?B or Q?text?=`. Spaces in the text are forbidden (RFC 2047 section 2) but common.
 * No two quantifiers can match the same character, so the search is linear.
 */
const WORD = /=\?([^?\s]{1,60})\?([bq])\?([^?]*)\?=/gi;

/** The most encoded words: 64 KB of header have fewer of the 75 characters that RFC 2047 section 2 allows. */
const MAX_WORDS = 1_000;

/**
 * The bytes of text that is kept with one character per byte, with `=XX` or `%XX` for the byte of that number. A
 * mark without two digits is text.
 */
export function decodeHex(raw: string, mark: '=' | '%'): Buffer {
  const pattern = mark === '=' ? /=([\da-f]{2})/gi : /%([\da-f]{2})/gi;
  const byteOf = (_: string, digits: string) => String.fromCharCode(Number.parseInt(digits, 16));
  return Buffer.from(raw.replace(pattern, byteOf), 'latin1');
}

/** RFC 2047 section 4.2: `_` is a space. */
function decodeQ(text: string): Buffer {
  return decodeHex(Buffer.from(text).toString('latin1').replaceAll('_', ' '), '=');
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
 * Decodes every encoded word of a header text. White space between two encoded words is dropped (RFC 2047 section
 * 6.2); malformed words are not changed.
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

const SHOWN_MAX = 500;

/** Makes hostile text one line for people: no control characters, at most 500 characters. */
export function oneLine(text: string): string {
  return text
    .slice(0, 4 * SHOWN_MAX)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim()
    .slice(0, SHOWN_MAX)
    .toWellFormed();
}

/*
 * Line ends for SMTP: every line of a message ends in CRLF, and neither CR nor LF occurs alone (RFC 5321 section
 * 2.3.8).
 */

const CRLF = '\r\n';

/** Turns a bare CR or LF into a line end, chunk by chunk; the chunks make no difference. */
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

/*
 * The text of a part as a reader sees it, from its decoded bytes: its charset, of HTML also where only the document
 * names it, and the paragraphs of format=flowed (RFC 3676).
 */

/** @param bytes without transfer encoding; LF for line ends in the result */
export function readPartText(
  { type, parameters = {} }: Pick<BodyStructure, 'type' | 'parameters'>,
  bytes: Uint8Array,
): string {
  const isHtml = type === 'text/html';
  const given = parameters.charset;
  const isTold = given !== undefined && isTelling(given);
  const charset = isHtml && !isTold ? charsetOfHtml(bytes) : given;
  const text = decodeText(bytes, charset).replace(/\r\n?/g, '\n');
  const isFlowed = type === 'text/plain' && parameters.format?.toLowerCase() === 'flowed';
  return isFlowed ? joinFlowed(text, parameters.delsp?.toLowerCase() === 'yes') : text;
}

/** Octets in which a document names its charset (HTML standard, 13.2.3.2). */
const PRESCAN = 1_024;
const COMMENT = /<!--[\s\S]*?(?:-->|$)/g;
const META = /<meta\s[^>]*?charset\s*=\s*["']?\s*([^\s"'>;]{1,40})/i;
/** What a document that names it in ASCII cannot be, and UTF-7, which no browser reads. */
const IMPOSSIBLE = /^(?:utf-?(?:7|16|32)|ucs-)/i;

/**
 * The charset that a document names in itself. Text that is UTF-8 beyond ASCII is UTF-8: many documents were converted,
 * and still name what they were before.
 */
function charsetOfHtml(bytes: Uint8Array): string | undefined {
  const start = Buffer.from(bytes.subarray(0, PRESCAN)).toString('latin1');
  const named = META.exec(start.replace(COMMENT, ''))?.[1];
  if (named === undefined || IMPOSSIBLE.test(named)) return undefined;
  return isUtf8(bytes) && !isAscii(bytes) ? undefined : named;
}

/**
 * Joins the lines of each paragraph (RFC 3676 section 4.2): a line that ends in a space goes on in the next one of the
 * same quote depth. Only the line before a signature, `-- `, ends in a space and does not (section 4.3).
 *
 * @param dropsSpace DelSp=yes: the space at the end is not part of the text, as in scripts without spaces
 */
function joinFlowed(text: string, dropsSpace: boolean): string {
  let joined = '';
  /** The depth of the paragraph that goes on. */
  let open: number | undefined;
  for (const line of text.split('\n')) {
    let depth = 0;
    while (line[depth] === '>') depth++;
    const marks = line.slice(0, depth);
    // A space may stuff the line (section 4.4).
    const content = line.slice(line[depth] === ' ' ? depth + 1 : depth);
    const isSignature = content === '-- ';
    const continues = content.endsWith(' ') && !isSignature;
    const written = continues && dropsSpace ? content.slice(0, -1) : content;
    if (open !== depth || isSignature)
      joined += depth > 0 && written !== '' ? `\n${marks} ` : `\n${marks}`;
    joined += written;
    open = continues ? depth : undefined;
  }
  // The first line has a line end in front of it, too.
  return joined.slice(1);
}
