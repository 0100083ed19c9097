/**
 * What an app shows of a message without reading MIME: its text, its HTML, a preview of one line, and its
 * attachments.
 */
import { Buffer } from 'node:buffer';
import { Tokenizer } from 'htmlparser2';
import { type BodyStructure, MAX_DEPTH, type MessagePart, partFilename } from './structure.ts';
import { readPartText } from './text.ts';
import { createDecoder, decodePart } from './transfer-encoding.ts';

/** Characters of a preview. */
const PREVIEW_MAX = 200;
/** Octets that a preview is made from; in HTML, style sheets may come before the first word. */
const PREVIEW_PLAIN = 2 * 1024;
const PREVIEW_HTML = 64 * 1024;

/** The most characters of the HTML's text, more than a preview shows: some are invisible. */
const HTML_TEXT_MAX = 1_000;

/** Lines quoted from another message, as a reply has them. */
const QUOTED = /^>.*$/gm;

/** The texts of a message, with LF for line ends. */
export interface MessageTexts {
  /** The text/plain parts that are not attachments; absent where there are none. */
  readonly text?: string;
  readonly textTruncated?: true;
  /** The text/html parts likewise, as they were sent: whoever shows them must sanitize them. */
  readonly html?: string;
  readonly htmlTruncated?: true;
}

/**
 * Reads the texts of a message.
 *
 * @param most the most octets of each of the two
 */
export async function readMessageTexts(
  structure: MessagePart,
  most: number,
  open: OpenSource,
): Promise<MessageTexts> {
  const plain = await readInlineText(structure, 'text/plain', most, open);
  const html = await readInlineText(structure, 'text/html', most, open);
  return {
    ...(plain.text !== null && { text: plain.text }),
    ...(plain.truncated && { textTruncated: true as const }),
    ...(html.text !== null && { html: html.text }),
    ...(html.truncated && { htmlTruncated: true as const }),
  };
}

/**
 * The first {@link PREVIEW_MAX} characters that a reader would see, on one line. Lines quoted from another
 * message (`> `) are left out: they are not new.
 */
export async function readPreview(structure: MessagePart, open: OpenSource): Promise<string> {
  if (listTextParts(structure, 'text/plain').length > 0) {
    const { text } = await readInlineText(structure, 'text/plain', PREVIEW_PLAIN, open);
    const preview = toPreview((text ?? '').replace(QUOTED, ''));
    if (preview !== '') return preview;
  }
  const { text } = await readInlineText(structure, 'text/html', PREVIEW_HTML, open);
  return toPreview(htmlToText(text ?? '', HTML_TEXT_MAX));
}

/** The part that a preview is made from, and how many octets of it are enough. */
export function findPreviewPart(
  structure: BodyStructure,
): { readonly part: BodyStructure; readonly octets: number } | undefined {
  const [plain] = listTextParts(structure, 'text/plain');
  if (plain) return { part: plain, octets: 2 * PREVIEW_PLAIN };
  const [html] = listTextParts(structure, 'text/html');
  return html && { part: html, octets: 2 * PREVIEW_HTML };
}

/** A preview from the first octets of one part, as they are in the source. */
export function previewOf(part: BodyStructure, encoded: Buffer): string {
  const decoder = createDecoder(part.encoding);
  const decoded = Buffer.concat([decoder.write(encoded), decoder.end()]);
  const text = readPartText(part, decoded);
  return toPreview(
    part.type === 'text/html' ? htmlToText(text, HTML_TEXT_MAX) : text.replace(QUOTED, ''),
  );
}

function toPreview(text: string): string {
  // Most texts are longer: the rest of one is not looked at.
  const start = toLine(text.slice(0, 2 * PREVIEW_MAX));
  const line = start.length > PREVIEW_MAX ? start : toLine(text);
  if (line.length <= PREVIEW_MAX) return line;
  // A surrogate pair is kept whole or left out.
  return line.slice(0, PREVIEW_MAX).replace(/[\ud800-\udbff]$/, '');
}

function toLine(text: string): string {
  return text
    .replace(/[\s\p{Cc}\p{Default_Ignorable_Code_Point}]+/gu, ' ')
    .trim()
    .toWellFormed();
}

/** Reads the source of a message from `start` up to but not including `end`. */
export type OpenSource = (range: {
  readonly start: number;
  readonly end: number;
}) => AsyncIterable<Uint8Array>;

