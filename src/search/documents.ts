/** What of a message is indexed, on either engine, and what an index offers. */
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
import { type DocumentTexts, documentTerms, type QueryTerm } from './terms.ts';

/** A part of a message that is text, as it stands in the source. */
export interface TextPart {
  readonly html: boolean;
  /** Content-Transfer-Encoding, as the structure has it. */
  readonly encoding: string;
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** What of one message is to be indexed. Plain data: it is handed to a thread. */
export interface SearchDocument {
  readonly accountId: number;
  readonly bodyId: number;
  /** INTERNALDATE, milliseconds since 1970. */
  readonly date: number;
  readonly subject: string;
  readonly from: string;
  /** To, Cc and Bcc. */
  readonly to: string;
  readonly attachmentNames: string;
  readonly parts: readonly TextPart[];
}

export type SearchChange =
  | { readonly kind: 'add'; readonly document: SearchDocument }
  /** The account has no message of this body any more. */
  | { readonly kind: 'remove'; readonly accountId: number; readonly bodyId: number }
  /** The account is gone. */
  | { readonly kind: 'forget'; readonly accountId: number };

/** A message that matches: whoever asks finds the mailboxes that hold its body. */
export interface Hit {
  readonly id: number;
  readonly bodyId: number;
  readonly date: number;
}

/** Where a page ended; hits come newest first, and of one date the latest id first. */
export type HitPlace = Pick<Hit, 'date' | 'id'>;

export interface FindRequest {
  readonly accountId: number;
  /** All must be in the message; at least one. */
  readonly terms: readonly QueryTerm[];
  /** Only hits behind this one. */
  readonly after?: HitPlace | undefined;
  readonly limit: number;
}

export interface SearchIndex {
  /**
   * Makes changes in their order. They are in the index when this resolves, and twice the same change
   * is as good as once.
   *
   * @param position of the last of them in the queue; kept in the index with them
   * @returns messages that could not be read; they hold up no others
   */
  apply(changes: readonly SearchChange[], position: number): Promise<readonly Unreadable[]>;
  find(request: FindRequest): Promise<Hit[]>;
}

/* Reads from a message in storage what of it is to be found, and makes texts of that. */

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

/** A message that cannot be found by its words. */
export interface Unreadable {
  readonly accountId: number;
  readonly bodyId: number;
  readonly failure: string;
}

/** The terms of a document: the work that the index's thread does. One that throws has none. */
export function tryTerms(document: SearchDocument): { terms: string[]; unreadable?: Unreadable } {
  const { accountId, bodyId } = document;
  try {
    return { terms: documentTerms(accountId, documentTexts(document)) };
  } catch (error) {
    return { terms: [], unreadable: { accountId, bodyId, failure: String(error) } };
  }
}

function documentTexts(document: SearchDocument): DocumentTexts {
  const { subject, from, to, attachmentNames, parts } = document;
  const body = parts.map(({ html, encoding, charset, bytes }) => {
    const decoder = createDecoder(encoding);
    const decoded = [decoder.write(Buffer.from(bytes)), decoder.end()];
    const text = decodeText(Buffer.concat(decoded), charset);
    return html ? htmlToText(text) : text;
  });
  return { subject, from, to, body: [attachmentNames, ...body].join('\n') };
}
