/** What of a message is its text, and what is attached to it. */
import { Buffer } from 'node:buffer';
import { decodePart, decodeText, type MessagePart, partFilename } from '../message/message.ts';

/** Reads the source of a message from `start` up to but not including `end`. */
export type OpenSource = (range: {
  readonly start: number;
  readonly end: number;
}) => AsyncIterable<Uint8Array>;

export interface Attachment {
  readonly filename: string | null;
  readonly content_type: string;
  /** Octets with the transfer encoding removed. */
  readonly size: number;
  /** IMAP part number. */
  readonly part: string;
}

/** Octets of a source that are read for one decoded: quoted-printable takes three, and line ends. */
const ENCODED_PER_DECODED = 4;
const CONTENT_TYPE_MAX = 255;

type InlineType = 'text/plain' | 'text/html';

interface Leaves {
  readonly inline: MessagePart[];
  readonly attached: MessagePart[];
}

/**
 * Sorts the leaves as RFC 8621 section 4.1.4 does: a text part is part of the body unless it says
 * that it is an attachment, stands behind the first in a multipart/related, or has a file name and
 * is not the first of its multipart. A message in the message is one leaf.
 */
function sortLeaves(structure: MessagePart): Leaves {
  const leaves: Leaves = { inline: [], attached: [] };
  const sort = (part: MessagePart, index: number, parent: string) => {
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
  return sortLeaves(structure).attached.map((part) => ({
    filename: partFilename(part) ?? null,
    content_type: part.type.slice(0, CONTENT_TYPE_MAX),
    size: part.decodedSize,
    part: part.part ?? '1',
  }));
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
  const parts = sortLeaves(structure).inline.filter((part) => part.type === type);
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