export interface Attachment {
  /** IMAP part number. */
  readonly part: string;
  readonly filename?: string;
  readonly contentType: string;
  /** Octets with the transfer encoding removed. */
  readonly size: number;
  /** Content-ID without its angle brackets, by which HTML refers to it (RFC 2392). */
  readonly contentId?: string;
  /** Meant to be shown within the message, not as a separate file (RFC 2183 section 2.1). */
  readonly inline: boolean;
}

/** Octets of source to read for one decoded octet: quoted-printable needs three, plus line ends. */
const ENCODED_PER_DECODED = 4;
const CONTENT_TYPE_MAX = 255;

type InlineType = 'text/plain' | 'text/html';

/** A tree of parts: as stored, or as a mail server describes it. */
type Part<Own> = Omit<BodyStructure, 'childNodes'> & { readonly childNodes?: readonly Own[] };

interface Leaves<Own> {
  readonly inline: Own[];
  readonly attached: { readonly part: Own; readonly isShown: boolean }[];
}

/**
 * Sorts the leaves as RFC 8621 section 4.1.4 does: a text part belongs to the body unless it says that it is an
 * attachment, is not the first in a multipart/related, or has a file name and is not the first of its
 * multipart. A message inside the message is one leaf. So is a multipart without parts. Where it names no boundary, or
 * its boundary never came, it is text, so that it can be read. Where it is nested too deep, it is an attachment.
 */
function sortLeaves<Own extends Part<Own>>(structure: Own): Leaves<Own> {
  const leaves: Leaves<Own> = { inline: [], attached: [] };
  const sort = (part: Own, index: number, isRelated: boolean, hasHtml: boolean, depth: number) => {
    const isMultipart = part.type.startsWith('multipart/');
    if (part.childNodes && isMultipart) {
      const related = part.type === 'multipart/related';
      const html = related && part.childNodes.some(holdsHtml);
      for (const [at, child] of part.childNodes.entries())
        sort(child, at, related, html, depth + 1);
      return;
    }
    const isInline =
      textTypeOf(part) !== undefined &&
      !(isMultipart && depth >= MAX_DEPTH) &&
      part.disposition !== 'attachment' &&
      (index === 0 || (!isRelated && partFilename(part) === undefined));
    if (isInline) leaves.inline.push(part);
    else leaves.attached.push({ part, isShown: hasHtml && isPicture(part) });
  };
  sort(structure, 0, false, false, 0);
  return leaves;
}

/** How a leaf is read, where it is text. */
function textTypeOf({ type }: Part<unknown>): InlineType | undefined {
  if (type === 'text/plain' || type === 'text/html') return type;
  return type.startsWith('multipart/') ? 'text/plain' : undefined;
}

function holdsHtml<Own extends Part<Own>>({ type, childNodes }: Own): boolean {
  return type === 'text/html' || childNodes?.some(holdsHtml) === true;
}

/** A picture that HTML beside it in a multipart/related can show, by its Content-ID (RFC 2387, RFC 2392). */
function isPicture({ type, id, disposition }: Part<unknown>): boolean {
  return type.startsWith('image/') && id !== undefined && disposition !== 'attachment';
}

/** Every leaf that belongs neither to `text` nor to `html`. */
export function listAttachments(structure: MessagePart): Attachment[] {
  return sortLeaves(structure).attached.map(({ part }) => {
    const filename = partFilename(part);
    const contentId = part.id?.replace(/^<|>$/g, '');
    return {
      part: part.part ?? '1',
      ...(filename !== undefined && { filename }),
      contentType: part.type.slice(0, CONTENT_TYPE_MAX),
      size: part.decodedSize,
      ...(contentId !== undefined && { contentId }),
      inline: part.disposition === 'inline' || (part.disposition === undefined && !!contentId),
    };
  });
}

/** Whether there are attachments, pictures that the HTML shows not counted. */
export function hasAttachments<Own extends Part<Own>>(structure: Own): boolean {
  return sortLeaves(structure).attached.some(({ isShown }) => !isShown);
}

/** The messages within a message that are not encoded, such as forwarded ones. */
export function listNestedMessages(structure: MessagePart): MessagePart[] {
  return sortLeaves(structure).attached.flatMap(({ part }) => part.childNodes ?? []);
}

