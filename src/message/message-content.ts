/** What an app shows of a message without reading MIME: its text, its HTML, a line of preview. */
import { listTextParts, type OpenSource, readInlineText } from './content-parts.ts';
import { htmlToText } from './html-text.ts';
import type { MessagePart } from './structure.ts';

/** Characters of a preview. */
const PREVIEW_MAX = 200;
/** Octets that a preview is made of; style sheets may stand before the first word of HTML. */
const PREVIEW_PLAIN = 2 * 1024;
const PREVIEW_HTML = 64 * 1024;

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
    const preview = toPreview((text ?? '').replace(/^>.*$/gm, ''));
    if (preview !== '') return preview;
  }
  const { text } = await readInlineText(structure, 'text/html', PREVIEW_HTML, open);
  return toPreview(htmlToText(text ?? ''));
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
