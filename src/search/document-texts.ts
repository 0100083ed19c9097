/** Reads from a message in storage what of it is to be found, and makes texts of that. */
import type { Bodies, StoredBody } from '../bodies/bodies.ts';
import {
  createDecoder,
  decodeText,
  type Envelope,
  htmlToText,
  listAttachments,
  listTextParts,
  type Mailbox,
  type MessagePart,
} from '../message/message.ts';
import type { SearchDocument, TextPart } from './search-index.ts';
import type { DocumentTexts } from './terms.ts';

/** Octets of encoded text that are read of one message, all its parts together. */
const ENCODED_MAX = 512 * 1024;

export interface StoredMessage {
  readonly accountId: number;
  readonly bodyId: number;
  readonly date: number;
  readonly envelope: Envelope;
  readonly structure: MessagePart;
  readonly body: StoredBody;
}

/** @throws what the disk throws where the body's file cannot be read */
export async function readDocument(
  bodies: Pick<Bodies, 'read'>,
  message: StoredMessage,
): Promise<SearchDocument> {
  const { accountId, bodyId, date, envelope, structure, body } = message;
  const { from, to, cc, bcc } = envelope;
  return {
    accountId,
    bodyId,
    date,
    subject: envelope.subject ?? '',
    from: addressesText(from),
    to: addressesText([...(to ?? []), ...(cc ?? []), ...(bcc ?? [])]),
    attachmentNames: listAttachments(structure)
      .map(({ filename }) => filename ?? '')
      .join(' '),
    parts: await readTextParts(bodies, body, structure),
  };
}

function addressesText(mailboxes: readonly Mailbox[] | undefined): string {
  return (mailboxes ?? []).map(({ name, address }) => `${name ?? ''} ${address ?? ''}`).join(' ');
}

/** The plain text; the HTML only where there is none, since it mostly says the same. */
async function readTextParts(
  bodies: Pick<Bodies, 'read'>,
  body: StoredBody,
  structure: MessagePart,
): Promise<TextPart[]> {
  const plain = listTextParts(structure, 'text/plain');
  const html = plain.length > 0 ? [] : listTextParts(structure, 'text/html');
  const parts: TextPart[] = [];
  let left = ENCODED_MAX;
  for (const part of [...plain, ...html]) {
    if (left <= 0) break;
    const end = Math.min(part.bodyEnd, part.bodyStart + left);
    const pieces: Buffer[] = [];
    for await (const piece of bodies.read(body, { start: part.bodyStart, end })) {
      pieces.push(Buffer.from(piece));
    }
    const bytes = new Uint8Array(Buffer.concat(pieces));
    left -= bytes.length;
    const isHtml = part.type === 'text/html';
    parts.push({ html: isHtml, encoding: part.encoding, charset: part.parameters?.charset, bytes });
  }
  return parts;
}

/** Decodes the texts of a document: the work that the index's thread does. */
export function documentTexts(document: SearchDocument): DocumentTexts {
  const { subject, from, to, attachmentNames, parts } = document;
  const body = parts.map(({ html, encoding, charset, bytes }) => {
    const decoder = createDecoder(encoding);
    const decoded = [decoder.write(Buffer.from(bytes)), decoder.end()];
    const text = decodeText(Buffer.concat(decoded), charset);
    return html ? htmlToText(text) : text;
  });
  return { subject, from, to, body: [attachmentNames, ...body].join('\n') };
}
