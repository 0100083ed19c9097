/** What an app shows of a message without reading MIME: its text, its HTML, a line of preview. */
import { listTextParts, type OpenSource, readInlineText } from './content-parts.ts';
import { htmlToText } from './html-text.ts';
import type { BodyStructure, MessagePart } from './structure.ts';
import { decodeText } from './text.ts';
import { createDecoder } from './transfer-encoding.ts';

/** Characters of a preview. */
const PREVIEW_MAX = 200;
/** Octets that a preview is made of; style sheets may stand before the first word of HTML. */
const PREVIEW_PLAIN = 2 * 1024;
const PREVIEW_HTML = 64 * 1024;

/** Lines of another message, as a reply has them. */
const QUOTED = /^>.*$/gm;

/** What a message says, with LF for line ends. */
export interface MessageTexts {
  /** The text/plain parts that are no attachments; absent where there are none. */
  readonly text?: string;
  readonly textTruncated?: true;
  /** The text/html parts likewise, as they were sent: whoever shows them has to make them safe. */
  readonly html?: string;
  readonly htmlTruncated?: true;
}

/**
 * Reads the texts of a message.
 *
 * @param most octets of each of both at most
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
 * The first {@link PREVIEW_MAX} characters of what a reader would see, on one line. Lines that quote
 * another message (`> `) are left out: they are not what is new.
 */
export async function readPreview(structure: MessagePart, open: OpenSource): Promise<string> {
  if (listTextParts(structure, 'text/plain').length > 0) {
    const { text } = await readInlineText(structure, 'text/plain', PREVIEW_PLAIN, open);
    const preview = toPreview((text ?? '').replace(QUOTED, ''));
    if (preview !== '') return preview;
  }
  const { text } = await readInlineText(structure, 'text/html', PREVIEW_HTML, open);
  return toPreview(htmlToText(text ?? ''));
}

/** The part that a preview is made of, and how many octets of it are enough. */
export function findPreviewPart(
  structure: BodyStructure,
): { readonly part: BodyStructure; readonly octets: number } | undefined {
  const [plain] = listTextParts(structure, 'text/plain');
  if (plain) return { part: plain, octets: 2 * PREVIEW_PLAIN };
  const [html] = listTextParts(structure, 'text/html');
  return html && { part: html, octets: 2 * PREVIEW_HTML };
}

/** A preview of the first octets of one part, as they stand in the source. */
export function previewOf(part: BodyStructure, encoded: Buffer): string {
  const decoder = createDecoder(part.encoding);
  const decoded = Buffer.concat([decoder.write(encoded), decoder.end()]);
  const text = decodeText(decoded, part.parameters?.charset);
  return toPreview(part.type === 'text/html' ? htmlToText(text) : text.replace(QUOTED, ''));
}

function toPreview(text: string): string {
  const line = text
    .replace(/[\s\p{Cc}\p{Default_Ignorable_Code_Point}]+/gu, ' ')
    .trim()
    .toWellFormed();
  if (line.length <= PREVIEW_MAX) return line;
  // A surrogate pair is kept whole or left out.
  return line.slice(0, PREVIEW_MAX).replace(/[\ud800-\udbff]$/, '');
}
