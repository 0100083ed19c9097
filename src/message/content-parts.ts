/** What of a message is its text, and what is attached to it. */
import { Buffer } from 'node:buffer';
import { type BodyStructure, type MessagePart, partFilename } from './structure.ts';
import { decodeText } from './text.ts';
import { decodePart } from './transfer-encoding.ts';

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
  /** Meant to be shown within the message, not as a file beside it (RFC 2183 section 2.1). */
  readonly inline: boolean;
}

/** Octets of a source that are read for one decoded: quoted-printable takes three, and line ends. */
const ENCODED_PER_DECODED = 4;
const CONTENT_TYPE_MAX = 255;

type InlineType = 'text/plain' | 'text/html';

/** A tree of parts: as it is stored, or as a mail server tells it. */
type Part<Own> = Omit<BodyStructure, 'childNodes'> & { readonly childNodes?: readonly Own[] };

interface Leaves<Own> {
  readonly inline: Own[];
  readonly attached: Own[];
}

/**
 * Sorts the leaves as RFC 8621 section 4.1.4 does: a text part is part of the body unless it says
 * that it is an attachment, stands behind the first in a multipart/related, or has a file name and
 * is not the first of its multipart. A message in the message is one leaf.
 */
function sortLeaves<Own extends Part<Own>>(structure: Own): Leaves<Own> {
  const leaves: Leaves<Own> = { inline: [], attached: [] };
  const sort = (part: Own, index: number, parent: string) => {
    // A multipart whose boundary never came has no parts: it is a leaf.
    if (part.childNodes && part.type.startsWith('multipart/')) {
      for (const [at, child] of part.childNodes.entries()) sort(child, at, part.type);
      return;
    }
    const isText = part.type === 'text/plain' || part.type === 'text/html';
    const isFirst = index === 0;
    const hasName = partFilename(part) !== undefined;
    const isInline =
      isText &&
      part.disposition !== 'attachment' &&
      (isFirst || (parent !== 'multipart/related' && !hasName));
    (isInline ? leaves.inline : leaves.attached).push(part);
  };
  sort(structure, 0, '');
  return leaves;
}

/** Every leaf that is no part of `text` or `html`. */
export function listAttachments(structure: MessagePart): Attachment[] {
  return sortLeaves(structure).attached.map((part) => {
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

/** Whether anything is attached, pictures within the text included. */
export function hasAttachments<Own extends Part<Own>>(structure: Own): boolean {
  return sortLeaves(structure).attached.length > 0;
}

/** The parts of one type that are the message's text, in their order. */
export function listTextParts<Own extends Part<Own>>(structure: Own, type: InlineType): Own[] {
  return sortLeaves(structure).inline.filter((part) => part.type === type);
}

/**
 * Reads the parts of one type that are the message's text, one after the other, with LF for line
 * ends.
 *
 * @param most octets of decoded content that are read at most
 * @returns the text, null where there is no such part; `truncated` where not all of it was read
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
    const text = decodeText(bytes, part.parameters?.charset);
    // A character that was cut reads as U+FFFD, once for each of its bytes at most.
    texts.push((truncated ? text.replace(/\ufffd{1,4}$/, '') : text).replace(/\r\n?/g, '\n'));
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
      // A decoder may give the memory that it will use again.
      pieces.push(Buffer.from(piece));
    }
  }
  const bytes = Buffer.concat(pieces);
  return { bytes, truncated: bytes.length < part.decodedSize };
}