/** The parts of one type that are the message's text, in order. */
export function listTextParts<Own extends Part<Own>>(structure: Own, type: InlineType): Own[] {
  return sortLeaves(structure).inline.filter((part) => textTypeOf(part) === type);
}

/**
 * Reads the parts of one type that are the message's text, one after the other, with LF for line
 * ends.
 *
 * @param most the most octets of decoded content that are read
 * @returns the text, null where there is no such part; `truncated` where it was not read to its end
 */
export async function readInlineText(
  structure: MessagePart,
  type: InlineType,
  most: number,
  open: OpenSource,
): Promise<{ text: string | null; truncated: boolean }> {
  const parts = listTextParts(structure, type);
  if (parts.length === 0) return { text: null, truncated: false };
  const texts: string[] = [];
  let left = most;
  for (const part of parts) {
    if (left <= 0) return { text: texts.join('\n'), truncated: true };
    const { bytes, truncated } = await readPart(part, left, open);
    left -= bytes.length;
    const text = readPartText(part, bytes);
    // A character that was cut decodes to at most one U+FFFD for each of its bytes.
    texts.push(truncated ? text.replace(/\ufffd{1,4}$/, '') : text);
    if (truncated) return { text: texts.join('\n'), truncated: true };
  }
  return { text: texts.join('\n'), truncated: false };
}

async function readPart(
  part: MessagePart,
  most: number,
  open: OpenSource,
): Promise<{ bytes: Buffer; truncated: boolean }> {
  // An encoding may hide little content in many octets.
  const end = Math.min(part.bodyEnd, part.bodyStart + most * ENCODED_PER_DECODED);
  const pieces: Buffer[] = [];
  if (end > part.bodyStart) {
    const source = open({ start: part.bodyStart, end });
    for await (const piece of decodePart(part.encoding, source, { start: 0, end: most })) {
      // A decoder may return memory that it reuses.
      pieces.push(Buffer.from(piece));
    }
  }
  const bytes = Buffer.concat(pieces);
  return { bytes, truncated: bytes.length < part.decodedSize };
}

/** Elements whose content is not text of the message. */
const HIDDEN = new Set([
  'script',
  'style',
  'head',
  'title',
  'template',
  'noscript',
  'svg',
  'object',
]);
/** Elements that begin and end a line. */
const BLOCKS = new Set(
  'address article aside blockquote body br center dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section table tr ul'.split(
    ' ',
  ),
);

/**
 * Removes the tags of HTML: block elements become lines, runs of white space one space. Takes linear time and
 * never throws, for any text: only tags are read, no tree is built.
 *
 * @param most characters of text after which reading stops
 * @returns lines joined by LF, without empty lines at the ends and never two empty lines in a row
 */
export function htmlToText(html: string, most = Number.POSITIVE_INFINITY): string {
  const pieces: string[] = [];
  let taken = 0;
  /** The hidden element that is open: text is dropped until it ends. */
  let hidden: string | undefined;
  const nameAt = (start: number, end: number) => html.slice(start, end).toLowerCase();
  const tokenizer = new Tokenizer(
    { decodeEntities: true },
    {
      onopentagname(start, end) {
        const name = nameAt(start, end);
        // A head that is never closed ends where the body begins.
        if (name === 'body' && hidden === 'head') hidden = undefined;
        else if (hidden === undefined && HIDDEN.has(name)) hidden = name;
        if (BLOCKS.has(name)) pieces.push('\n');
        else if (name === 'td' || name === 'th') pieces.push(' ');
      },
      onclosetag(start, end) {
        const name = nameAt(start, end);
        if (name === hidden) hidden = undefined;
        if (BLOCKS.has(name)) pieces.push('\n');
      },
      ontext(start, end) {
        // Line ends of the source are ordinary white space.
        if (hidden !== undefined) return;
        const text = html.slice(start, end).replace(/\s+/g, ' ');
        pieces.push(text);
        taken += text.trim().length;
        if (taken > most) tokenizer.pause();
      },
      ontextentity(codePoint) {
        if (hidden === undefined) pieces.push(String.fromCodePoint(codePoint));
      },
      onattribdata() {},
      onattribentity() {},
      onattribend() {},
      onattribname() {},
      oncdata() {},
      oncomment() {},
      ondeclaration() {},
      onend() {},
      onopentagend() {},
      onprocessinginstruction() {},
      onselfclosingtag() {},
    },
  );
  tokenizer.write(html);
  tokenizer.end();
  return pieces
    .join('')
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}
