/**
 * The text of a part as a reader sees it, from its decoded bytes: its charset, of HTML also where only the document
 * names it, and the paragraphs of format=flowed (RFC 3676).
 */
import { Buffer, isAscii, isUtf8 } from 'node:buffer';
import type { BodyStructure } from './structure.ts';
import { decodeText, isTelling } from './text.ts';

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

/** Marks of quoting, and the space that stuffs a line (RFC 3676 section 4.4 and 4.5). */
const QUOTED_LINE = /^(>*) ?(.*)$/s;

/**
 * Joins the lines of each paragraph (RFC 3676 section 4.2): a line that ends in a space goes on in the next one of the
 * same quote depth. Only the line before a signature, `-- `, ends in a space and does not (section 4.3).
 *
 * @param dropsSpace DelSp=yes: the space at the end is not part of the text, as in scripts without spaces
 */
function joinFlowed(text: string, dropsSpace: boolean): string {
  const lines: string[] = [];
  /** The depth of the paragraph that goes on. */
  let open: number | undefined;
  for (const line of text.split('\n')) {
    const [, marks = '', content = ''] = QUOTED_LINE.exec(line) ?? [];
    const depth = marks.length;
    const isSignature = content === '-- ';
    const continues = content.endsWith(' ') && !isSignature;
    const written = continues && dropsSpace ? content.slice(0, -1) : content;
    if (open === depth && !isSignature) lines.push(written);
    else lines.push('\n', depth > 0 && written !== '' ? `${marks} ` : marks, written);
    open = continues ? depth : undefined;
  }
  // The first line has a line end in front of it, too.
  return lines.slice(1).join('');
}
